package engine

import "slices"

// starts are the start times of the last second's attempts to one endpoint, for its rate limit. In
// no second of the engine's clock do more attempts begin than the limit; after a pause, all may
// begin at once. There is one entry per millisecond with attempts, at most 1,000.
//
// After a task has taken over its partition, or after the clock was set back, earlier attempts may
// have begun just now, so none begins for a second.
type starts struct {
	entries          []startsAt
	total            int
	quietUntilMillis int64
}

type startsAt struct {
	atMillis int64
	count    int
}

const rateMillis = 1000

func (s *starts) quietSince(nowMillis int64) { s.quietUntilMillis = nowMillis + rateMillis }

// add counts an attempt. Without a limit it keeps one entry, in case a limit is set later.
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

// allowance returns how many attempts may begin now or, if none, when one may.
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
