package node

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// The follower reports its progress if it is at least catchUpLedgersMin ledgers behind. It queries
// the source's latest ledger less often than that, because a quorum queries all of its sources.
const (
	catchUpLedgersMin   = 20
	catchUpInterval     = time.Second
	catchUpLookInterval = 10 * time.Second
	catchUpBarWidth     = 24
	catchUpLeftMax      = 1000 * time.Hour // a longer estimate is not credible
)

// catchUp is a source that reports progress while the follower is behind.
type catchUp struct {
	follower.Source
	say func(format string, args ...any)
	now func() time.Time

	began    uint32 // first ledger of the current catch-up; 0: none
	told     time.Time
	toldAt   uint32
	lookedAt time.Time
	latest   uint32
}

// Next is called after all earlier ledgers have been processed.
func (c *catchUp) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	now := c.now()
	wait := catchUpLookInterval
	if c.began > 0 && sequence > c.latest {
		wait = catchUpInterval
	}
	if now.Sub(c.lookedAt) >= wait {
		if latest, err := c.Source.Latest(ctx); err == nil {
			c.latest = latest
		}
		c.lookedAt = now
	}
	c.report(now, sequence)
	return c.Source.Next(ctx, sequence)
}

func (c *catchUp) report(now time.Time, sequence uint32) {
	behind := int64(c.latest) - int64(sequence) + 1
	switch {
	case c.began == 0 && behind >= catchUpLedgersMin:
		c.began, c.told, c.toldAt = sequence, now, sequence
		c.say("catching up from ledger %d to %d", sequence, c.latest)
	case c.began == 0:
	case behind <= 1:
		c.say("caught up at ledger %d, %d ledgers", sequence-1, sequence-c.began)
		c.began = 0
	case now.Sub(c.told) >= catchUpInterval:
		perSecond := float64(sequence-c.toldAt) / now.Sub(c.told).Seconds()
		left := "…"
		if seconds := float64(behind) / perSecond; seconds < catchUpLeftMax.Seconds() {
			left = time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
		}
		done := sequence - c.began
		share := float64(done) / float64(int64(done)+behind)
		full := int(share * catchUpBarWidth)
		bar := fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("#", full),
			strings.Repeat(".", catchUpBarWidth-full), 100*share)
		c.say("catching up %s %.0f ledgers/s, %d to go, %s", bar, perSecond, behind, left)
		c.told, c.toldAt = now, sequence
	}
}
