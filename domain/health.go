package domain

import "time"

// AttemptCounts are attempts of an endpoint in a span of time, tests included.
type AttemptCounts struct{ Delivered, Failed uint64 }

// All returns how many attempts there are.
func (c AttemptCounts) All() uint64 { return c.Delivered + c.Failed }

// Rate returns the share of the attempts that delivered, from 0 to 1; 0 without any.
func (c AttemptCounts) Rate() float64 {
	if c.All() == 0 {
		return 0
	}
	return float64(c.Delivered) / float64(c.All())
}

// Add adds the attempts of another span.
func (c *AttemptCounts) Add(other AttemptCounts) {
	c.Delivered += other.Delivered
	c.Failed += other.Failed
}

// EndpointHealth is how an endpoint takes what is sent to it. Spans end now; they consist of whole
// buckets, of 5 minutes in the last hour and of one hour in the others.
type EndpointHealth struct {
	Hour, Day, Week     AttemptCounts
	Hours               [24]AttemptCounts // of the day, oldest first
	LastSuccessMillis   int64             // of the last attempt that delivered; 0: none is known
	LastFailureMillis   int64             // of the last other attempt; 0: none is known
	OldestPendingMillis int64             // creation of the oldest pending event; 0: none is
	PendingUnknown      bool              // OldestPendingMillis could not be read
}

// HealthState says in a word how an endpoint does.
type HealthState string

// The states, worst first.
const (
	HealthDown     HealthState = "down"     // the last attempt failed; none delivered for 5 minutes
	HealthFailing  HealthState = "failing"  // fewer than 9 in 10 attempts of the last hour delivered
	HealthDisabled HealthState = "disabled" // nothing is sent
	HealthHealthy  HealthState = "healthy"
	HealthIdle     HealthState = "idle" // there was no attempt in the last 7 days
)

// HealthStates are all states, worst first.
func HealthStates() []HealthState {
	return []HealthState{HealthDown, HealthFailing, HealthDisabled, HealthHealthy, HealthIdle}
}

// HealthDownAfter is how long nothing was delivered by an endpoint that is down.
const HealthDownAfter = 5 * time.Minute

const healthyRate = 0.9

// State judges an endpoint.
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
