package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/domain"
)

// Flights are the attempts of one partition that this process has under way,
// whichever of its tasks began them. A task may end before they do: its process
// stood still and the group took its partitions, or its commit failed. The next
// task of the partition in this process takes them up: what they bring back is
// recorded, and none is made a second time meanwhile (G7). Only with the process,
// or when another has made the same attempt, is one lost.
//
// There are at most as many as a task may have under way: it counts those that it
// takes up, and what it cannot record any more is forgotten.
type Flights struct {
	mu     sync.Mutex
	of     map[string]*flight // by event
	submit func(outcome any)  // to the task that works, or worked last
}

type flight struct {
	attempt domain.Attempt
	result  *domain.AttemptResult // nil: under way
}

// Outcome is what an attempt brought back.
type Outcome struct {
	Attempt domain.Attempt
	Result  domain.AttemptResult
}

// NewFlights makes an empty set.
func NewFlights() *Flights { return &Flights{of: make(map[string]*flight)} }

// begin notes an attempt that is about to be dispatched, and gives what is to be
// called with its result.
func (s *Flights) begin(a domain.Attempt) (ended func(domain.AttemptResult)) {
	f := &flight{attempt: a}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[a.EventID] = f
	return func(r domain.AttemptResult) { s.ended(f, r) }
}

func (s *Flights) ended(f *flight, r domain.AttemptResult) {
	s.mu.Lock()
	if s.of[f.attempt.EventID] != f {
		s.mu.Unlock()
		return // it can be recorded no more
	}
	f.result = &r
	submit := s.submit
	s.mu.Unlock()
	submit(Outcome{f.attempt, r}) // dropped when the task has ended; the next one asks
}

// takeUp gives a task what is under way, as far as it is the task's to record, and
// the results that came while there was no task.
func (s *Flights) takeUp(submit func(outcome any), take func(domain.Attempt) (bool, error)) error {
	s.mu.Lock()
	s.submit = submit
	var came []Outcome
	for _, event := range slices.Sorted(maps.Keys(s.of)) { // in an order that a simulation repeats
		f := s.of[event]
		taken, err := take(f.attempt)
		if err != nil {
			s.mu.Unlock()
			return err
		}
		switch {
		case !taken:
			delete(s.of, event)
		case f.result != nil:
			came = append(came, Outcome{f.attempt, *f.result})
		}
	}
	s.mu.Unlock()
	for _, o := range came {
		submit(o)
	}
	return nil
}

// settled forgets attempts whose outcome a committed turn took.
func (s *Flights) settled(outcomes []Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range outcomes {
		if f := s.of[o.Attempt.EventID]; f != nil && f.attempt.Number == o.Attempt.Number {
			delete(s.of, o.Attempt.EventID)
		}
	}
}

// underWay counts the attempts that have not ended.
func (s *Flights) underWay() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, f := range s.of {
		if f.result == nil {
			n++
		}
	}
	return n
}
