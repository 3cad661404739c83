package task_test

import (
	"log/slog"
	"math"
	"testing"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// A broker whose list of aborted transactions was wrong returned a note that was never committed. A
// standby folded the note, and its copy becomes the owner's state. The positions in the note must
// not be used, because the inputs before them were never processed.
func TestACopyWithAnUndecidedNoteIsRebuilt(t *testing.T) {
	cfg := summing(kafka.Cluster{Logger: slog.New(slog.DiscardHandler)}, t.TempDir(), 0,
		func() task.Handler[store.Claimed, none] { return &summer{} }).CoreConfig
	at := func(offset int64, r kafka.Record) kafka.Record {
		r.Offset = offset
		return r
	}
	taken := func(n int64) kafka.Record {
		return task.TakenRecord(sumsTopic, 0, map[string]int64{numbersTopic: n})
	}
	fact := kafka.Record{Topic: sumsTopic, Key: []byte("number-3"), Value: []byte("3")}
	began := task.StartRecord(sumsTopic, 0)
	committed := []kafka.Record{at(0, began), at(2, fact), at(3, taken(1))}

	standby := task.NewStandbyCore(cfg)
	must(t, standby.OpenState())
	must(t, standby.LocatedJournal(0, 4))
	must(t, standby.ReadJournal(committed, 4))
	must(t, standby.ReadJournal([]kafka.Record{at(5, taken(7))}, 6)) // its transaction is still open
	must(t, standby.Close())

	core := task.NewCore(cfg)
	defer core.Close()
	must(t, core.OpenState())
	must(t, core.LocatedJournal(0, 6))
	for begun := false; !core.Working(); {
		switch a := core.Next(kafka.Moment{}).(type) {
		case task.ReadJournal:
			all := committed
			if begun {
				all = append(all, at(7, task.StartRecord(sumsTopic, 0)))
			}
			var records []kafka.Record
			for _, r := range all {
				if r.Offset >= a.From {
					records = append(records, r)
				}
			}
			must(t, core.ReadJournal(records, a.To))
		case task.Commit:
			begun = true
			must(t, core.Committed(map[string]int64{sumsTopic: 8}, kafka.Moment{}))
		case task.Start:
			must(t, core.Start(kafka.Moment{}))
		case task.Apply:
			_, err := core.Apply(kafka.Moment{}, true)
			must(t, err)
		case task.LocateInputs:
			from, err := core.LocatedInputs(nil, map[string]int64{numbersTopic: math.MaxInt64})
			must(t, err)
			if from[numbersTopic] != 1 {
				t.Errorf("the owner goes on at %d of its input, of which 1 was taken", from[numbersTopic])
			}
		default:
			t.Fatalf("it wants to do %T", a)
		}
	}
}

// A copy must not claim to have folded more than its journal has. Otherwise, a folder with the
// state of another, longer journal would win the partition.
func TestACopyClaimsNoMoreThanItsJournalHas(t *testing.T) {
	cfg := summing(kafka.Cluster{Logger: slog.New(slog.DiscardHandler)}, t.TempDir(), 0,
		func() task.Handler[store.Claimed, none] { return &summer{} }).CoreConfig
	const far = 1_000_000_000_000
	foreign := task.NewStandbyCore(cfg)
	must(t, foreign.OpenState())
	must(t, foreign.LocatedJournal(0, far+1))
	one := kafka.Record{Topic: sumsTopic, Key: []byte("number-1"), Value: []byte("1"), Offset: far}
	must(t, foreign.ReadJournal([]kafka.Record{one}, far+1))
	if have := foreign.FoldedOf(); have != far+1 {
		t.Errorf("of a journal up to %d it has folded %d", far+1, have)
	}
	must(t, foreign.Close())

	standby := task.NewStandbyCore(cfg)
	must(t, standby.OpenState())
	opened := standby.FoldedOf()
	must(t, standby.LocatedJournal(0, 5))
	located := standby.FoldedOf()
	must(t, standby.ReadJournal(nil, 5))
	if have := max(opened, located, standby.FoldedOf()); have > 5 {
		t.Errorf("a standby says that it has folded %d of a journal up to 5", have)
	}
	must(t, standby.Close())

	core := task.NewCore(cfg)
	must(t, core.OpenState())
	opened = core.FoldedOf()
	must(t, core.LocatedJournal(0, 5))
	if have := max(opened, core.FoldedOf()); have > 5 {
		t.Errorf("an owner that starts says that it has folded %d of a journal up to 5", have)
	}
	must(t, core.Close())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
