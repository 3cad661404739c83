package node_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/internal/node"
)

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
	fails  error // error of Start
	unwell error
}

func (p *part) Name() string { return p.name }

func (p *part) Start(context.Context) error {
	p.diary.note("start " + p.name)
	return p.fails
}

func (p *part) Stop() { p.diary.note("stop " + p.name) }

func (p *part) Ready(context.Context) error { return p.unwell }

func newStack(t *testing.T, failed func(error)) *node.Stack {
	t.Helper()
	if failed == nil {
		failed = func(err error) { t.Errorf("it failed: %v", err) }
	}
	return &node.Stack{Failed: failed, Logger: slog.New(slog.DiscardHandler)}
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
		node.ErrStopped) {
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

// A loop that fails must be restarted without affecting the others. Its part isn't ready until the
// loop has worked for a while. The log has a line for each change, not for each try.
func TestALoopThatEndsIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		var names []string
		s := &node.Stack{
			Failed:    func(err error) { t.Errorf("the process ends: %v", err) },
			Restarted: func(loop string) { names = append(names, loop) },
			Logger:    slog.New(slog.NewTextHandler(&text, nil)),
		}
		runs, neighbour := 0, 0
		s.Go("the other", func(ctx context.Context) error {
			neighbour++
			<-ctx.Done()
			return errors.New("ended when it was told to")
		})
		s.Go("one", func(ctx context.Context) error {
			if runs++; runs <= 5 {
				return errors.New("broken")
			}
			<-ctx.Done()
			return nil
		})
		synctest.Wait()
		if err := s.Failing(); err == nil || !strings.Contains(err.Error(), "broken") {
			t.Errorf("while it fails: %v", err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if err := s.Failing(); err != nil || runs != 6 || neighbour != 1 {
			t.Errorf("after a minute: %v, %d runs, %d of the other", err, runs, neighbour)
		}
		s.Stop()
		if !slices.Equal(names, []string{"one", "one", "one", "one", "one"}) {
			t.Errorf("restarted: %q", names)
		}
		if failed, well := strings.Count(text.String(), "has failed"),
			strings.Count(text.String(), "works again"); failed != 1 || well != 1 {
			t.Errorf("%d and %d lines, want one each:\n%s", failed, well, &text)
		}
	})
}

// A loop has no reason to end, so it must be restarted even if it ends without an error.
func TestALoopThatEndsWithoutAnErrorIsRestarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStack(t, nil)
		runs := 0
		s.Go("one", func(context.Context) error { runs++; return nil })
		<-time.After(time.Hour)
		synctest.Wait()
		s.Stop()
		if runs < 100 || runs > 250 { // once every 15 to 30 s
			t.Errorf("%d runs in an hour", runs)
		}
	})
}
