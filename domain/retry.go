package domain

import (
	"encoding/binary"
	"hash/fnv"
)

// The jitter of a wait is up to 20% in both directions (specification, "Limits").
const jitterPartsPerMillion = 200_000

// DefaultDisableAfter is how many runs in a row must fail (specification, "Limits").
const DefaultDisableAfter = 20

// Policy holds a deployment's settings for retries and disabling.
type Policy struct {
	Schedule     Schedule
	DisableAfter int // runs that must fail in a row; 0 means never
	// HonourRetryAfter lets a receiver's Retry-After extend a wait, but at most to the schedule's next
	// wait, so that the number of attempts stays the same.
	HonourRetryAfter bool
}

// DefaultPolicy returns the specification's policy.
func DefaultPolicy() Policy {
	return Policy{Schedule: DefaultSchedule(), DisableAfter: DefaultDisableAfter}
}

// waitMillis returns the wait after a failed attempt, or false if it was the last one of its run.
func (p Policy) waitMillis(
	eventID string, attemptInRun, attemptNumber int, r AttemptResult,
) (int64, bool) {
	wait, again := p.Schedule.WaitMillis(eventID, attemptInRun, attemptNumber)
	if again && p.HonourRetryAfter && attemptInRun < len(p.Schedule.WaitsMillis) {
		wait = max(wait, min(r.RetryAfterMillis, p.Schedule.WaitsMillis[attemptInRun]))
	}
	return wait, again
}

// afterAttempt returns a delivery's state and due time after an attempt. A 410 is like any failure,
// because waiting deliveries are sent once the endpoint is enabled.
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

// Schedule is a list of waits between attempts. A run has one attempt more than waits.
type Schedule struct {
	WaitsMillis []int64
}

// DefaultSchedule returns the specification's schedule: ten attempts over about two days.
func DefaultSchedule() Schedule {
	const second, minute, hour = 1000, 60_000, 3_600_000
	return Schedule{WaitsMillis: []int64{
		30 * second, 2 * minute, 10 * minute, 30 * minute, 1 * hour, 3 * hour, 6 * hour, 12 * hour,
		24 * hour,
	}}
}

// Attempts returns the maximum number of attempts in a run.
func (s Schedule) Attempts() int { return len(s.WaitsMillis) + 1 }

// WaitMillis returns the wait with jitter after the given attempt of a run, counted from 1, or
// false if that was the last one. The jitter is derived from the event ID and the attempt's number
// across all runs. Folding the same facts therefore produces the same waits, but deliveries that
// failed together are not retried together.
func (s Schedule) WaitMillis(eventID string, attemptInRun, attemptNumber int) (int64, bool) {
	if attemptInRun < 1 || attemptInRun > len(s.WaitsMillis) {
		return 0, false
	}
	base := s.WaitsMillis[attemptInRun-1]
	return base + base*jitter(eventID, attemptNumber)/1_000_000, true
}

// jitter returns parts per million, uniformly distributed around zero.
func jitter(eventID string, attemptNumber int) int64 {
	h := fnv.New64a()
	h.Write([]byte(eventID))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(attemptNumber)))
	return int64(mix(h.Sum64())%(2*jitterPartsPerMillion+1)) - jitterPartsPerMillion
}

// mix is MurmurHash3's finalizer. FNV's high bits alone hardly depend on the last byte.
func mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// disables reports whether an attempt disables the endpoint, and why. A 410 always does. A failed
// run only counts if it is not a test (specification, "States and transitions").
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
