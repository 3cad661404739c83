package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// Bounds of the retries.
const (
	transientFirst = 50 * time.Millisecond
	transientLast  = 2 * time.Second
	// transientFor is longer than a cluster takes to notice a dead broker and to elect
	// other leaders and coordinators.
	transientFor = 30 * time.Second
)

// errAskAgain means that an answer was useless, or did not come.
var errAskAgain = errors.New("streams: no answer that counts")

// whileTransient calls ask until it succeeds or fails with an error that Kafka does not
// call retriable, or for a bounded time. The client does the same for many requests, but
// not where an error concerns one of several partitions or topics, and not while no
// coordinator is elected.
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
