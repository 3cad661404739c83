package api

import (
	"context"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

const (
	// awaitTimeout bounds how long the response to a write waits until this node has read the
	// write.
	awaitTimeout = 2 * time.Second
	// unreadFor bounds how long after a write reads wait for the history to show it. A history that
	// is further behind must not slow down every read.
	unreadFor = 10 * time.Second
)

// await delays the response to a write until this node has read the write, so that the node's next
// response includes it. The write succeeds even if that takes too long.
func (a *API) await(ctx context.Context, r *request, id string, read func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	if err := read(ctx); err != nil {
		a.Log.LogAttrs(ctx, slog.LevelWarn, "the directory does not show a write yet",
			slog.String("id", id), slog.String("requestId", r.id),
			slog.String("error", redact(err.Error())))
	}
}

// awaitAnswer delays a response until this node has read the version that it shows. For a retry,
// the object may be gone by now, so it does not wait for its version.
func (a *API) awaitAnswer(
	ctx context.Context, r *request, result domain.Result, id string, version uint64,
	read func(context.Context, string, uint64) error,
) {
	a.await(ctx, r, id, func(ctx context.Context) error {
		if result.Replayed {
			return a.Directory.Confirm(ctx)
		}
		return read(ctx, id, version)
	})
}

// unreadWrites records when each account last changed something that the history does not show yet,
// so that a read after a write through this node includes it. There are two instances: lists of
// events wait only for changes of deliveries, and an object's history waits for any change.
type unreadWrites struct {
	mu    sync.Mutex
	since *lru.Cache[string, time.Time] // by account
}

func newUnreadWrites() *unreadWrites {
	return &unreadWrites{since: newCache[string, time.Time](maxLimited)}
}

func (u *unreadWrites) note(accountID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since.Add(accountID, now)
}

func (u *unreadWrites) of(accountID string) (since time.Time, any bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since.Get(accountID)
}

// read removes a change, unless there was another one in the meantime.
func (u *unreadWrites) read(accountID string, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, any := u.since.Peek(accountID); any && last.Equal(since) {
		u.since.Remove(accountID)
	}
}

func (a *API) noteWrite(accountID string, body domain.CommandBody) {
	now := a.Now()
	if concernsDeliveries(body) {
		a.unread.note(accountID, now)
	}
	if _, ofAccount := body.(domain.AccountCommand); !ofAccount { // accounts have no history
		a.unreadFacts.note(accountID, now)
	}
}

// concernsDeliveries reports whether a command changes what lists of events show.
func concernsDeliveries(c domain.CommandBody) bool {
	switch c.(type) {
	case domain.TestEndpoint, domain.ReplayEndpoint, domain.ReplayEvents, domain.ResendEvent,
		domain.EnableEndpoint, domain.DeleteEndpoint:
		return true
	default:
		return false
	}
}

// awaitOwnWrites delays a read of the history until it shows the account's earlier changes of
// deliveries through this node. If that takes too long, the read returns what the history contains.
// It fails if the request's key has become invalid in the meantime.
func (a *API) awaitOwnWrites(ctx context.Context, r *request) error {
	return a.awaitRead(ctx, r, a.unread)
}

// awaitOwnFacts is like awaitOwnWrites, for an object's history, which shows every change.
func (a *API) awaitOwnFacts(ctx context.Context, r *request) error {
	return a.awaitRead(ctx, r, a.unreadFacts)
}

func (a *API) awaitRead(ctx context.Context, r *request, unread *unreadWrites) error {
	accountID := r.caller.accountID
	since, any := unread.of(accountID)
	if !any {
		return nil
	}
	if a.Now().Sub(since) >= unreadFor {
		unread.read(accountID, since)
		return nil
	}
	err := r.turn.pauseTurn(ctx, func() error {
		if err := a.History.CatchUp(ctx); err == nil {
			unread.read(accountID, since)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return a.stillValid(r)
}
