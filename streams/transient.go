package streams

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// Bounds of asking again.
const (
	transientFirst = 50 * time.Millisecond
	transientLast  = 2 * time.Second
	// transientFor is longer than a cluster takes to notice a dead broker and to
	// elect leaders and coordinators in its place.
	transientFor = 30 * time.Second
)

// errAskAgain is of an answer that says nothing, or did not come.
var errAskAgain = errors.New("streams: no answer that counts")

// whileTransient asks until it is answered, or refused with an error that Kafka
// does not call retriable, or a bounded time has passed. The client does the
// same for many requests, but not where an error concerns one partition or topic
// of several, and not where a coordinator is yet to be elected.
func whileTransient[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	return retry.Value(ctx, retry.Policy{
		First:  transientFirst,
		Last:   transientLast,
		Within: transientFor,
		If: func(err error) bool {
			return kerr.IsRetriable(err) || errors.Is(err, errAskAgain)
		},
	}, ask)
}
