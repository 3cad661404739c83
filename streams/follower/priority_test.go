package follower

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func waited(ctx context.Context, p *priority) time.Duration {
	start := time.Now()
	p.await(ctx, time.Second)
	return time.Since(start)
}

func TestTheLiveLedgerGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p priority
		if took := waited(t.Context(), &p); took != 0 {
			t.Errorf("without live work, it waited %s", took)
		}
		p.begin()
		p.begin() // the next page, while the follower is catching up
		time.AfterFunc(300*time.Millisecond, p.end)
		if took := waited(t.Context(), &p); took != 300*time.Millisecond {
			t.Errorf("waited %s, want until it was left", took)
		}
		p.end()
		p.begin()
		if took := waited(t.Context(), &p); took != time.Second {
			t.Errorf("waited %s, want a second at most", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if took := waited(ended, &p); took != 0 {
			t.Errorf("waited %s after the end", took)
		}
	})
}
