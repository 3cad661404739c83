package api

import (
	"context"
	"fmt"
	"sync"

	"github.com/lumenhook/lumenhook/api/problem"
)

// Bounds of the requests that wait for events, and of the statements that wait for a ledger to
// count, at one node: each for themselves.
const (
	maxWaiters        = 256
	maxAccountWaiters = 16
	// waiterRetrySeconds is when a place may be free again.
	waiterRetrySeconds = 5
)

// waiters counts the requests that wait.
type waiters struct {
	ending context.Context // ends when the server stops
	end    context.CancelFunc

	mu        sync.Mutex
	all       int
	byAccount map[string]int
}

func newWaiters() *waiters {
	w := &waiters{byAccount: make(map[string]int)}
	w.ending, w.end = context.WithCancel(context.Background())
	return w
}

// enter takes a place for a request, or refuses it.
func (w *waiters) enter(accountID string) error {
	taken := w.take(accountID)
	if taken == "" {
		return nil
	}
	return problem.New(problem.CodeTooManyWaiting, taken+" wait for events at this node, which is "+
		"the most. Repeat the request after the time in Retry-After, or without waitSeconds.").
		RetryAfter(waiterRetrySeconds)
}

// take takes a place for a request, unless they are taken: then it says by which.
func (w *waiters) take(accountID string) (taken string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.byAccount[accountID] >= maxAccountWaiters:
		return fmt.Sprintf("%d requests of your account", maxAccountWaiters)
	case w.all >= maxWaiters:
		return fmt.Sprintf("%d requests of all accounts", maxWaiters)
	}
	w.all++
	w.byAccount[accountID]++
	return ""
}

func (w *waiters) leave(accountID string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.byAccount[accountID]--; w.byAccount[accountID] == 0 {
		delete(w.byAccount, accountID)
	}
}

// EndWaits has requests that wait for events answer with what there is, and no other wait: for
// http.Server.RegisterOnShutdown.
func (a *API) EndWaits() { a.waiters.end() }
