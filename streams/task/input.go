package task

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// input is one topic that a task reads. A goroutine adds its records as they arrive, also while the
// task commits. The next turn takes all of them.
type input struct {
	topic string

	mu      sync.Mutex
	arrived []kafka.Record // not yet passed to the core
	room    chan struct{}  // receives one element when arrived has been taken

	behind atomic.Int64 // offsets not fetched yet
	inCore atomic.Int64 // records in the core that no finished turn has taken
}

func newInput(topic string) *input {
	return &input{topic: topic, room: make(chan struct{}, 1)}
}

// add adds records when fewer than TurnInputs are waiting. At most twice as many are held, provided
// that a caller adds no more than TurnInputs at a time. It returns false if ctx ended first.
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

// lag returns the number of records that no turn has taken, as of the latest fetch.
func (in *input) lag() int64 {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.behind.Load() + int64(len(in.arrived)) + in.inCore.Load()
}
