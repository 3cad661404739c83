package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

func commandRecord(c domain.Command) kafka.Record {
	m := schemas.EncodeCommand(c)
	return kafka.NewRecord(schemas.TopicCommands, c.Body.Aggregate(), m.Value, m.EachHeader)
}

func matchRecord(in domain.MatchInput) kafka.Record {
	w := domain.Watch{
		ID:            in.WatchID,
		AccountID:     in.AccountID,
		EndpointID:    in.EndpointID,
		WalletAddress: in.WalletAddress,
	}
	m := schemas.EncodePaymentMatched(domain.Match{Watch: w}, in.Event)
	return kafka.NewRecord(schemas.TopicMatches, in.EndpointID, m.Value, m.EachHeader)
}

func typed(r kafka.Record, typ, version string) kafka.Record {
	return kafka.NewRecord(r.Topic, string(r.Key), r.Value,
		schemas.Message{Type: typ, Version: version}.EachHeader)
}

func goodMatch() domain.MatchInput {
	return domain.MatchInput{
		AccountID:     accountID,
		EndpointID:    endpointID,
		WatchID:       watchID,
		WalletAddress: "GTO",
		Event: domain.Event{
			ID:              "evt_good",
			Type:            domain.PaymentReceived,
			CreatedAtMillis: hour,
			Body:            []byte("{}"),
		},
	}
}

func goodWatch() domain.Watch {
	return domain.Watch{
		ID:            watchID,
		AccountID:     accountID,
		EndpointID:    endpointID,
		WalletAddress: "GTO",
		EventTypes:    []domain.EventType{domain.PaymentReceived},
		Rules: domain.Rules{
			Assets: []domain.Asset{{Code: "XLM"}},
			Amount: domain.AmountRule{Kind: domain.AmountAny},
			Memo:   domain.MemoRule{Kind: domain.MemoAny},
		},
	}
}

func asked(body domain.CommandBody) domain.Command {
	return domain.Command{ID: "cmd_asked", AccountID: accountID, BodyHash: []byte("hash"), Body: body}
}

// wrongWatch returns the creation of a good watch with one field changed.
func wrongWatch(change func(*domain.Watch)) kafka.Record {
	w := goodWatch()
	change(&w)
	return commandRecord(asked(domain.CreateWatch{Watch: w}))
}

func wrongMatch(change func(*domain.MatchInput)) kafka.Record {
	in := goodMatch()
	change(&in)
	return matchRecord(in)
}

func keyed(r kafka.Record, key string) kafka.Record {
	r.Key = []byte(key)
	return r
}

func valued(r kafka.Record, value []byte) kafka.Record {
	r.Value = value
	return r
}

