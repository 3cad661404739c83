package task_test

import (
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// held is a summer that blocks in its first turn and reports the number of inputs of each turn.
type held struct {
	summer
	turns   chan int
	release chan struct{}
}

func (h *held) Turn(t *task.Turn, completions []none) error {
	n := 0
	for _, records := range t.Inputs {
		n += len(records)
	}
	if n > 0 {
		h.turns <- n
		<-h.release
	}
	return h.summer.Turn(t, completions)
}

// If records arrive one by one during a turn, the next turn takes all of them. There is not one
// turn per broker response.
func TestATurnTakesAllThatArrived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := &held{turns: make(chan int, 100), release: make(chan struct{})}
	task := task.NewTask(summing(r.cluster, t.TempDir(), 1, // of partition 1
		func() task.Handler[store.Claimed, none] { return h }))
	stop := r.run(task)
	release := sync.OnceFunc(func() { close(h.release) })
	defer release()
	r.feed(1, 1) // two records in one batch
	if n := <-h.turns; n != 2 {
		t.Fatalf("the first turn has %d inputs; want 2", n)
	}
	const fed = 8 // each feed is two records in one response
	for n := range fed {
		r.feed(1, 1)
		read := int64(2 + 2*(n+1)) // including those of the first turn
		testkit.Eventually(t, "the input is read while the turn lasts", func() bool {
			in := task.Stats().Inputs
			return len(in) == 1 && in[0].Behind == read
		})
	}
	release()
	if n := <-h.turns; n != 2*fed {
		t.Errorf("the next turn has %d inputs; want all %d that had arrived", n, 2*fed)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
