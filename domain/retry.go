package domain

import (
	"encoding/binary"
	"hash/fnv"
)

// jitterPartsPerMillion is the jitter of a wait, in both directions: 20% (specification,
// "Limits").
const jitterPartsPerMillion = 200_000

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

// DefaultPolicy returns the policy of the specification.
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

// afterAttempt returns a delivery's state after an attempt. After a 410 it waits as after
// any failure: waiting deliveries are sent when the endpoint is enabled. Nothing waits for
// a deleted endpoint.
func afterAttempt(
	endpoint Endpoint, delivery Delivery, attemptNumber int, r AttemptResult,
	policy Policy, nowMillis int64,
) (DeliveryState, int64) {
	switch {
	case delivery.State == StateCancelled:
		return StateCancelled, 0
	case r.Succeeded():
		return StateDelivered, 0
	}
	wait, again := policy.waitMillis(delivery.EventID, delivery.RunAttempts+1, attemptNumber, r)
	switch {
	case !again:
		return StateFailed, 0
	case endpoint.Deleted():
		return StateCancelled, 0
	}
	return StateWaiting, nowMillis + wait
}

// Schedule is the waits between attempts. There is one more attempt than there are waits.
type Schedule struct {
	WaitsMillis []int64
}

// DefaultSchedule returns the schedule of the specification: nine waits, ten attempts, about two
// days.
func DefaultSchedule() Schedule {
	const second, minute, hour = 1000, 60_000, 3_600_000
	return Schedule{WaitsMillis: []int64{
		30 * second, 2 * minute, 10 * minute, 30 * minute, 1 * hour, 3 * hour, 6 * hour, 12 * hour,
		24 * hour,
	}}
}

// Attempts is the number of attempts in one run.
func (s Schedule) Attempts() int { return len(s.WaitsMillis) + 1 }

// WaitMillis returns the wait after the given attempt of a run (1 is the first), with its
// jitter. It returns false if that attempt was the last. The jitter is derived from the
// delivery and the attempt's number over all runs, so that folding the same facts again
// gives the same waits, and deliveries that failed together are not retried together.
func (s Schedule) WaitMillis(eventID string, attemptInRun, attemptNumber int) (int64, bool) {
	if attemptInRun < 1 || attemptInRun > len(s.WaitsMillis) {
		return 0, false
	}
	base := s.WaitsMillis[attemptInRun-1]
	return base + base*jitter(eventID, attemptNumber)/1_000_000, true
}

// jitter returns a number of millionths, uniformly distributed around zero.
func jitter(eventID string, attemptNumber int) int64 {
	h := fnv.New64a()
	h.Write([]byte(eventID))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(attemptNumber)))
	return int64(mix(h.Sum64())%(2*jitterPartsPerMillion+1)) - jitterPartsPerMillion
}

// mix finishes the hash: the high bits of FNV alone are similar for inputs that differ in
// the last byte. The constants are those of MurmurHash3's finalizer.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// disables reports whether an attempt disables the endpoint, and why. A 410 does so
// whatever the event was; a failed run counts only if it was no test (specification,
// "States and transitions").
func (p Policy) disables(e Endpoint, made AttemptMade) (DisabledReason, bool) {
	switch {
	case !e.Sends():
		return "", false
	case made.Result.Gone():
		return DisabledGone, true
	case made.State == StateFailed && made.EventType != TestPing && p.DisableAfter > 0:
		return DisabledConsecutiveFailures, streak(e, made) >= p.DisableAfter
	}
	return "", false
}