// deadInputs returns records that cannot be processed, keyed by what is wrong with them.
func deadInputs() map[string]kafka.Record {
	enable := commandRecord(asked(domain.EnableEndpoint{EndpointID: endpointID}))
	watch := commandRecord(asked(domain.CreateWatch{Watch: goodWatch()}))
	match := matchRecord(goodMatch())
	update := func(c domain.EndpointChange) kafka.Record {
		return commandRecord(asked(domain.UpdateEndpoint{EndpointID: endpointID, Change: c}))
	}
	return map[string]kafka.Record{
		"a command of a newer type":    typed(enable, "PauseEndpoint", "1"),
		"a command of a newer version": typed(enable, "EnableEndpoint", "2"),
		"a command without headers": {
			Topic: schemas.TopicCommands,
			Key:   []byte(endpointID),
			Value: enable.Value,
		},
		"a command of another aggregate's key": keyed(enable, "ep_other"),
		"a command without a key":              keyed(enable, ""),
		"a command without a value":            valued(enable, nil),
		"a truncated command":                  valued(watch, watch.Value[:len(watch.Value)-3]),
		"noise":                                valued(watch, []byte("\xff\xfe hello \x00\x01")),
		"text that is not UTF-8": valued(watch,
			bytes.Replace(watch.Value, []byte("GTO"), []byte("G\xff\xfe"), 1)),
		"a huge command": wrongWatch(func(w *domain.Watch) { w.Label = strings.Repeat("x", 900_000) }),
		"a huge hash": commandRecord(domain.Command{
			ID:        "cmd_1",
			AccountID: accountID,
			BodyHash:  make([]byte, 200_000),
			Body:      domain.DisableEndpoint{EndpointID: endpointID},
		}),
		"a command without an id": commandRecord(domain.Command{
			AccountID: accountID,
			Body:      domain.EnableEndpoint{EndpointID: endpointID},
		}),
		"a command without an account": commandRecord(domain.Command{
			ID:   "cmd_1",
			Body: domain.EnableEndpoint{EndpointID: endpointID},
		}),
		"an endpoint that is none": keyed(
			commandRecord(asked(domain.EnableEndpoint{EndpointID: "ep_\x00/1"})), "ep_\x00/1",
		),
		"an account as an endpoint": commandRecord(
			asked(domain.EnableEndpoint{EndpointID: accountID}),
		),
		"an amount rule of a newer version": wrongWatch(func(w *domain.Watch) {
			w.Rules.Amount.Kind = "median"
		}),
		"a memo rule of a newer version": wrongWatch(func(w *domain.Watch) {
			w.Rules.Memo.Kind = "rhymes"
		}),
		"an event type of a newer version": wrongWatch(func(w *domain.Watch) {
			w.EventTypes = []domain.EventType{
				"payment.late",
			}
		}),
		"a watch that begins as deleted": wrongWatch(func(w *domain.Watch) { w.DeletedAtMillis = 1 }),
		"a wallet that is none":          wrongWatch(func(w *domain.Watch) { w.WalletAddress = "G\x00" }),
		"too many senders": wrongWatch(func(w *domain.Watch) {
			w.Rules.SenderAllowlist = make(
				[]string, 5000,
			)
		}),
		"a rate beyond all": update(
			domain.EndpointChange{RateLimitPerSecond: new(math.MaxInt32)},
		),
		"a header that is two": update(domain.EndpointChange{Headers: &[]domain.Header{{
			Name:   "X\r\nY",
			Sealed: []byte{1},
		}}}),
		"a grace beyond all time": commandRecord(asked(domain.RollKey{
			AccountID:   accountID,
			KeyID:       "key_1",
			Key:         domain.Key{ID: "key_2", Hash: []byte{1}},
			GraceMillis: math.MaxInt64,
		})),
		"a span before all time": commandRecord(asked(domain.ReplayEndpoint{
			EndpointID:  endpointID,
			SinceMillis: math.MinInt64,
		})),
		"a range of no ledgers": commandRecord(asked(domain.BackfillWatch{
			WatchID: watchID,
			From:    9,
			To:      8,
		})),
		"a match of another type":           typed(match, "PaymentForgotten", "1"),
		"a match of another endpoint's key": keyed(match, "ep_other"),
		"a match without a value":           valued(match, nil),
		"a truncated match":                 valued(match, match.Value[:len(match.Value)/2]),
		"a match without an event": wrongMatch(func(in *domain.MatchInput) {
			in.Event = domain.Event{}
		}),
		"a match without a body": wrongMatch(func(in *domain.MatchInput) {
			in.Event.Body = nil
		}),
		"a match of a huge body": wrongMatch(func(in *domain.MatchInput) {
			in.Event.Body = bytes.Repeat(
				[]byte("x"), 900_000,
			)
		}),
		"a match of a test":  wrongMatch(func(in *domain.MatchInput) { in.Event.Type = domain.TestPing }),
		"a match of no time": wrongMatch(func(in *domain.MatchInput) { in.Event.CreatedAtMillis = -1 }),
	}
}

func (c *core) outputOf(r kafka.Record) []kafka.Record {
	c.t.Helper()
	c.take(r)
	return c.written
}

func deadLetters(t *testing.T, records []kafka.Record) (letters []schemas.DeadLetter) {
	t.Helper()
	for _, r := range records {
		if r.Topic != schemas.TopicDeadLetters {
			continue
		}
		letter, err := schemas.DecodeDeadLetter(schemas.Read(r.Value, r))
		if err != nil {
			t.Fatal(err)
		}
		letters = append(letters, letter)
	}
	return letters
}

