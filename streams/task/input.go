package task

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// input is one topic that a task reads. Records are added as they arrive, even while the task
// commits, and the next turn takes all of them.
type input struct {
	topic string

	mu      sync.Mutex
	arrived []kafka.Record
	room    chan struct{} // signals that arrived was taken

	behind atomic.Int64 // offsets not fetched yet
	inCore atomic.Int64 // records in the core that no finished turn has taken
}

func newInput(topic string) *input {
	return &input{topic: topic, room: make(chan struct{}, 1)}
}

// add waits while TurnInputs or more records are waiting. So at most twice as many wait, if each
// call adds at most TurnInputs. It returns false if ctx is done first.
func (in *input) add(ctx context.Context, records []kafka.Record) bool {
	for !in.tryAdd(records) {
		select {
		case <-in.room:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (in *input) tryAdd(records []kafka.Record) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case len(in.arrived) == 0:
		in.arrived = records
	case len(in.arrived) < TurnInputs:
		in.arrived = append(in.arrived, records...)
	default:
		return false
	}
	return true
}

func (in *input) take() []kafka.Record {
	in.mu.Lock()
	defer in.mu.Unlock()
	records := in.arrived
	in.arrived = nil
	in.inCore.Add(int64(len(records)))
	select {
	case in.room <- struct{}{}:
	default:
	}
	return records
}

// lag returns how many records no turn has taken, as of the latest fetch.
func (in *input) lag() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.behind.Load() + int64(len(in.arrived)) + in.inCore.Load()
}
