package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/domain"
)

// Flights carry out the effects of one partition in this process, and are its attempts
// under way, whichever of its tasks began them. A task may end before they do: its
// process stood still and the group took its partitions, or its commit failed. The next
// task of the partition in this process takes them up: what they bring back is
// recorded, and none is made a second time meanwhile (G7). Only with the process,
// or when another has made the same attempt, is one lost.
//
// There are at most as many as a task may have under way: it counts those that it
// takes up, and what it cannot record any more is forgotten.
type Flights struct {
	dispatcher Dispatcher

	mu     sync.Mutex
	of     map[string]*flight // by event
	submit func(Outcome)      // to the task that works, or worked last
}

type flight struct {
	attempt domain.Attempt
	result  *domain.AttemptResult // nil: under way
}

// NewFlights makes an empty set.
func NewFlights(d Dispatcher) *Flights {
	return &Flights{dispatcher: d, of: make(map[string]*flight)}
}

// TakeUp gives a task what is kept: the attempts, in an order that a simulation repeats,
// and, to submit, what they brought back already and will bring back.
func (s *Flights) TakeUp(submit func(Outcome)) (kept []domain.Attempt) {
	s.mu.Lock()
	s.submit = submit
	var came []Outcome
	for _, event := range slices.Sorted(maps.Keys(s.of)) {
		f := s.of[event]
		kept = append(kept, f.attempt)
		if f.result != nil {
			came = append(came, Outcome{f.attempt, *f.result})
		}
	}
	s.mu.Unlock()
	for _, o := range came {
		submit(o)
	}
	return kept
}

// Perform carries an effect out.
func (s *Flights) Perform(e Effect) {
	switch e := e.(type) {
	case Begin:
		s.begin(e.Attempt)
	case Forget:
		s.forget(e)
	case Disconnect:
		s.dispatcher.Forget(e.URL)
	}
}

func (s *Flights) begin(a domain.Attempt) {
	f := &flight{attempt: a}
	s.mu.Lock()
	s.of[a.EventID] = f
	s.mu.Unlock()
	s.dispatcher.Dispatch(a, func(r domain.AttemptResult) { s.ended(f, r) })
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

func (s *Flights) forget(e Forget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.of[e.EventID]; f != nil && f.attempt.Number == e.Number {
		delete(s.of, e.EventID)
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
