package history

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// endingContext has a deadline that has passed, but its timer has not fired yet.
type endingContext struct {
	context.Context
	deadline time.Time
}

func (c endingContext) Deadline() (time.Time, bool) { return c.deadline, true }

// The caller's deadline takes precedence, even if a connection with the same deadline reports it
// before the context does.
func TestTheCallersDeadlineComesFirst(t *testing.T) {
	timeout := fmt.Errorf("%w: read tcp: %w", readmodel.ErrUnavailable, os.ErrDeadlineExceeded)
	ended := endingContext{t.Context(), time.Now().Add(-time.Nanosecond)}
	running := endingContext{t.Context(), time.Now().Add(time.Hour)}
	refused := fmt.Errorf("%w: connection refused", readmodel.ErrUnavailable)
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want error
	}{
		{"the caller's deadline, told by the connection", ended, timeout, context.DeadlineExceeded},
		{"the query's own limit", running, timeout, readmodel.ErrUnavailable},
		{"another fault at the end", ended, refused, readmodel.ErrUnavailable},
		{"no deadline", t.Context(), timeout, readmodel.ErrUnavailable},
	} {
		if got := callersFirst(c.ctx, c.err); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
