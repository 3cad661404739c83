package domain

// DefaultDisableAfter is how many runs in a row must end FAILED before an
// endpoint is disabled (specification, "Limits").
const DefaultDisableAfter = 20

// Policy are a deployment's settings of retries and disabling.
type Policy struct {
	Schedule     Schedule
	DisableAfter int // runs that end FAILED in a row; 0: never
	// HonourRetryAfter lets a receiver's Retry-After lengthen a wait, at most to
	// the base of the schedule's next one, so that all attempts keep being made.
	HonourRetryAfter bool
}

// DefaultPolicy is that of the specification.
func DefaultPolicy() Policy {
	return Policy{Schedule: DefaultSchedule(), DisableAfter: DefaultDisableAfter}
}

// waitMillis returns the wait after a failed attempt of a run; false if that was the run's
// last one.
func (p Policy) waitMillis(
	eventID string, attemptInRun, attemptNumber int, r AttemptResult,
) (int64, bool) {
	wait, again := p.Schedule.WaitMillis(eventID, attemptInRun, attemptNumber)
	if again && p.HonourRetryAfter && attemptInRun < len(p.Schedule.WaitsMillis) {
		wait = max(wait, min(r.RetryAfterMillis, p.Schedule.WaitsMillis[attemptInRun]))
	}
	return wait, again
}

// disables reports whether an attempt disables the endpoint, and why. A 410 does so
// whatever the event was; a failed run counts only if it was no test (specification,
// "States and transitions", Endpoint).
func (p Policy) disables(e Endpoint, made AttemptMade) (DisabledReason, bool) {
	switch {
	case !e.Sends():
		return "", false
	case made.Result.Gone():
		return DisabledGone, true
	case made.State == StateFailed && p.DisableAfter > 0 && streak(e, made) > e.ConsecutiveFailures:
		return DisabledConsecutiveFailures, streak(e, made) >= p.DisableAfter
	}
	return "", false
}
