package domain

import (
	"bytes"
	"crypto/sha256"
	"math/bits"
	"strings"
	"testing"
)

func loggedAttempt(n int) AttemptMade {
	return AttemptMade{
		EventID: EventPrefix + "1",
		Number:  n,
		Result:  AttemptResult{SentAtMillis: int64(n), StatusCode: 500, ResponseBody: []byte("no")},
		Entry: LogEntry{
			BodySHA256:      bytes.Repeat([]byte{1}, sha256.Size),
			SignatureSHA256: bytes.Repeat([]byte{2}, sha256.Size),
		},
	}
}

// treeHash is MTH as defined in RFC 6962, section 2.1.
func treeHash(leaves [][sha256.Size]byte) [sha256.Size]byte {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1 << (bits.Len(uint(len(leaves)-1)) - 1)
	left := treeHash(leaves[:k])
	return nodeHash(left[:], treeHash(leaves[k:]))
}

func (l AttemptLog) root() [sha256.Size]byte {
	hash := [sha256.Size]byte(l.Peaks[len(l.Peaks)-sha256.Size:])
	for at := len(l.Peaks) - 2*sha256.Size; at >= 0; at -= sha256.Size {
		hash = nodeHash(l.Peaks[at:at+sha256.Size], hash)
	}
	return hash
}

func TestALogIsTheTreeOfItsAttempts(t *testing.T) {
	var endpoint Endpoint
	var leaves [][sha256.Size]byte
	for n := 1; n <= 300; n++ {
		made := loggedAttempt(n)
		made.Entry = endpoint.Log.next(endpoint.Version+1, "ep_1", made)
		before := bytes.Clone(endpoint.Log.Peaks)
		kept := endpoint
		endpoint = evolveEndpoint(endpoint, Fact{Version: endpoint.Version + 1, Body: made})
		leaves = append(leaves, leafHash(made.Record("ep_1").Text()))
		log := endpoint.Log
		if log.From != 1 || log.Size != uint64(n) ||
			len(log.Peaks) != bits.OnesCount(uint(n))*sha256.Size || log.root() != treeHash(leaves) {
			t.Fatalf("after %d attempts the log is %+v, and its root not that of the tree", n, log)
		}
		if !bytes.Equal(kept.Log.Peaks, before) {
			t.Fatalf("attempt %d changed the state that it was folded into", n)
		}
	}
}

// An attempt without an entry comes from an engine that had no logs. It ends the log, and the
// attempts after it belong to a new log.
func TestALogHasEveryAttempt(t *testing.T) {
	var endpoint Endpoint
	attempt := func(logged bool) LogEntry {
		made := loggedAttempt(1)
		if logged {
			made.Entry = endpoint.Log.next(endpoint.Version+1, "ep_1", made)
		}
		endpoint = evolveEndpoint(endpoint, Fact{Version: endpoint.Version + 1, Body: made})
		return made.Entry
	}
	first, second := attempt(true), attempt(true)
	attempt(false)
	other := attempt(true)
	if first.From != 1 || second.From != 1 || second.Number != 2 || other.From != 4 ||
		other.Number != 1 {
		t.Errorf("the entries are %+v, %+v, and after one without %+v", first, second, other)
	}
	for _, wrong := range []LogEntry{
		{From: 4, Number: 3, Hashes: make([]byte, sha256.Size)},
		{From: 5, Number: 2, Hashes: make([]byte, sha256.Size)},
		{From: 4, Number: 2},
		{From: 4, Number: 2, Hashes: make([]byte, 3*sha256.Size)},
	} {
		if log := endpoint.Log.with(wrong); log.Size != 0 {
			t.Errorf("%+v was taken into the log: %+v", wrong, log)
		}
	}
}

func TestADeletedEndpointsLogGoesOn(t *testing.T) {
	endpoint := Endpoint{Version: 1, Status: StatusDeleted}
	made := loggedAttempt(1)
	made.Entry = endpoint.Log.next(2, "ep_1", made)
	if log := evolveEndpoint(endpoint, Fact{Version: 2, Body: made}).Log; log.Size != 1 {
		t.Errorf("the log is %+v", log)
	}
}

// The text format of an attempt is permanent.
func TestTheTextOfAnAttempt(t *testing.T) {
	made := loggedAttempt(3)
	made.Result.Error, made.Result.DurationMillis = AttemptTimeout, 12
	want := "lumenhook-attempt v1\n" +
		"event evt_1\n" +
		"endpoint ep_1\n" +
		"attempt 3\n" +
		"sent-at-ms 3\n" +
		"duration-ms 12\n" +
		"body-sha256 " + strings.Repeat("01", sha256.Size) + "\n" +
		"signature-sha256 " + strings.Repeat("02", sha256.Size) + "\n" +
		"answer 500 TIMEOUT\n" +
		"answer-sha256 9390298f3fb0c5b160498935d79cb139aef28e1c47358b4bbba61862b9c26e59\n"
	if got := string(made.Record("ep_1").Text()); got != want {
		t.Errorf("it is\n%s\nand not\n%s", got, want)
	}
}

// BenchmarkAttemptLog measures the cost of receipts per attempt. The dispatcher hashes a body of
// 1 KiB and its signature. The engine computes the leaf and the subtrees that it completes, and
// folds them. For comparison, the last benchmark measures the whole decision and fold of an
// attempt, including the leaf.
func BenchmarkAttemptLog(b *testing.B) {
	body, signature := bytes.Repeat([]byte("x"), 1024), strings.Repeat("y", 67)
	b.Run("hashes of the request", func(b *testing.B) {
		for b.Loop() {
			_, _ = sha256.Sum256(body), sha256.Sum256([]byte(signature))
		}
	})
	made := loggedAttempt(1)
	b.Run("leaf and fold", func(b *testing.B) {
		var log AttemptLog
		for b.Loop() {
			log = log.with(log.next(1, "ep_1", made))
		}
	})
	b.Run("the whole attempt", func(b *testing.B) {
		endpoint := Endpoint{ID: "ep_1", AccountID: "acc_1", Status: StatusActive}
		delivery := Delivery{EventID: made.EventID, EndpointID: "ep_1", Version: 1, Run: 1}
		result := made.Result
		result.BodySHA256, result.SignatureSHA256 = made.Entry.BodySHA256, made.Entry.SignatureSHA256
		for b.Loop() {
			delivery.State = StateQueued // always due, whatever the schedule says
			facts := DecideAttempt(endpoint, delivery, delivery.Attempts+1, result, Policy{}, 0)
			endpoint, delivery = EvolveEndpoint(endpoint, delivery,
				Fact{Aggregate: "ep_1", Version: endpoint.Version + 1, Body: facts[0]})
		}
	})
}
