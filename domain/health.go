package domain

import "time"

// AttemptCounts counts an endpoint's attempts in a period, including tests.
type AttemptCounts struct{ Delivered, Failed uint64 }

// All returns the total number of attempts.
func (c AttemptCounts) All() uint64 { return c.Delivered + c.Failed }

// Rate returns the success rate from 0 to 1, or 0 if there were no attempts.
func (c AttemptCounts) Rate() float64 {
	if c.All() == 0 {
		return 0
	}
	return float64(c.Delivered) / float64(c.All())
}

// Add adds the counts of another period.
func (c *AttemptCounts) Add(other AttemptCounts) {
	c.Delivered += other.Delivered
	c.Failed += other.Failed
}

// EndpointHealth summarizes an endpoint's recent attempts. Each period ends now and consists of
// whole buckets: of 5 minutes in the last hour, and of one hour in the others.
type EndpointHealth struct {
	Hour, Day, Week     AttemptCounts
	Hours               [24]AttemptCounts // the hours of Day, oldest first
	LastSuccessMillis   int64             // last successful attempt; 0 if unknown
	LastFailureMillis   int64             // last failed attempt; 0 if unknown
	OldestPendingMillis int64             // creation of the oldest pending event; 0 if there is none
	PendingUnknown      bool              // OldestPendingMillis could not be read
}

// HealthState is the health of an endpoint in one word.
type HealthState string

// Health states, worst first.
const (
	HealthDown     HealthState = "down"     // last attempt failed, no success for 5 minutes
	HealthFailing  HealthState = "failing"  // less than 90% of the last hour's attempts succeeded
	HealthDisabled HealthState = "disabled" // nothing is sent
	HealthHealthy  HealthState = "healthy"
	HealthIdle     HealthState = "idle" // no attempts in the last 7 days
)

// HealthStates returns all states, worst first.
func HealthStates() []HealthState {
	return []HealthState{HealthDown, HealthFailing, HealthDisabled, HealthHealthy, HealthIdle}
}

// HealthDownAfter is the time without a successful attempt after which a failing endpoint is down.
const HealthDownAfter = 5 * time.Minute

const healthyRate = 0.9

// State returns the state of an endpoint with the given status.
func (h EndpointHealth) State(status EndpointStatus, nowMillis int64) HealthState {
	switch {
	case status == StatusDisabled:
		return HealthDisabled
	case h.Week.All() == 0:
		return HealthIdle
	case h.LastFailureMillis > h.LastSuccessMillis &&
		nowMillis-h.LastSuccessMillis >= HealthDownAfter.Milliseconds():
		return HealthDown
	case h.Hour.All() > 0 && h.Hour.Rate() < healthyRate:
		return HealthFailing
	}
	return HealthHealthy
}
