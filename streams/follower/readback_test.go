package follower_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var errKilled = errors.New("killed")

// mortal is a log whose follower crashes instead of committing certain records.
type mortal struct {
	follower.Log
	at func(kafka.Record) bool
}

func (m mortal) Commit(ctx context.Context, records ...kafka.Record) error {
	if slices.ContainsFunc(records, m.at) {
		return errKilled
	}
	return m.Log.Commit(ctx, records...)
}

// life follows the ledger as a separate process would, until it crashes.
func (r *rig) life(config follower.Config, at func(kafka.Record) bool) error {
	r.t.Helper()
	log, err := follower.OpenLog(r.cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	_, err = follower.NewReading(config, mortal{log, at}, func() bool { return true }).Follow(ctx)
	return err
}

func second(topic string) func(kafka.Record) bool {
	n := 0
	return func(r kafka.Record) bool {
		if r.Topic == topic {
			n++
		}
		return n == 2
	}
}

func isCursor(r kafka.Record, sequence uint32) bool {
	l, err := schemas.DecodeLedgerRead(schemas.Read(r.Value, r))
	return r.Topic == schemas.TopicLedgers && err == nil && l.Sequence == sequence
}

func (b *directory) move(watchID, endpointID string) {
	b.ask(domain.UpdateWatch{WatchID: watchID, Change: domain.WatchChange{EndpointID: &endpointID}})
}

// If a watch moves while its ledger is being appended, each event stays with the endpoint that it
// was matched for, whatever record the follower crashes at.
func TestAWatchThatMovesLeavesItsEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	for _, id := range []string{"wat_1", "wat_2", "wat_3"} {
		r.directory.add(id, watched)
	}
	paid := r.pay(watched, "1")
	config := r.config()
	config.Start = follower.Start{Sequence: paid.Ledger}
	deaths := []func(kafka.Record) bool{
		func(record kafka.Record) bool { return string(record.Key) == "wat_2" },
		func(record kafka.Record) bool { return record.Topic == schemas.TopicMatches },
		second(schemas.TopicMatches),
		func(record kafka.Record) bool { return isCursor(record, paid.Ledger) },
		func(record kafka.Record) bool { return isCursor(record, paid.Ledger) },
		func(record kafka.Record) bool { return isCursor(record, paid.Ledger+1) },
	}
	for i, at := range deaths {
		for n, id := range []string{"wat_1", "wat_2", "wat_3"} {
			r.directory.move(id, []string{"ep_1", "ep_2", "ep_3", "ep_4"}[(i+n)%4])
		}
		if err := r.life(config, at); !errors.Is(err, errKilled) {
			t.Fatalf("life %d ended with %v", i, err)
		}
	}
	endpoints := make(map[string][]string)
	for _, m := range r.matches() {
		endpoints[m.WatchID] = append(endpoints[m.WatchID], m.EndpointID)
	}
	if len(endpoints) != 3 ||
		slices.ContainsFunc([]string{"wat_1", "wat_2", "wat_3"},
			func(id string) bool { return len(endpoints[id]) != 1 }) {
		t.Errorf("endpoints by watch: %v, want one of each", endpoints)
	}
	cursors := r.cursors()
	if len(cursors) != 1 || cursors[0].Matches != 3 || cursors[0].Observed != 1 {
		t.Errorf("the cursors are %+v, want one of a payment and three matches", cursors)
	}
	if observed := r.observed(); len(observed) != 1 {
		t.Errorf("%d payments are observed, and one was made", len(observed))
	}
}

type cursorless struct{ follower.Log }

func (c cursorless) Commit(ctx context.Context, records ...kafka.Record) error {
	return c.Log.Commit(ctx, slices.DeleteFunc(slices.Clone(records), func(r kafka.Record) bool {
		return r.Topic == schemas.TopicLedgers
	})...)
}

// A copy of a deployment has matches of several ledgers after its cursor (see package transfer).
// None of them is appended again, however often a follower starts before its cursor has passed
// them.
func TestMatchesOfLaterLedgersAreReadBackAtEachStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	first := r.pay(watched, "1")
	r.pay(watched, "2")
	last := r.pay(watched, "3")
	config := r.config()
	config.Start = follower.Start{Sequence: first.Ledger}
	diesAt := func(sequence uint32) func(kafka.Record) bool {
		return func(record kafka.Record) bool { return isCursor(record, sequence) }
	}
	log, err := follower.OpenLog(r.cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	_, err = follower.NewReading(config, mortal{cursorless{log}, diesAt(last.Ledger)},
		func() bool { return true }).Follow(t.Context())
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	for i, sequence := range []uint32{first.Ledger + 1, last.Ledger + 1} {
		r.directory.move("wat_1", []string{"ep_2", "ep_3"}[i])
		if err := r.life(config, diesAt(sequence)); !errors.Is(err, errKilled) {
			t.Fatalf("life %d ended with %v", i, err)
		}
	}
	var endpoints []string
	for _, m := range r.matches() {
		endpoints = append(endpoints, m.EndpointID)
	}
	if want := slices.Repeat([]string{"ep_wat_1"}, 3); !slices.Equal(endpoints, want) {
		t.Errorf("the matches are for %v, want those of before: %v", endpoints, want)
	}
	if observed := r.observed(); len(observed) != 3 {
		t.Errorf("%d payments are observed, and three were made", len(observed))
	}
}

