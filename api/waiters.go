package api

import (
	"context"
	"fmt"
	"sync"

	"github.com/lumenhook/lumenhook/api/problem"
)

// Limits for the requests that wait for events, and separately for the statements that wait for a
// ledger to count, at one node.
const (
	maxWaiters        = 256
	maxAccountWaiters = 16
	// waiterRetrySeconds is when a place may be free again.
	waiterRetrySeconds = 5
)

type waiters struct {
	ending context.Context // canceled when the server stops
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

// enter reserves a place for a request, or returns a problem.
func (w *waiters) enter(accountID string) error {
	taken := w.take(accountID)
	if taken == "" {
		return nil
	}
	return problem.New(problem.CodeTooManyWaiting, taken+" wait for events at this node, which is "+
		"the most. Repeat the request after the time in Retry-After, or without waitSeconds.").
		RetryAfter(waiterRetrySeconds)
}

// take reserves a place for a request. If there is none, it returns a description of the requests
// that occupy the places.
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

// EndWaits makes requests that wait for events respond with what there is, and stops further waits.
// It is for http.Server.RegisterOnShutdown.
func (a *API) EndWaits() { a.waiters.end() }
