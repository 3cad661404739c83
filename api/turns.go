package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lumenhook/lumenhook/api/problem"
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

// turns lets the keys of each account, and separately its portal links, run a few reads and bulk
// operations concurrently. Other requests wait in order of arrival, so a flood from one account
// delays only its own requests.
type turns struct {
	all      *semaphore.Weighted
	mu       sync.Mutex
	byHolder map[holder]*holderTurns
}

type holderTurns struct {
	running *semaphore.Weighted
	most    uint64 // how many may run: the account's quota
	users   int    // requests that run or wait; the last one removes the entry
}

func newTurns() *turns {
	return &turns{
		all:      semaphore.NewWeighted(maxRunningInAll),
		byHolder: make(map[holder]*holderTurns),
	}
}

// turn is the turn of one request. The zero value needs no turn.
type turn struct {
	of   *turns
	by   holder
	most uint64 // how many of the holder's requests may run concurrently
	own  *holderTurns
	held bool
}

func (t *turns) users(of holder) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if own, known := t.byHolder[of]; known {
		return uint64(own.users) // #nosec G115 -- never negative
	}
	return 0
}

func (t *turn) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, turnMax)
	defer cancel()
	t.of.mu.Lock()
	own, known := t.of.byHolder[t.by]
	if !known || own.most != t.most { // earlier requests finish on their own
		own = &holderTurns{running: semaphore.NewWeighted(int64(t.most)), most: t.most} // #nosec G115
		t.of.byHolder[t.by] = own
	}
	own.users++
	t.own = own
	t.of.mu.Unlock()
	err := own.running.Acquire(ctx, 1)
	if err == nil {
		if err := t.of.all.Acquire(ctx, 1); err != nil {
			own.running.Release(1)
			t.leave(own)
			return problem.New(problem.CodeOverloaded, "This node is at its limit of reads. Repeat the "+
				"request after the time in Retry-After.").RetryAfter(turnRetrySeconds).Because(err)
		}
	}
	if t.held = err == nil; !t.held {
		t.leave(own)
		return problem.New(problem.CodeRateLimited, fmt.Sprintf("%d reads and bulk operations of your "+
			"account run at once at a node, and this one got no turn in time. Send fewer at once.",
			t.most)).RetryAfter(turnRetrySeconds).Because(err)
	}
	return nil
}

func (t *turn) end() {
	if !t.held {
		return
	}
	t.held = false
	t.of.all.Release(1)
	t.own.running.Release(1)
	t.leave(t.own)
}

func (t *turn) leave(own *holderTurns) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if own.users--; own.users == 0 && t.of.byHolder[t.by] == own {
		delete(t.of.byHolder, t.by)
	}
}

// aside frees the turn while a request only waits for something, and takes a new one afterwards.
func (t *turn) aside(ctx context.Context, wait func() error) error {
	if !t.held {
		return wait()
	}
	t.end()
	if err := wait(); err != nil {
		return err
	}
	return t.take(ctx)
}