// An input that cannot be read, or that must not be decided on, becomes a dead letter that records
// its position. It changes nothing, and the engine continues with the next records.
func TestNoInputStopsAPartition(t *testing.T) {
	for name, r := range deadInputs() {
		t.Run(name, func(t *testing.T) {
			c := newCore(t)
			c.turn(creation(endpointID))
			r.Offset = 41 // its partition is right, so that is not the reason
			out := c.outputOf(r)
			letters := deadLetters(t, out)
			if len(letters) != 1 || letters[0].Topic != r.Topic || letters[0].Partition != 0 ||
				letters[0].Offset != 41 || letters[0].Reason == "" ||
				letters[0].ValueBytes != len(r.Value) || !bytes.HasPrefix(r.Value, letters[0].Value) ||
				len(letters[0].Value) > 4<<10 {
				t.Fatalf("dead letters %+v of %d records", letters, len(out))
			}
			for _, o := range out {
				if o.Topic != schemas.TopicDeadLetters && o.Topic != schemas.TopicResults {
					t.Errorf("it wrote to %s", o.Topic)
				}
			}
			if facts := c.turn(asked(domain.DisableEndpoint{EndpointID: endpointID})); len(facts) != 2 {
				t.Errorf("the command behind it led to %+v", facts)
			}
		})
	}
}

// If only a command's ID is readable, the engine rejects it but does not store the answer. The
// command takes effect if the client repeats it in a readable form.
func TestAClientOfADeadCommandIsAnswered(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID))
	good := asked(domain.DisableEndpoint{EndpointID: endpointID})
	truncated := commandRecord(good)
	truncated.Value = truncated.Value[:len(truncated.Value)-3]
	newer := typed(commandRecord(good), "SuspendEndpoint", "1")
	for name, r := range map[string]kafka.Record{"truncated": truncated, "newer": newer} {
		var results []domain.Result
		for _, o := range c.outputOf(r) {
			if o.Topic == schemas.TopicResults {
				result, err := schemas.DecodeResult(schemas.Read(o.Value, o))
				if err != nil {
					t.Fatal(err)
				}
				results = append(results, result)
			}
		}
		if len(results) != 1 || results[0].CommandID != good.ID || results[0].Answer.Rejection == nil ||
			results[0].Answer.Rejection.Code != domain.CodeCommandUnreadable {
			t.Errorf("%s: answered with %+v", name, results)
		}
		if name == "newer" && (len(results) != 1 || string(results[0].BodyHash) != "hash") {
			t.Errorf("the answer to a newer command lacks the hash of its body: %+v", results)
		}
	}
	if facts := c.turn(good); len(facts) != 2 {
		t.Errorf("asked again, it leads to %+v", facts)
	}
}

// The engine must not decide on a history that lacks a fact. The error says what to do.
func TestADamagedJournalStopsItsPartition(t *testing.T) {
	c := newCore(t)
	r := kafka.NewRecord(schemas.TopicJournal, endpointID, []byte("\xff"),
		schemas.Message{Type: "EndpointCreated", Version: "1"}.EachHeader)
	c.write([]kafka.Record{r})
	if err := errors.Join(c.Close(), c.tryToOpen()); err == nil ||
		!strings.Contains(err.Error(), "restore the topic from a backup") {
		t.Error("it is folded")
	}
}

