package streams

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestTasksTellWhatFails: a partition that fails again and again is told of until
// a run of it has lasted.
func TestTasksTellWhatFails(t *testing.T) {
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
		time.Sleep(healedAfter)
		if err := s.Check(); err != nil {
			t.Errorf("after a run that lasts: %v", err)
		}
	})
}
