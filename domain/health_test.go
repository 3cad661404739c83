package domain

import (
	"testing"
	"time"
)

// TestHealthIsSaidInAWord: each state, at its bounds.
func TestHealthIsSaidInAWord(t *testing.T) {
	const now = int64(1_790_000_000_000)
	ago := func(d time.Duration) int64 { return now - d.Milliseconds() }
	some := func(delivered, failed uint64) AttemptCounts { return AttemptCounts{delivered, failed} }
	for name, c := range map[string]struct {
		health EndpointHealth
		status EndpointStatus
		want   HealthState
	}{
		"never sent anything": {EndpointHealth{}, StatusActive, HealthIdle},
		"disabled":            {EndpointHealth{Week: some(0, 9)}, StatusDisabled, HealthDisabled},
		"a week ago":          {EndpointHealth{LastFailureMillis: ago(200 * time.Hour)}, StatusActive, HealthIdle},
		"the first attempt fails": {EndpointHealth{Hour: some(0, 1), Week: some(0, 1),
			LastFailureMillis: ago(0)}, StatusActive, HealthDown},
		"nothing for five minutes": {EndpointHealth{Hour: some(99, 1), Week: some(99, 1),
			LastSuccessMillis: ago(5 * time.Minute), LastFailureMillis: ago(0)}, StatusActive, HealthDown},
		"nothing for less": {EndpointHealth{Hour: some(99, 1), Week: some(99, 1),
			LastSuccessMillis: ago(5*time.Minute - time.Millisecond), LastFailureMillis: ago(0)},
			StatusActive, HealthHealthy},
		"it is well again": {EndpointHealth{Hour: some(1, 0), Week: some(1, 40),
			LastSuccessMillis: ago(time.Minute), LastFailureMillis: ago(time.Hour)}, StatusActive, HealthHealthy},
		"8 in 10": {EndpointHealth{Hour: some(8, 2), Week: some(8, 2),
			LastSuccessMillis: ago(time.Minute), LastFailureMillis: ago(time.Second)}, StatusActive, HealthFailing},
		"9 in 10": {EndpointHealth{Hour: some(9, 1), Week: some(9, 1),
			LastSuccessMillis: ago(time.Minute), LastFailureMillis: ago(time.Second)}, StatusActive, HealthHealthy},
		// The next attempt is hours away: there is none in the last hour.
		"down since yesterday": {EndpointHealth{Day: some(0, 3), Week: some(5, 9),
			LastSuccessMillis: ago(30 * time.Hour), LastFailureMillis: ago(6 * time.Hour)}, StatusActive, HealthDown},
		"quiet since a success": {EndpointHealth{Week: some(5, 9),
			LastSuccessMillis: ago(30 * time.Hour), LastFailureMillis: ago(40 * time.Hour)}, StatusActive, HealthHealthy},
	} {
		if got := c.health.State(c.status, now); got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
	}
}
