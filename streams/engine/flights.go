package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/domain"
)

// Flights performs the effects of one partition in this process, and holds its attempts in flight,
// whichever task began them. A task may end before its attempts: because the process was paused and
// the group reassigned its partitions, or because a commit failed. The partition's next task in
// this process takes the attempts over: it records their results, and does not make any of them
// again in the meantime (G7). An attempt is lost only with the process, or when another process has
// made it too.
//
// There are at most as many as a task may have in flight: a task counts the attempts that it takes
// over, and attempts that can no longer be recorded are dropped.
type Flights struct {
	dispatcher Dispatcher

	mu     sync.Mutex
	of     map[string]*flight // by event
	submit func(Outcome)      // to the running task, or the latest one
}

type flight struct {
	attempt domain.Attempt
	result  *domain.AttemptResult // nil: in flight
}

// NewFlights returns an empty set.
func NewFlights(d Dispatcher) *Flights {
	return &Flights{dispatcher: d, of: make(map[string]*flight)}
}

// Inherit returns the attempts that are held, in a deterministic order. Their results, available or
// future, are passed to submit.
func (s *Flights) Inherit(submit func(Outcome)) (held []domain.Attempt) {
	s.mu.Lock()
	s.submit = submit
	var came []Outcome
	for _, event := range slices.Sorted(maps.Keys(s.of)) {
		f := s.of[event]
		held = append(held, f.attempt)
		if f.result != nil {
			came = append(came, Outcome{f.attempt, *f.result})
		}
	}
	s.mu.Unlock()
	for _, o := range came {
		submit(o)
	}
	return held
}

// Perform performs an effect.
func (s *Flights) Perform(e Effect) {
	switch e := e.(type) {
	case Begin:
		s.begin(e.Attempt)
	case Forget:
		s.forget(e)
	case Disconnect:
		s.dispatcher.Disconnect(e.URL)
	}
}

func (s *Flights) begin(a domain.Attempt) {
	f := &flight{attempt: a}
	s.mu.Lock()
	s.of[a.EventID] = f
	s.mu.Unlock()
	s.dispatcher.Dispatch(a, func(r domain.AttemptResult) { s.finish(f, r) })
}

func (s *Flights) finish(f *flight, r domain.AttemptResult) {
	s.mu.Lock()
	if s.of[f.attempt.EventID] != f {
		s.mu.Unlock()
		return // it can no longer be recorded
	}
	f.result = &r
	submit := s.submit
	s.mu.Unlock()
	submit(Outcome{f.attempt, r}) // dropped if the task has ended; the next task takes it over
}

func (s *Flights) forget(e Forget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.of[e.EventID]; f != nil && f.attempt.Number == e.Number {
		delete(s.of, e.EventID)
	}
}

func (s *Flights) inFlight() int {
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

// Effect is an action of the process after a turn was committed: one of [Begin], [Forget] and
// [Disconnect].
//
// sumtype:decl
type Effect interface{ effect() }

type (
	// Begin makes an attempt. It ends in an [Outcome].
	Begin struct{ Attempt domain.Attempt }

	// Forget drops a finished attempt, because it is recorded or never will be.
	Forget struct {
		EventID string
		Number  int
	}

	// Disconnect closes the connections to a URL that an endpoint no longer uses.
	Disconnect struct{ URL string }
)

func (Begin) effect()      {}
func (Forget) effect()     {}
func (Disconnect) effect() {}

// Outcome is an attempt with its result: the completion of a [Begin].
type Outcome struct {
	Attempt domain.Attempt
	Result  domain.AttemptResult
}
