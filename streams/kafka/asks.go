package kafka

import (
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	// askEvery bounds how often a member asks for a rebalance because it is warm: each has all
	// members join again, while they work.
	askEvery = 5 * time.Second
	// askLast is how often it asks when nothing comes of it.
	askLast = 10 * time.Minute
)

// asks decides when a member asks for a rebalance because copies that others wait for are
// warm. It asks more and more rarely while the same ones are: by the group they are not, as
// when a member claims to be further than the journal is. It is used by one goroutine.
type asks struct {
	waits  *retry.Backoff
	copies []int32 // the warm copies of the latest time
	at     int64   // of it, by the steady clock
	wait   int64
	asked  bool
}

func newAsks() *asks {
	// A wait ends in its second half.
	return &asks{waits: retry.Policy{First: 2 * askEvery, Last: askLast}.Backoff()}
}

// due reports whether to ask now, for these copies.
func (a *asks) due(warm []int32, steadyMillis int64) bool {
	if len(warm) == 0 {
		return false
	}
	wait := a.wait
	more := func(p int32) bool { return !slices.Contains(a.copies, p) }
	news := slices.ContainsFunc(warm, more)
	if news {
		wait = min(wait, askEvery.Milliseconds())
	}
	if a.asked && steadyMillis-a.at < wait {
		return false
	}
	if news {
		a.waits.Reset()
	}
	a.copies, a.at, a.asked = slices.Clone(warm), steadyMillis, true
	a.wait = a.waits.Next().Milliseconds()
	return true
}
