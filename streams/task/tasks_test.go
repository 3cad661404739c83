package task

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Check reports a partition that keeps failing until one of its runs has lasted for healedAfter.
func TestTasksReportWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTasks(nil, slog.New(slog.DiscardHandler))
		failure := errors.New("no key opens it")
		r := &runningTask{began: time.Now()}
		s.running[3] = r
		if err := s.Check(); err != nil {
			t.Errorf("at first: %v", err)
		}
		r.failed = failure
		if err := s.Check(); !errors.Is(err, failure) {
			t.Errorf("after a failure: %v", err)
		}
		time.Sleep(healedAfter) //nolint:forbidigo // virtual
		if err := s.Check(); err != nil {
			t.Errorf("after a run that lasts: %v", err)
		}
	})
}

// A task restarts only while the group confirms that this process owns its partition. Otherwise, an
// owner whose partition is taken over just before it acts would act on an outdated state (G3).
// Found by the simulation.
func TestATaskThatFailsTakesNothingFromItsNewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs, restarts, ours atomic.Int64
		s := NewTasks(func(int32) Runner {
			runs.Add(1)
			// It fails at once.
			unreachable := kafka.Cluster{
				Brokers: []string{"no:address:at all"},
				Logger:  slog.New(slog.DiscardHandler),
			}
			return NewTask(Config[int, int]{Cluster: unreachable, Now: time.Now})
		}, slog.New(slog.DiscardHandler))
		s.Owned = func() bool { return ours.Load() == 1 }
		s.OnRestart = func() { restarts.Add(1) }
		s.Assigned([]int32{0})
		time.Sleep(time.Minute) //nolint:forbidigo // virtual
		if n := runs.Load(); n != 1 {
			t.Errorf("%d runs while the partition may be another's", n)
		}
		ours.Store(1)
		time.Sleep(time.Minute) //nolint:forbidigo // virtual
		if n := runs.Load(); n < 2 {
			t.Error("it is not started again when the partition is ours")
		}
		s.Lost([]int32{0})
		if n := restarts.Load(); n != runs.Load() {
			t.Errorf("%d restarts after %d failed runs", n, runs.Load())
		}
	})
}

type lasting struct{}

func (lasting) Stats() Stats { return Stats{} }

func (lasting) Run(ctx context.Context, stop <-chan struct{}) error {
	select {
	case <-ctx.Done():
	case <-stop:
	}
	return nil
}

// A partition that is assigned again must keep its task. A second task would wait forever for the
// first, because nothing would stop the first.
func TestAPartitionThatIsAssignedAgainContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		s := NewTasks(func(int32) Runner {
			made++
			return lasting{}
		}, slog.New(slog.DiscardHandler))
		s.Assigned([]int32{0})
		synctest.Wait()
		first := s.running[0]
		s.Assigned([]int32{0, 1})
		synctest.Wait()
		if s.running[0] != first || made != 2 {
			t.Errorf("%d tasks were made of two partitions", made)
		}
		s.Revoked([]int32{0, 1})
	})
}

type failing struct{}

func (failing) Run(context.Context) error { return errors.New("it has aborted records") }
func (failing) Stats() StandbyStats       { return StandbyStats{Folded: 500, Following: true} }

// A standby that has failed must not report how far it got, because its copy may be gone and does
// not advance any more.
func TestAStandbyThatEndedSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewTasks(nil, slog.New(slog.DiscardHandler))
		s.NewStandby = func(int32, func()) Standby { return failing{} }
		s.StandBy([]int32{2})
		synctest.Wait() // the standby waits for its next run
		if _, known := s.Lag(2); known || s.Folded()[2] != 0 {
			t.Errorf("it has folded %d, and its lag is known: %v", s.Folded()[2], known)
		}
		s.Close()
	})
}
