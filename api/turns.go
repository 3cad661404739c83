package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	// maxRunningInAll applies to all accounts together. With the limit of a page, it bounds a
	// node's memory.
	maxRunningInAll = 64
	// turnMax bounds the wait for a turn, which does not count toward the time for the work.
	turnMax = 6 * time.Second
	// answerMax bounds how long a client may take to read the response to a request with a turn or a
	// large body. Responses keep their turns until they are written, because turns bound the memory of
	// responses. answerMax is less than turnMax, so that waiting requests outlast slow readers.
	answerMax = 5 * time.Second
	// placeRetrySeconds is when to retry a request that got no place or turn.
	placeRetrySeconds = 1

	// bodyBytesMax and accountBodyBytesMax bound the request bodies in progress at a node, of all
	// accounts and of one. Each counts until its response is written. Bodies of up to smallBodyBytes
	// don't count, because the number of requests bounds their memory: large bodies of other accounts
	// never delay them.
	bodyBytesMax        = 32 << 20
	accountBodyBytesMax = 4 << 20
	smallBodyBytes      = 8 << 10
)

// noPlace returns the problem of a request that got no place: of the node's, or of the account's,
// for which it returns the given code and detail.
func noPlace(err error, code, detail string) error {
	if errors.Is(err, ingress.ErrAllTaken) {
		code, detail = problem.CodeOverloaded, "This node is at its limit of concurrent requests."
	}
	return problem.New(code, detail+" Repeat the request after the time in Retry-After.").
		RetryAfter(placeRetrySeconds).Because(err)
}

// placeBody waits until there is room for a request's body. The server's time limit for reading a
// request includes the wait, so slow bodies keep no room.
func (a *API) placeBody(r *request) error {
	size := r.http.ContentLength
	if size < 0 || size > decode.MaxBodyBytes { // unknown until it is read, or about to be refused
		size = decode.MaxBodyBytes
	}
	if size <= smallBodyBytes {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.http.Context(), turnMax)
	defer cancel()
	leave, err := a.bodies.Await(ctx, r.caller.holder(), accountBodyBytesMax, size)
	if err != nil {
		return noPlace(err, problem.CodeTooManyParallel, fmt.Sprintf("The bodies of your account's "+
			"requests in progress at this node have %d bytes, which is the most. Send fewer at once.",
			accountBodyBytesMax))
	}
	others := r.done
	r.done = func() { leave(); others() }
	return nil
}

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
	t.leave, err = t.of.Await(ctx, t.by, int64(t.most), 1) // #nosec G115 -- at most 64
	if err != nil {
		return noPlace(err, problem.CodeRateLimited, fmt.Sprintf("%d reads and bulk operations of your "+
			"account run at once at a node, and this one got no turn in time. Send fewer at once.",
			t.most))
	}
	return nil
}

func (t *turn) end() {
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}

// pauseTurn frees the turn while a request only waits for something, and takes a new one
// afterwards.
func (t *turn) pauseTurn(ctx context.Context, wait func() error) error {
	if t.leave == nil {
		return wait()
	}
	t.end()
	if err := wait(); err != nil {
		return err
	}
	return t.take(ctx)
}
