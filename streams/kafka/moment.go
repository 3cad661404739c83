package kafka

import "time"

// Moment is a time by two clocks: the wall clock, which may be set, and a steady one that
// never goes back but may stop while the machine sleeps.
type Moment struct{ WallMillis, SteadyMillis int64 }

// MomentOf converts a time, for a steady clock that started at began.
func MomentOf(now, began time.Time) Moment {
	return Moment{WallMillis: now.UnixMilli(), SteadyMillis: now.Sub(began).Milliseconds()}
}

// Fresh reports whether a group's acknowledgement of a request that was sent at this time
// still counts, so that the member's partitions cannot have been given to others. The
// larger of both ages counts, since either clock may be wrong.
func (sent Moment) Fresh(now Moment) bool {
	age := max(now.SteadyMillis-sent.SteadyMillis, now.WallMillis-sent.WallMillis)
	return age < SessionTimeout.Milliseconds()
}
