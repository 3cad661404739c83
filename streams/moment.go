package streams

import "time"

// Moment is a time by two clocks: the wall clock, which may be set, and one that only
// goes forward, and may stand still while the machine sleeps.
type Moment struct{ WallMillis, SteadyMillis int64 }

// momentOf is a time, whose steady clock began at another.
func momentOf(now, began time.Time) Moment {
	return Moment{WallMillis: now.UnixMilli(), SteadyMillis: now.Sub(began).Milliseconds()}
}

// Fresh reports whether what a group acknowledged counts still, at the time when the
// request was sent: whether it has kept its member's partitions for it. The larger of
// both ages counts, since either clock may be wrong.
func (sent Moment) Fresh(now Moment) bool {
	age := max(now.SteadyMillis-sent.SteadyMillis, now.WallMillis-sent.WallMillis)
	return age < SessionTimeout.Milliseconds()
}
