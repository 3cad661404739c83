package domain

import (
	"slices"
	"testing"
	"time"
)

func TestHealthIsSaidInAWord(t *testing.T) {
	const now = int64(1_790_000_000_000)
	ago := func(d time.Duration) int64 { return now - d.Milliseconds() }
	some := func(delivered, failed uint64) AttemptCounts { return AttemptCounts{delivered, failed} }
	last := func(success, failure time.Duration, hour, week AttemptCounts) EndpointHealth {
		return EndpointHealth{
			Hour: hour, Week: week, LastSuccessMillis: ago(success), LastFailureMillis: ago(failure),
		}
	}
	const hour, minute, second = time.Hour, time.Minute, time.Second
	none := some(0, 0)
	for name, c := range map[string]struct {
		health EndpointHealth
		status EndpointStatus
		want   HealthState
	}{
		"never sent anything": {EndpointHealth{}, StatusActive, HealthIdle},
		"disabled":            {EndpointHealth{Week: some(0, 9)}, StatusDisabled, HealthDisabled},
		"a week ago":          {last(300*hour, 200*hour, none, none), StatusActive, HealthIdle},
		"the first attempt fails": {
			EndpointHealth{Hour: some(0, 1), Week: some(0, 1), LastFailureMillis: now},
			StatusActive, HealthDown,
		},
		"nothing for 5 minutes": {
			last(5*minute, 0, some(99, 1), some(99, 1)), StatusActive, HealthDown,
		},
		"nothing for less": {
			last(5*minute-time.Millisecond, 0, some(99, 1), some(99, 1)), StatusActive, HealthHealthy,
		},
		"it works again": {last(minute, hour, some(1, 0), some(1, 40)), StatusActive, HealthHealthy},
		"8 in 10":        {last(minute, second, some(8, 2), some(8, 2)), StatusActive, HealthFailing},
		"9 in 10":        {last(minute, second, some(9, 1), some(9, 1)), StatusActive, HealthHealthy},
		// The next attempt is hours away, so the last hour has no attempts.
		"down since yesterday":  {last(30*hour, 6*hour, none, some(5, 9)), StatusActive, HealthDown},
		"quiet since a success": {last(30*hour, 40*hour, none, some(5, 9)), StatusActive, HealthHealthy},
	} {
		if got := c.health.State(c.status, now); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}

func TestAttemptsOfTwoSpans(t *testing.T) {
	sum := AttemptCounts{Delivered: 2, Failed: 1}
	sum.Add(AttemptCounts{Delivered: 1, Failed: 4})
	if sum != (AttemptCounts{Delivered: 3, Failed: 5}) || sum.All() != 8 || sum.Rate() != 0.375 {
		t.Errorf("%+v, %v", sum, sum.Rate())
	}
	if rate := (AttemptCounts{}).Rate(); rate != 0 {
		t.Errorf("the rate of no attempts is %v", rate)
	}
	worstFirst := []HealthState{
		HealthDown, HealthFailing, HealthDisabled, HealthHealthy, HealthIdle,
	}
	if got := HealthStates(); !slices.Equal(got, worstFirst) {
		t.Errorf("the states are %q", got)
	}
}
