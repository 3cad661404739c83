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

// Stack holds the started parts. Logger must be set. It is safe for use by any goroutine.
type Stack struct {
	// Failed ends the process: for the few failures after which it cannot continue.
	Failed    func(error)
	Restarted func(loop string) // called when a loop ended before it was stopped; may be nil
	Logger    *slog.Logger

	mu       sync.Mutex
	stopped  bool // since Stop was called
	stops    []func()
	loops    []*loop
	services []Service // in start order
	started  map[Service]bool
}

var errStarting = errors.New("it is starting")

// ErrStopped means that nothing is started any more.
var ErrStopped = errors.New("it is being stopped")

// OnStop makes Stop call f, before everything that was added earlier; if Stop was called
// already, f is called at once.
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

// OnStopLast makes Stop call f, after everything else.
func (s *Stack) OnStopLast(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops = append([]func(){f}, s.stops...)
}

// Go runs a loop until Stop ends its context, and restarts it whenever it ends earlier.
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

// Failing returns why a loop does not work at present; nil: all do.
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

// Start starts services one after another, except those that were started already. It
// returns at the first failure.
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

// add adds a service; false: it was added already. It is stopped even if its start fails
// half-way.
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

// Stop stops everything, the latest first.
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

// Started lists the services that have started, in order.
func (s *Stack) Started() []Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.services),
		func(one Service) bool { return !s.started[one] })
}

// Ready checks every started service. One that is starting is not ready.
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

// Run starts a process, and lets it work until ctx ends or a part of it fails. Then it
// stops everything.
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

// quietGlobalLog sends lines of the standard library's global log to our log at debug level.
// net/http writes a line there for each invalid frame of a receiver, which could fill our log.
func quietGlobalLog(logger *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(logger.Handler(), slog.LevelDebug).Writer())
}

// Service is a part of a process that works from Start to Stop.
type Service interface {
	// Name is its name for people, such as "engine".
	Name() string
	// Start returns once the part works, or cannot. If it fails, Stop releases whatever the
	// part holds. It is called once.
	Start(ctx context.Context) error
	// Stop returns once the part has ended. It may be called again.
	Stop()
	// Ready returns why the part does not do its work at present; nil: it does.
	Ready(ctx context.Context) error
}

// Report is whether a service is ready.
type Report struct {
	Name string
	Err  error // nil: it is ready
}

// Check returns why a service does not do its work at present: one of its loops has failed,
// or it says so itself.
func Check(ctx context.Context, one Service) error {
	if loops, is := one.(interface{ Failing() error }); is {
		if err := loops.Failing(); err != nil {
			return err
		}
	}
	return one.Ready(ctx)
}
