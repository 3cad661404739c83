package startstop_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/internal/startstop"
)

// diary records what parts did, in order.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

type part struct {
	name   string
	diary  *diary
	fails  error // to start
	unwell error
}

func (p *part) Name() string { return p.name }

func (p *part) Start(context.Context) error {
	p.diary.note("start " + p.name)
	return p.fails
}

func (p *part) Stop() { p.diary.note("stop " + p.name) }

func (p *part) Ready(context.Context) error { return p.unwell }

func newStack(t *testing.T, failed func(error)) *startstop.Stack {
	t.Helper()
	if failed == nil {
		failed = func(err error) { t.Errorf("it failed: %v", err) }
	}
	return &startstop.Stack{Failed: failed, Logger: slog.New(slog.DiscardHandler)}
}

func TestPartsStopInTheReverseOrder(t *testing.T) {
	var d diary
	s := newStack(t, nil)
	a, b, c := &part{name: "a", diary: &d}, &part{name: "b", diary: &d},
		&part{name: "c", diary: &d, unwell: errors.New("ill")}
	s.OnStopLast(func() { d.note("the last") })
	if err := errors.Join(s.Start(t.Context(), a, b), s.Start(t.Context(), a, c)); err != nil {
		t.Fatal(err)
	}
	s.OnStop(func() { d.note("the first") })
	reports := s.Ready(t.Context())
	if len(reports) != 3 || reports[0].Err != nil || reports[2].Name != "c" || reports[2].Err == nil {
		t.Errorf("ready: %v", reports)
	}
	s.Stop()
	s.Stop()
	s.OnStop(func() { d.note("too late") })
	if err := s.Start(t.Context(), &part{name: "d", diary: &d}); !errors.Is(err,
		startstop.ErrStopped) {
		t.Errorf("a start after the stop: %v", err)
	}
	want := []string{
		"start a", "start b", "start c", "the first", "stop c", "stop b", "stop a",
		"the last", "too late",
	}
	if !slices.Equal(d.lines, want) {
		t.Errorf("%q, want %q", d.lines, want)
	}
}

func TestAStartThatFailsIsCleanedUp(t *testing.T) {
	var d diary
	s := newStack(t, nil)
	broken := errors.New("broken")
	err := s.Start(t.Context(),
		&part{name: "a", diary: &d},
		&part{name: "b", diary: &d, fails: broken},
		&part{name: "c", diary: &d})
	if !errors.Is(err, broken) {
		t.Fatalf("start: %v", err)
	}
	if r := s.Ready(t.Context()); len(r) != 2 || r[0].Err != nil || r[1].Err == nil ||
		len(s.Started()) != 1 {
		t.Errorf("ready: %v", r)
	}
	s.Stop()
	if want := []string{"start a", "start b", "stop b", "stop a"}; !slices.Equal(d.lines, want) {
		t.Errorf("%q, want %q", d.lines, want)
	}
}

// A cancelled start starts nothing more.
func TestAStartThatWasCalledOff(t *testing.T) {
	var d diary
	s := newStack(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Start(ctx, &part{name: "a", diary: &d}, &part{name: "b", diary: &d})
	if !errors.Is(err, context.Canceled) || !slices.Equal(d.lines, []string{"start a"}) {
		t.Errorf("%v, %q", err, d.lines)
	}
	s.Stop()
}

func TestALoopThatEndsByItselfIsTold(t *testing.T) {
	told := make(chan error, 2)
	s := newStack(t, func(err error) { told <- err })
	broken := errors.New("broken")
	s.Go("the short loop", func(context.Context) error { return broken })
	if err := <-told; !errors.Is(err, broken) || err.Error() != "the short loop ended: broken" {
		t.Errorf("told %v", err)
	}
	running := make(chan struct{})
	s.Go("the long loop", func(ctx context.Context) error {
		close(running)
		<-ctx.Done()
		return errors.New("ended when it was told to")
	})
	<-running
	s.Stop()
	select {
	case err := <-told:
		t.Errorf("a loop that was stopped is told of as failed: %v", err)
	default:
	}
}
