package task

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// input is one topic that a task reads. A goroutine adds its records as they arrive, also while
// the task commits; the next turn takes all of them.
type input struct {
	topic string

	mu      sync.Mutex
	arrived []kafka.Record // not passed to the core yet
	room    chan struct{}  // holds one element after they were

	behind atomic.Int64 // offsets not fetched yet
	inCore atomic.Int64 // records that the core has, and no turn that has ended
}

func newInput(topic string) *input {
	return &input{topic: topic, room: make(chan struct{}, 1)}
}

// add adds records once fewer than TurnInputs wait, so that fewer than twice as many are held if
// no more come at a time. It reports whether it did: not if ctx ended.
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

// take returns all that arrived, and makes room.
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

// lag returns how many records no turn has taken, by the latest fetch.
func (in *input) lag() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.behind.Load() + int64(len(in.arrived)) + in.inCore.Load()
}
