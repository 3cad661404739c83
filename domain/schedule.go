package domain

import (
	"encoding/binary"
	"hash/fnv"
)

// jitterPartsPerMillion is the jitter of a wait, in both directions: 20% (specification,
// "Limits").
const jitterPartsPerMillion = 200_000

// Schedule is the waits between attempts. There is one more attempt than there are waits.
type Schedule struct {
	WaitsMillis []int64
}

// DefaultSchedule is that of the specification: nine waits, ten attempts, about two days.
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
	return base + base/1_000_000*jitter(eventID, attemptNumber) +
		base%1_000_000*jitter(eventID, attemptNumber)/1_000_000, true
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
