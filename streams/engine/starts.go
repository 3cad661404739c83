package engine

import "slices"

// starts are the start times of the last second's attempts to one endpoint, for its rate limit. In
// any second of the engine's clock no more attempts begin than the limit. After a pause, the whole
// limit may be used at once. There is one entry for each millisecond in which any attempt began, so
// at most 1,000.
//
// Attempts from before a task took its partition over, or before the clock was set back, may have
// begun just now. In these cases none begins for a second.
type starts struct {
	entries          []startsAt // oldest first
	total            int        // of all entries
	quietUntilMillis int64
}

type startsAt struct {
	atMillis int64
	count    int
}

// rateMillis is the interval of a rate limit.
const rateMillis = 1000

// quietSince records that uncounted attempts may have begun until a time.
func (s *starts) quietSince(nowMillis int64) { s.quietUntilMillis = nowMillis + rateMillis }

// add counts an attempt that begins. Without a limit only the latest millisecond of the second is
// kept, with the total, for a limit that may be set later.
func (s *starts) add(nowMillis int64, limited bool) {
	s.advance(nowMillis)
	s.total++
	switch last := len(s.entries) - 1; {
	case last < 0 || limited && s.entries[last].atMillis < nowMillis:
		s.entries = append(s.entries, startsAt{nowMillis, 1})
	default:
		s.entries[last].atMillis = nowMillis
		s.entries[last].count++
	}
}

// allowance returns how many attempts may begin now. If that is 0, wakeMillis is when one may.
func (s *starts) allowance(perSecond int, nowMillis int64) (n int, wakeMillis int64) {
	s.advance(nowMillis)
	if nowMillis < s.quietUntilMillis {
		return 0, s.quietUntilMillis
	}
	over := s.total - perSecond
	if over < 0 {
		return -over, 0
	}
	for _, e := range s.entries {
		wakeMillis = e.atMillis + rateMillis
		if over -= e.count; over < 0 {
			break
		}
	}
	return 0, wakeMillis
}

func (s *starts) advance(nowMillis int64) {
	if last := len(s.entries) - 1; last >= 0 && s.entries[last].atMillis > nowMillis {
		s.entries, s.total = nil, 0 // the clock was set back, so the age is unknown
		s.quietSince(nowMillis)
	}
	s.quietUntilMillis = min(s.quietUntilMillis, nowMillis+rateMillis)
	passed := 0
	for passed < len(s.entries) && s.entries[passed].atMillis <= nowMillis-rateMillis {
		s.total -= s.entries[passed].count
		passed++
	}
	s.entries = slices.Delete(s.entries, 0, passed)
}
