package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	// maxRunningInAll applies to all accounts together. With the limit of a page, it bounds a
	// node's memory.
	maxRunningInAll = 64
	// turnMax bounds the wait for a turn, which does not count toward the time for the work.
	turnMax = 6 * time.Second
	// answerMax bounds how long a client may take to read the response to a request with a turn.
	// Responses keep their turns until they are written, because turns bound the memory of
	// responses. answerMax is less than turnMax, so that waiting requests outlast slow readers.
	answerMax = 5 * time.Second
	// turnRetrySeconds is when to retry a request that got no turn.
	turnRetrySeconds = 1
)

// turn is a request's place among the few reads and bulk operations that the keys of an account,
// and separately its portal links, run at once. The zero value takes none.
type turn struct {
	of    *ingress.Places[holder]
	by    holder
	most  uint64 // how many of the holder may run at once: the account's quota
	leave func() // nil: the request has no turn
}

// take waits for a turn.
func (t *turn) take(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, turnMax)
	defer cancel()
	t.leave, err = t.of.Await(ctx, t.by, int64(t.most)) // #nosec G115 -- at most 64
	switch {
	case errors.Is(err, ingress.ErrAllTaken):
		return problem.New(problem.CodeOverloaded, "This node is at its limit of reads. Repeat the "+
			"request after the time in Retry-After.").RetryAfter(turnRetrySeconds).Because(err)
	case err != nil:
		return problem.New(problem.CodeRateLimited, fmt.Sprintf("%d reads and bulk operations of your "+
			"account run at once at a node, and this one got no turn in time. Send fewer at once.",
			t.most)).RetryAfter(turnRetrySeconds).Because(err)
	}
	return nil
}

func (t *turn) end() {
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}

// aside frees the turn while a request only waits for something, and takes a new one afterwards.
func (t *turn) aside(ctx context.Context, wait func() error) error {
	if t.leave == nil {
		return wait()
	}
	t.end()
	if err := wait(); err != nil {
		return err
	}
	return t.take(ctx)
}
