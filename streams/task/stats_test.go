package task_test

import (
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Turns report their numbers of inputs and records, and a restore reports its progress.
func TestATaskSaysHowItDoes(t *testing.T) {
	r := newRig(t)
	turns := make(chan task.TurnStats, 10_000)
	cfg := r.config(r.dir, nil)
	began := time.Now()
	cfg.OnTurn = func(s task.TurnStats) { turns <- s }
	subject := task.NewTask(cfg)
	stop := r.run(subject)
	r.feed(1, 100)
	keys := r.onPartition(0)
	r.wantJournal(keys)
	for _, in := range subject.Stats().Inputs {
		if in.Topic != numbersTopic || in.Behind != 0 {
			t.Errorf("all is taken, and the task is %d behind %s", in.Behind, in.Topic)
		}
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	var all task.TurnStats
	for len(turns) > 0 {
		s := <-turns
		all.Records += s.Records
		all.Inputs += s.Inputs
		all.Commit += s.Commit
	}
	// A turn that has only repeats writes nothing and is not reported, except for one note per
	// second with the input positions.
	notes := all.Records - keys
	most := 1 + int(time.Since(began)/time.Second)
	if notes < 0 || notes > most || all.Inputs < keys || all.Inputs > 2*keys || all.Commit <= 0 {
		t.Errorf("turns that took %d of %d inputs wrote %d of %d records, and committed for %s",
			all.Inputs, 2*keys, all.Records, keys, all.Commit)
	}

	again := r.task(t.TempDir(), nil)
	if s := again.Stats(); s.Restored {
		t.Error("a task that was not started is restored")
	}
	stop = r.run(again)
	testkit.Eventually(t, "the state is restored", func() bool { return again.Stats().Restored })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	// A transaction ends with a marker, which has an offset as well.
	s := again.Stats()
	if s.From != 0 || s.At < int64(keys) || s.At > s.End || s.Timers != (store.TimerStats{}) ||
		len(s.Inputs) != 1 {
		t.Errorf("%d records were restored, and the task says %+v", keys, s)
	}
}
