package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// A server that keeps sending facts until the fold times out is not replaced by another server,
// but one that sends none is. If the caller's own time runs out, it gets the error of its
// context.
func TestAFoldThatIsSlowHasManyFacts(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	late := fmt.Errorf("reading: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		ctx   context.Context
		facts int
		err   error
		want  error
	}{
		"all were folded":      {t.Context(), 9, nil, nil},
		"there are more":       {t.Context(), 9, readmodel.ErrManyFacts, readmodel.ErrManyFacts},
		"the time is over":     {t.Context(), 9, late, readmodel.ErrManyFacts},
		"no fact came":         {t.Context(), 0, late, readmodel.ErrUnavailable},
		"the server died":      {t.Context(), 9, io.ErrUnexpectedEOF, readmodel.ErrUnavailable},
		"the caller's is over": {over, 9, late, context.DeadlineExceeded},
	} {
		b := fold[domain.Watch]{facts: c.facts}
		got := b.ended(c.ctx, c.err)
		if !errors.Is(got, c.want) ||
			c.want != readmodel.ErrUnavailable && errors.Is(got, readmodel.ErrUnavailable) ||
			c.want != readmodel.ErrManyFacts && errors.Is(got, readmodel.ErrManyFacts) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
