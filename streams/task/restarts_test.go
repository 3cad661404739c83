package task

import "testing"

import (
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Waits grow up to a bound, and start over after a long run.
func TestRestartsWaitLongerEachTime(t *testing.T) {
	r := NewRestarts(func() float64 { return 0 }) // every wait is half of its interval
	now := int64(1_000)
	fails := func(after int64) int64 {
		r.Began(now)
		now += after
		r.Failed(now)
		return r.Wait(now, true)
	}
	for _, want := range []int64{50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000} {
		if wait := fails(10); wait != want {
			t.Errorf("it waits %d ms, want %d", wait, want)
		}
	}
	if wait := fails(steadyAfter.Milliseconds() + 1); wait != 50 {
		t.Errorf("after a run that lasted it waits %d ms", wait)
	}
}

// A restart requires that the wait is over. While the partition may belong to another process, it
// also requires a confirmation by the group.
func TestRestartsAskTheGroup(t *testing.T) {
	r := NewRestarts(func() float64 { return 0 })
	r.Began(0)
	r.Failed(0)
	for _, step := range []struct {
		now  int64
		ours bool
		wait int64
	}{{0, true, 50}, {49, true, 1}, {50, false, 50}, {99, true, 1}, {100, false, 50}, {150, true, 0}} {
		if wait := r.Wait(step.now, step.ours); wait != step.wait {
			t.Errorf("%+v: it waits %d ms", step, wait)
		}
	}
}

// An expired membership must not become valid again because a machine slept or a clock was set
// back.
func TestMembershipCountsByBothClocks(t *testing.T) {
	session := kafka.SessionTimeout.Milliseconds()
	sent := kafka.Moment{WallMillis: 1_000_000, SteadyMillis: 500}
	for name, c := range map[string]struct {
		wall, steady int64 // milliseconds elapsed on each clock
		fresh        bool
	}{
		"at once":                  {0, 0, true},
		"within the session":       {session - 1, session - 1, true},
		"after it":                 {session, session, false},
		"the machine slept":        {session, 10, false},
		"the clock was set back":   {-3_600_000, session, false},
		"set back, and soon after": {-3_600_000, 10, true},
	} {
		now := kafka.Moment{
			WallMillis:   sent.WallMillis + c.wall,
			SteadyMillis: sent.SteadyMillis + c.steady,
		}
		if sent.Fresh(now) != c.fresh {
			t.Errorf("%s: %v", name, !c.fresh)
		}
	}
}
