package receipt_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
)

var (
	eventID = domain.DeriveID(domain.EventPrefix, "1")
	name    = receipt.Name{
		AccountID:  domain.DeriveID(domain.AccountPrefix, "1"),
		EndpointID: domain.DeriveID(domain.EndpointPrefix, "1"),
		From:       7,
	}
	private  = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	stranger = ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize)))
)

// log is a log as the engine and the history create it: folded facts and their hashes.
type log struct {
	endpoint domain.Endpoint
	delivery domain.Delivery
	hashes   map[uint64][]byte
	made     []domain.AttemptMade
}

// newLog returns a log of attempts of one delivery, decided and folded like in the engine.
func newLog(t testing.TB, attempts int) *log {
	t.Helper()
	l := &log{
		endpoint: domain.Endpoint{
			ID: name.EndpointID, AccountID: name.AccountID, Version: name.From - 1,
			Status: domain.StatusActive,
		},
		delivery: domain.Delivery{
			EventID:    eventID,
			EndpointID: name.EndpointID,
			State:      domain.StateQueued,
			Version:    1,
			Run:        1,
		},
		hashes: make(map[uint64][]byte),
	}
	for range attempts {
		l.attempt(t, 500)
	}
	return l
}

func (l *log) attempt(t testing.TB, status int) {
	t.Helper()
	body, signature := sha256.Sum256([]byte("body")), sha256.Sum256([]byte("v1=…"))
	l.delivery.State = domain.StateQueued // so that another attempt is made
	facts := domain.DecideAttempt(l.endpoint, l.delivery, l.delivery.Attempts+1, domain.AttemptResult{
		SentAtMillis:    int64(1000 + len(l.made)),
		StatusCode:      status,
		ResponseBody:    []byte("no"),
		BodySHA256:      body[:],
		SignatureSHA256: signature[:],
	}, domain.Policy{}, 0)
	if len(facts) == 0 {
		t.Fatal("the attempt is not awaited")
	}
	made := facts[0].(domain.AttemptMade)
	l.endpoint, l.delivery = domain.EvolveEndpoint(l.endpoint, l.delivery, domain.Fact{
		Aggregate: name.EndpointID,
		Version:   l.endpoint.Version + 1,
		Body:      made,
	})
	l.made = append(l.made, made)
	l.hashes[made.Entry.Number] = made.Entry.Hashes
}

func (l *log) read(leaves []uint64) (map[uint64][]byte, error) { return l.hashes, nil }

func (l *log) prove(earlier uint64, numbers ...int) (receipt.Log, error) {
	var logged []receipt.Logged
	for _, n := range numbers {
		made := l.made[n-1]
		logged = append(logged, receipt.Logged{
			Record: made.Record(name.EndpointID),
			Number: made.Entry.Number,
		})
	}
	return receipt.Prove(name, uint64(len(l.made)), earlier, logged, l.read,
		[]domain.Secret{domain.Secret(private)})
}