// A match that the engine sent to dead letters does not count, so the payment is matched again and
// delivered.
func TestADeadLetterIsNoMatch(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*kafka.Record){
		"under another key": func(r *kafka.Record) { r.Key = append(r.Key, 'x') },
		"of another endpoint": func(r *kafka.Record) {
			r.Value = bytes.Replace(r.Value, r.Key, bytes.Repeat([]byte("x"), len(r.Key)), 1)
		},
		"cut short":       func(r *kafka.Record) { r.Value = r.Value[:len(r.Value)-1] },
		"without headers": func(r *kafka.Record) { r.Headers = nil },
		"of an event that is none": func(r *kafka.Record) {
			r.Value = bytes.Replace(r.Value, []byte(domain.EventPrefix), []byte("evt:"), 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			watched := r.wallet()
			r.directory.add("wat_1", watched)
			paid := r.pay(watched, "1")
			config := r.config()
			config.Start = follower.Start{Sequence: paid.Ledger}
			var match kafka.Record
			err := r.life(config, func(record kafka.Record) bool {
				match = record
				return record.Topic == schemas.TopicMatches
			})
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			match.Key, match.Value = slices.Clone(match.Key), slices.Clone(match.Value)
			spoil(&match)
			producer, err := r.cluster.NewProducer()
			if err != nil {
				t.Fatal(err)
			}
			defer producer.Close()
			if err := producer.Append(t.Context(), match); err != nil {
				t.Fatal(err)
			}
			_, partitions, err := r.cluster.TopicIdentity(t.Context(), schemas.TopicMatches)
			if err != nil {
				t.Fatal(err)
			}
			r.directory.move("wat_1", "ep_2")
			err = r.life(config, func(record kafka.Record) bool { return isCursor(record, paid.Ledger+1) })
			if !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			delivered := 0
			for _, record := range r.read(schemas.TopicMatches) {
				if in, err := intake.Match(record, kafka.PartitionOf(partitions)); err == nil &&
					in.EndpointID == "ep_2" {
					delivered++
				}
			}
			if delivered != 1 {
				t.Errorf("the engine delivers %d, want 1", delivered)
			}
		})
	}
}

// A follower that has been replaced by another writes nothing more: no match, no cursor and no
// admission of a watch.
func TestAFormerFollowerWritesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	paid := r.pay(watched, "1")
	config := r.config()
	config.Start = follower.Start{Sequence: paid.Ledger}
	var ended error
	at := func(record kafka.Record) bool { return record.Topic == schemas.TopicMatches }
	err := r.life(config, func(record kafka.Record) bool {
		if at(record) && ended == nil { // the follower that is about to commit is paused
			r.directory.move("wat_1", "ep_2")
			ended = r.life(config,
				func(record kafka.Record) bool { return isCursor(record, paid.Ledger+1) })
		}
		return false
	})
	if !errors.Is(ended, errKilled) || err == nil || errors.Is(err, errKilled) {
		t.Fatalf("the later one ended with %v, the former with %v", ended, err)
	}
	matches := r.matches()
	if len(matches) != 1 || matches[0].EndpointID != "ep_2" {
		t.Errorf("matches %+v, want the one of the later follower", matches)
	}
	checkCursors(t, r.cursors())
}

// A watch is admitted once, and is matched only from the recorded ledger on.
func TestWatchesAreAdmittedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	config := r.config()
	first := r.pay(watched, "1")
	config.Start = follower.Start{Sequence: first.Ledger}
	added, admitted := false, false
	err := r.life(config, func(record kafka.Record) bool {
		if isCursor(record, first.Ledger) && !added {
			r.directory.add("wat_2", watched)
			added = true
		}
		admitted = admitted || record.Topic == schemas.TopicCommands && string(record.Key) == "wat_2"
		return admitted && record.Topic == schemas.TopicLedgers // the next page has been read
	})
	if !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	since := make(map[string][]uint32)
	for _, record := range r.read(schemas.TopicCommands) {
		c, err := schemas.DecodeCommand(schemas.Read(record.Value, record))
		if err != nil {
			t.Fatal(err)
		}
		body := c.Body.(domain.RecordCoverage)
		since[body.WatchID] = append(since[body.WatchID], body.LiveSince)
	}
	if !slices.Equal(since["wat_1"], []uint32{first.Ledger}) || len(since["wat_2"]) != 1 ||
		since["wat_2"][0] <= first.Ledger {
		t.Errorf("admitted %v", since)
	}
	for _, m := range r.matches() {
		if m.WatchID != "wat_1" {
			t.Errorf("a watch that was made after its ledger was read has %+v", m)
		}
	}
}
