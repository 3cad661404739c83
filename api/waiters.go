package api

import (
	"context"
	"fmt"
	"sync"

	"github.com/lumenhook/lumenhook/api/problem"
)

// Bounds of the requests that wait for events, at one node.
const (
	maxWaiters        = 256
	maxAccountWaiters = 16
	// waiterRetrySeconds is when a place may be free again.
	waiterRetrySeconds = 5
)

// waiters counts the requests that wait for events.
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
	w.mu.Lock()
	defer w.mu.Unlock()
	who, most := "", 0
	switch {
	case w.byAccount[accountID] >= maxAccountWaiters:
		who, most = "of your account", maxAccountWaiters
	case w.all >= maxWaiters:
		who, most = "of all accounts", maxWaiters
	}
	if most > 0 {
		return problem.New(problem.CodeTooManyWaiting, fmt.Sprintf("%d requests %s wait for events at "+
			"this node, and no more may. Repeat the request after the time in Retry-After, or without "+
			"waitSeconds.", most, who)).RetryAfter(waiterRetrySeconds)
	}
	w.all++
	w.byAccount[accountID]++
	return nil
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