// receipt returns a receipt for some attempts, as JSON.
func (l *log) receipt(t testing.TB, earlier uint64, numbers ...int) []byte {
	t.Helper()
	proved, err := l.prove(earlier, numbers...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(receipt.Receipt{
		Format:  receipt.Format,
		EventID: eventID,
		Logs:    []receipt.Log{proved},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func keysOf(t testing.TB, of ...ed25519.PrivateKey) receipt.Keys {
	t.Helper()
	var list []string
	for _, k := range of {
		list = append(list, `{"kty":"OKP","crv":"Ed25519","x":"`+
			base64.RawURLEncoding.EncodeToString(k.Public().(ed25519.PublicKey))+`"}`)
	}
	keys, err := receipt.ParseKeys([]byte(`{"keys":[` + strings.Join(list, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestEveryAttemptIsProved checks each attempt, and each earlier state, in logs of every size up to
// 70.
func TestEveryAttemptIsProved(t *testing.T) {
	l, keys := newLog(t, 0), keysOf(t, private)
	for size := 1; size <= 70; size++ {
		l.attempt(t, 500)
		for n := 1; n <= size; n++ {
			p, err := receipt.Verify(l.receipt(t, uint64(n), n), keys)
			if err != nil {
				t.Fatalf("attempt %d of %d: %v", n, size, err)
			}
			if of := p.Logs[0]; of.Log != name || of.Size != int64(size) || of.Earlier.Size != int64(n) {
				t.Fatalf("attempt %d of %d is proved of %+v", n, size, of)
			}
		}
	}
}

// The domain's tree must be the same as that of golang.org/x/mod.
func TestTheTreeIsTheLibrarys(t *testing.T) {
	l := newLog(t, 130)
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		var hashes []tlog.Hash
		for _, i := range indexes {
			hashes = append(hashes, stored[i])
		}
		return hashes, nil
	})
	for i, made := range l.made {
		hashes, err := tlog.StoredHashes(int64(i), made.Record(name.EndpointID).Text(), reader)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		for _, h := range hashes {
			want = append(want, h[:]...)
		}
		if !reflect.DeepEqual(made.Entry.Hashes, want) {
			t.Fatalf("leaf %d adds %x, and by the library %x", i, made.Entry.Hashes, want)
		}
		stored = append(stored, hashes...)
	}
}

func TestNothingOfAReceiptCanBeChanged(t *testing.T) {
	l, keys := newLog(t, 11), keysOf(t, private)
	var whole any
	if err := json.Unmarshal(l.receipt(t, 5, 3, 9), &whole); err != nil {
		t.Fatal(err)
	}
	changed := 0
	var change func(path string, at any, put func(any))
	try := func(path string, put func(any), old, other any) {
		put(other)
		text, err := json.Marshal(whole)
		put(old)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := receipt.Verify(text, keys); err == nil {
			t.Errorf("%s may be %v in place of %v", path, other, old)
		}
		changed++
	}
	change = func(path string, at any, put func(any)) {
		switch v := at.(type) {
		case map[string]any:
			for key, value := range v {
				change(path+"/"+key, value, func(other any) { v[key] = other })
			}
			v["more"] = 1
			try(path+"/more", func(any) {}, nil, nil)
			delete(v, "more")
		case []any:
			for i, value := range v {
				change(fmt.Sprint(path, "/", i), value, func(other any) { v[i] = other })
			}
			if len(v) > 0 && strings.HasSuffix(path, "proof") {
				try(path, put, v, v[1:])
				try(path, put, v, append([]any{v[0]}, v...))
			}
		case string:
			try(path, put, v, v+"0")
			if v != "" {
				try(path, put, v, v[1:])
				try(path, put, v, strings.Replace(v, v[len(v)/2:len(v)/2+1], "?", 1))
			}
		case float64:
			try(path, put, v, v+1)
			try(path, put, v, v-1)
		}
	}
	change("", whole, func(any) {})
	if changed < 100 {
		t.Errorf("only %d changes were tried", changed)
	}
	text, _ := json.Marshal(whole)
	if _, err := receipt.Verify(text, keys); err != nil {
		t.Errorf("unchanged it is refused: %v", err)
	}
}

// Valid proofs that occur twice or out of order, or under names that occur twice or in different
// case, must be refused. Otherwise a reader could count or see what was not proved.
func TestNothingCountsTwice(t *testing.T) {
	l, keys := newLog(t, 11), keysOf(t, private)
	text := string(l.receipt(t, 0, 3, 9))
	var whole receipt.Receipt
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		t.Fatal(err)
	}
	log := whole.Logs[0]
	third, ninth := log.Attempts[0], log.Attempts[1]
	of := func(attempts ...receipt.Attempt) receipt.Log {
		return receipt.Log{Checkpoint: log.Checkpoint, Attempts: attempts}
	}
	made := func(logs ...receipt.Log) string {
		text, err := json.Marshal(receipt.Receipt{Format: whole.Format, EventID: eventID, Logs: logs})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for what, c := range map[string][2]string{
		"an attempt twice":        {made(of(third, third, ninth)), "attempt 3 occurs twice"},
		"an attempt twice, later": {made(of(third, ninth, third)), "attempt 3 occurs twice"},
		"a log twice":             {made(of(third), of(ninth)), "the log " + name.String() + " occurs twice"},
		"a whole log twice":       {made(log, log), "occurs twice"},
		"another order":           {made(of(ninth, third)), "not in the order"},
		"a name twice": {
			strings.Replace(text, `"number":3`, `"number":4,"number":3`, 1), "duplicate",
		},
		"a name in other letters": {
			strings.Replace(text, `"number":3`, `"Number":4,"number":3`, 1), "unknown",
		},
		"two receipts": {text + text, "after top-level value"},
	} {
		_, err := receipt.Verify([]byte(c[0]), keys)
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := receipt.Verify([]byte(made(of(third, ninth))), keys); err != nil {
		t.Error(err)
	}
}

func TestWhoseSignatureCounts(t *testing.T) {
	text := newLog(t, 3).receipt(t, 0, 1)
	if _, err := receipt.Verify(text, keysOf(t, stranger)); err == nil ||
		!strings.Contains(err.Error(), "none of the given keys") {
		t.Errorf("with a stranger's key it is %v", err)
	}
	p, err := receipt.Verify(text, keysOf(t, stranger, private))
	if err != nil || len(p.Logs[0].SignedBy) != 1 ||
		p.Logs[0].SignedBy[0] != domain.SigningKeyID(private.Public().(ed25519.PublicKey)) {
		t.Errorf("with both it is %+v, %v", p, err)
	}
	for _, bad := range []string{
		"", "{}", `{"keys":[]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`,
	} {
		if _, err := receipt.ParseKeys([]byte(bad)); err == nil {
			t.Errorf("%q is a set of keys", bad)
		}
	}
}

// A row that differs from what was logged must not be proved, nor may anything be proved if hashes
// are missing.
func TestAHistoryThatWasChangedIsNotProved(t *testing.T) {
	l := newLog(t, 9)
	l.made[3].Result.StatusCode = 200
	if _, err := l.prove(0, 4); err == nil || !strings.Contains(err.Error(), "not what was logged") {
		t.Errorf("a changed attempt is proved: %v", err)
	}
	delete(l.hashes, 8)
	if _, err := l.prove(0, 3); !errors.Is(err, receipt.ErrIncomplete) {
		t.Errorf("without a hash it is %v", err)
	}
}

// Anyone who has an earlier receipt must be able to detect that the log was rewritten.
func TestALogThatIsRewrittenShows(t *testing.T) {
	keys := keysOf(t, private)
	proved := func(l *log, earlier uint64) receipt.Proved {
		t.Helper()
		p, err := receipt.Verify(l.receipt(t, earlier, 2), keys)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	l := newLog(t, 5)
	before := proved(l, 0)
	l.attempt(t, 200)
	rewritten := newLog(t, 3)
	for range 3 {
		rewritten.attempt(t, 503)
	}
	for _, c := range []struct {
		what           string
		later, earlier receipt.Proved
		want           error
	}{
		{"it went on", proved(l, 5), before, nil},
		{"it is the same", before, before, nil},
		{"it was not asked", proved(l, 0), before, receipt.ErrNotCompared},
		{"they are swapped", before, proved(l, 5), receipt.ErrNotCompared},
		{"it was rewritten", proved(rewritten, 5), before, receipt.ErrRewritten},
		{"it was rewritten at its size", proved(rewritten, 0), proved(l, 0), receipt.ErrRewritten},
	} {
		if err := receipt.VerifyEarlier(c.later, c.earlier); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	keys := keysOf(f, private)
	l := newLog(f, 11)
	whole := l.receipt(f, 5, 3, 9)
	f.Add(whole)
	f.Add(l.receipt(f, 0, 11))
	f.Add([]byte(`{"format":"lumenhook-receipt/v1"}`))
	f.Add(bytes.Replace(whole, []byte(`"number":3`), []byte(`"number":4,"number":3`), 1))
	f.Add(bytes.Replace(whole, []byte(`"attempts":[`), []byte(`"attempts":[],"Attempts":[`), 1))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := receipt.Verify(text, keys)
		if err != nil {
			return
		}
		// A proof covers each logged attempt once, because no other party has the key.
		seen := make(map[int64]bool)
		for _, log := range p.Logs {
			for _, a := range log.Attempts {
				if seen[a.Leaf] {
					t.Errorf("%s proves leaf %d twice", text, a.Leaf)
				}
				seen[a.Leaf] = true
				made := l.made[a.Leaf]
				if p.EventID != eventID || a.Number != made.Number || a.StatusCode != 500 ||
					a.SentAtMs != made.Result.SentAtMillis || log.Log != name {
					t.Errorf("%s proves %+v", text, a)
				}
			}
		}
	})
}

func BenchmarkProve(b *testing.B) {
	l := newLog(b, 100_000)
	keys := keysOf(b, private)
	text := l.receipt(b, 50_000, 77_777)
	b.Run("prove", func(b *testing.B) {
		for b.Loop() {
			if _, err := l.prove(50_000, 77_777); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportMetric(float64(len(text)), "bytes")
		for b.Loop() {
			if _, err := receipt.Verify(text, keys); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLog measures what the log adds to an attempt in the engine: its leaf, and folding it.
func BenchmarkLog(b *testing.B) {
	l := newLog(b, 100_000)
	for b.Loop() {
		l.attempt(b, 500)
	}
}
