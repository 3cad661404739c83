package node

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

// Stack contains the started parts of a process. Logger is required. It is safe for concurrent use.
type Stack struct {
	// Failed ends the process. It is for the few failures after which the process cannot continue.
	Failed    func(error)
	Restarted func(loop string) // called when a loop ended before it was stopped; may be nil
	Logger    *slog.Logger

	mu       sync.Mutex
	stopped  bool // Stop was called
	stops    []func()
	loops    []*loop
	services []Service // in start order
	started  map[Service]bool
}

var errStarting = errors.New("starting")

// ErrStopped means that the stack starts nothing anymore.
var ErrStopped = errors.New("stopping")

// OnStop makes Stop call f before everything that was added earlier. If Stop was already called,
// OnStop calls f immediately.
func (s *Stack) OnStop(f func()) {
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		s.stops = append(s.stops, f)
	}
	s.mu.Unlock()
	if stopped {
		f()
	}
}

// OnStopLast makes Stop call f after everything else.
func (s *Stack) OnStopLast(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append([]func(){f}, s.stops...)
}

// Go runs a loop until Stop cancels its context, and restarts it whenever it ends earlier.
func (s *Stack) Go(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	l := &loop{name: name, run: run, stack: s}
	s.mu.Lock()
	s.loops = append(s.loops, l)
	s.mu.Unlock()
	go func() {
		defer close(ended)
		l.keepRunning(ctx)
	}()
	s.OnStop(func() { cancel(); <-ended })
}

// Failing returns why a loop is not working, or nil if all are.
func (s *Stack) Failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		if err := l.failing(); err != nil {
			return err
		}
	}
	return nil
}

// Start starts services in order, except those that were started before. It returns the first
// error.
func (s *Stack) Start(ctx context.Context, services ...Service) error {
	for _, one := range services {
		if added, err := s.add(one); err != nil {
			return err
		} else if !added {
			continue
		}
		if err := one.Start(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		s.started[one] = true
		s.mu.Unlock()
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// add adds a service, so that it is stopped even if its start fails halfway. It returns false if
// the service was added before.
func (s *Stack) add(one Service) (added bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false, ErrStopped
	}
	if slices.Contains(s.services, one) {
		return false, nil
	}
	if s.started == nil {
		s.started = make(map[Service]bool)
	}
	s.services = append(s.services, one)
	s.stops = append(s.stops, one.Stop)
	return true, nil
}

// Stop stops everything in reverse order.
func (s *Stack) Stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	for f := s.pop(); f != nil; f = s.pop() {
		f()
	}
}

func (s *Stack) pop() (f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.stops) - 1; last >= 0 {
		f, s.stops = s.stops[last], s.stops[:last]
	}
	return f
}

// Started lists the started services in order.
func (s *Stack) Started() []Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.services),
		func(one Service) bool { return !s.started[one] })
}

// Ready checks every service. A service that is still starting is not ready.
func (s *Stack) Ready(ctx context.Context) []Report {
	s.mu.Lock()
	services, started := slices.Clone(s.services), maps.Clone(s.started)
	s.mu.Unlock()
	reports := make([]Report, len(services))
	for i, one := range services {
		reports[i] = Report{Name: one.Name(), Err: errStarting}
		if started[one] {
			reports[i].Err = Check(ctx, one)
		}
	}
	return reports
}

// Run starts a process and lets it work until ctx is done or a part fails. Then it stops
// everything.
func Run(
	ctx context.Context, logger *slog.Logger, say func(string, ...any),
	start func(context.Context, *Stack) error,
) error {
	quietGlobalLog(logger)
	ingress.WarnIfLow(logger)
	serving, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	stack := &Stack{Failed: failed, Logger: logger}
	err := start(serving, stack)
	if err == nil {
		<-serving.Done()
		say("stopping: finishing the attempts in flight and writing everything to disk")
	}
	stack.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // interrupted while starting
	case err == nil && ctx.Err() == nil:
		return context.Cause(serving) // a part failed
	case err == nil:
		say("stopped")
	}
	return err
}

// quietGlobalLog sends the standard library's global log to ours at debug level. net/http logs a
// line there for each invalid frame of a receiver, which could fill our log.
func quietGlobalLog(logger *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
}

// Service is a part of a process that works from Start to Stop.
type Service interface {
	// Name returns the name shown to users, such as "engine".
	Name() string
	// Start returns once the part works or has failed to start. If it fails, Stop releases the
	// part's resources. It is called once.
	Start(ctx context.Context) error
	// Stop returns once the part has ended. It may be called again.
	Stop()
	// Ready returns why the part is not working, or nil if it is.
	Ready(ctx context.Context) error
}

// Report is the readiness of a service.
type Report struct {
	Name string
	Err  error // nil if ready
}

// Check returns why a service is not working: one of its loops failed, or Ready reports an error.
func Check(ctx context.Context, one Service) error {
	if loops, is := one.(interface{ Failing() error }); is {
		if err := loops.Failing(); err != nil {
			return err
		}
	}
	return one.Ready(ctx)
}