// FuzzInputs checks that the partition continues whatever an input topic contains, and that folding
// its journal again gives the same state.
func FuzzInputs(f *testing.F) {
	for _, r := range deadInputs() {
		if len(r.Value) < 10_000 {
			f.Add(r.Topic == schemas.TopicMatches, string(r.Key), r.Header(schemas.HeaderType),
				r.Header(schemas.HeaderVersion), r.Header(schemas.HeaderCause), r.Value)
		}
	}
	for _, body := range []domain.CommandBody{
		domain.CreateAccount{AccountID: accountID, Key: domain.Key{ID: "key_1", Hash: []byte{1}}},
		domain.TestEndpoint{EndpointID: endpointID},
		domain.RotateSecret{EndpointID: endpointID, SealedSecret: []byte("s")},
		domain.DeleteEndpoint{EndpointID: endpointID},
		domain.ReplayEndpoint{EndpointID: endpointID, SinceMillis: 5, UntilMillis: 3},
		domain.ResendEvent{EndpointID: endpointID, EventID: "evt_good"},
		domain.CreateWatch{Watch: goodWatch()},
		domain.BackfillWatch{WatchID: watchID, From: 1, To: math.MaxUint32},
		domain.RecordCoverage{WatchID: watchID, From: 1, To: math.MaxUint32, Until: math.MaxUint32},
	} {
		r := commandRecord(asked(body))
		f.Add(false, string(r.Key), body.CommandType(), "1", "cmd_asked", r.Value)
	}
	f.Fuzz(func(t *testing.T, match bool, key, typ, version, cause string, value []byte) {
		c := newCore(t)
		c.turn(creation(endpointID))
		c.take(matchRecord(goodMatch()))
		topic := schemas.TopicCommands
		if match {
			topic = schemas.TopicMatches
		}
		m := schemas.Message{Type: typ, Version: version, Cause: cause, Value: value}
		for range 2 { // a repeat is answered, or becomes another dead letter
			c.take(kafka.NewRecord(topic, key, value, m.EachHeader))
			c.turn()
		}
		had := c.contents()
		for _, r := range c.journal {
			if len(r.Value) > 900_000 {
				t.Fatalf("%d bytes of the journal", len(r.Value))
			}
		}
		c.ours = false
		c.reopen(true)
		if has := c.contents(); !maps.Equal(has, had) {
			t.Fatalf("folded again, the state is another: %d keys, %d before", len(has), len(had))
		}
	})
}

// contents returns the stored state without the marks of groups that were made due. The store
// deletes those marks with the groups' last entries.
func (c *core) contents() map[string]string {
	c.t.Helper()
	all := make(map[string]string)
	const tabled = 0x17 // the store's last own key: the publishing position
	err := c.Store().Scan([]byte{store.FirstKey}, []byte{tabled},
		func(key, value []byte) (bool, error) {
			all[string(key)] = string(value)
			return true, nil
		})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// An aggregate belongs to one partition, however another producer partitions its records.
func TestARecordInAnotherPartition(t *testing.T) {
	c := newCore(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c.partitionOf = func(string) int32 { return 1 }
	c.open()
	r := commandRecord(creation(endpointID))
	if letters := deadLetters(t, c.outputOf(r)); len(letters) != 1 {
		t.Errorf("a command in partition 0 is taken, and its aggregate belongs in 1")
	}
	r.Partition = 2
	if letters := deadLetters(t, c.outputOf(r)); len(letters) != 1 || letters[0].Partition != 2 {
		t.Errorf("a command in partition 2 is set aside as %+v", letters)
	}
	r.Partition = 1
	if letters := deadLetters(t, c.outputOf(r)); len(letters) != 0 {
		t.Errorf("set aside: %+v", letters)
	}
}

// This is TestNoInputStopsAPartition with a broker, an engine and a receiver.
func TestAnEngineGoesOnBehindDeadLetters(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// Otherwise the match may be processed before the command that creates the endpoint.
	r.withEndpoint()
	stop := r.start(t.TempDir())
	var of []kafka.Record
	for _, dead := range deadInputs() {
		if dead.Key = []byte(endpointID); len(dead.Value) < 900_000 { // all to one partition
			of = append(of, dead)
		}
	}
	r.append(of...)
	event, good := r.match(1, time.Now().UnixMilli())
	r.append(good)
	testkit.Eventually(t, "the delivery behind the dead letters",
		func() bool { return r.receiver.attempts(event) == 1 })
	testkit.Eventually(t, "an answer to those who wait",
		func() bool { return len(r.results("cmd_asked")) > 0 })
	stop()
	letters := deadLetters(t, r.read(schemas.TopicDeadLetters))
	// Records that now have the endpoint's key may be accepted or rejected.
	if len(letters) < len(of)-6 || len(letters) > len(of) {
		t.Errorf("%d dead letters of %d records", len(letters), len(of))
	}
	seen := make(map[string]bool)
	for _, l := range letters {
		at := fmt.Sprint(l.Topic, l.Partition, l.Offset)
		if seen[at] {
			t.Errorf("%s is set aside twice", at)
		}
		seen[at] = true
	}
}
