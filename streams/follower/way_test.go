package follower

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// waited is how long the way was waited for.
func waited(ctx context.Context, w *way) time.Duration {
	begun := time.Now()
	w.await(ctx, time.Second)
	return time.Since(begun)
}

func TestTheLiveLedgerGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w way
		if took := waited(t.Context(), &w); took != 0 {
			t.Errorf("a free way was waited for, %s", took)
		}
		w.take()
		w.take() // the next page of one that is catching up
		time.AfterFunc(300*time.Millisecond, w.leave)
		if took := waited(t.Context(), &w); took != 300*time.Millisecond {
			t.Errorf("waited %s, want until it was left", took)
		}
		w.leave()
		w.take()
		if took := waited(t.Context(), &w); took != time.Second {
			t.Errorf("waited %s, want a second at most", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if took := waited(ended, &w); took != 0 {
			t.Errorf("waited %s after the end", took)
		}
	})
}
