package engine

import (
	"maps"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/domain"
)

// Flights performs the effects of one partition and tracks its attempts in flight across its tasks.
// A task may stop before its attempts finish: because the process was paused and its partitions
// were reassigned, or because a commit failed. The partition's next task in this process inherits
// them: it records their results, and does not repeat them in the meantime (G7). An attempt is lost
// only if the process dies, or if another process has made it as well.
//
// A task counts the attempts that it inherits, and drops those that can no longer be recorded, so
// there are never more than one task may have in flight.
type Flights struct {
	dispatcher Dispatcher

	mu     sync.Mutex
	of     map[string]*flight
	submit func(Outcome) // to the running or latest task
}

type flight struct {
	attempt domain.Attempt
	result  *domain.AttemptResult // nil while in flight
}

// NewFlights returns a Flights without attempts.
func NewFlights(d Dispatcher) *Flights {
	return &Flights{dispatcher: d, of: make(map[string]*flight)}
}

// Inherit returns the current attempts in a deterministic order, and passes all further results to
// submit, including those that have already arrived.
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
		return // can no longer be recorded
	}
	f.result = &r
	submit := s.submit
	s.mu.Unlock()
	submit(Outcome{f.attempt, r}) // a stopped task drops it, and the next one inherits it
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

// Effect is something to do after a turn was committed: [Begin], [Forget] or [Disconnect].
//
// sumtype:decl
type Effect interface{ effect() }

type (
	// Begin makes an attempt, which leads to an [Outcome].
	Begin struct{ Attempt domain.Attempt }

	// Forget drops a finished attempt that is recorded, or will never be.
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

// Outcome is the result of an attempt that a [Begin] started.
type Outcome struct {
	Attempt domain.Attempt
	Result  domain.AttemptResult
}
