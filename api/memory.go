package api

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
)

// maxRemembered bounds what a node remembers of its own answers.
const maxRemembered = 16_384

// memory holds what this node warned of when it answered a creation that may be
// repeated: a repeat through it gets the warnings of then, and is not held
// against a world that has changed since.
type memory struct {
	warnings *lru.Cache[string, []string] // by command
}

func newMemory() *memory {
	c, err := lru.New[string, []string](maxRemembered)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &memory{c}
}

func (m *memory) has(commandID string) bool { return m.warnings.Contains(commandID) }

// settle gives the warnings to answer with: those of the first answer, as far as
// this node gave it.
func (m *memory) settle(x *exchange, commandID string, replayed bool, warnings []string) []string {
	if x.idempotencyKey == "" {
		return warnings
	}
	if first, known := m.warnings.Get(commandID); known && replayed {
		return first
	}
	m.warnings.Add(commandID, warnings)
	return warnings
}

// unreadFor bounds how long a write that concerns deliveries is waited for by
// reads: a history that is behind by more must not slow every read down.
const unreadFor = 10 * time.Second

// unread holds when the accounts last changed something that the history has yet
// to show, so that a read that follows a write through this node sees it.
type unread struct {
	mu    sync.Mutex
	since *lru.Cache[string, time.Time] // by account
}

func newUnread() *unread {
	c, err := lru.New[string, time.Time](maxLimited)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &unread{since: c}
}

func (u *unread) note(accountID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.since.Add(accountID, now)
}

func (u *unread) of(accountID string) (since time.Time, any bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.since.Get(accountID)
}

// read forgets a change, unless another has come meanwhile.
func (u *unread) read(accountID string, since time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, any := u.since.Peek(accountID); any && last.Equal(since) {
		u.since.Remove(accountID)
	}
}

// concernsDeliveries tells whether a command changes what the history shows.
func concernsDeliveries(c domain.CommandBody) bool {
	switch c.(type) {
	case domain.TestEndpoint, domain.ReplayEndpoint, domain.ResendEvent, domain.EnableEndpoint, domain.DeleteEndpoint:
		return true
	}
	return false
}

// awaitOwnWrites holds a read of the history back until it shows what the
// account changed through this node before. If that takes too long, the read
// shows what there is.
func (a *API) awaitOwnWrites(ctx context.Context, accountID string) {
	since, any := a.unread.of(accountID)
	if !any {
		return
	}
	if a.Now().Sub(since) < unreadFor {
		if err := a.History.AwaitWrites(ctx); err != nil {
			return
		}
	}
	a.unread.read(accountID, since)
}

// useEvery is how often the use of a key is noted at most.
const useEvery = time.Minute

// lastUses remembers when this node last noted the use of a key.
type lastUses struct {
	mu   sync.Mutex
	byID *lru.Cache[string, time.Time]
}

func newLastUses() *lastUses {
	c, err := lru.New[string, time.Time](maxLimited)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &lastUses{byID: c}
}

// due tells, once a minute for each key, that its use should be noted.
func (u *lastUses) due(keyID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.byID.Get(keyID); known && now.Sub(last) < useEvery {
		return false
	}
	u.byID.Add(keyID, now)
	return true
}

// noteUse keeps that a key was used, unless some node has kept it within the
// last minute.
func (a *API) noteUse(keyID string, now time.Time) {
	if a.Uses == nil || !a.uses.due(keyID, now) {
		return
	}
	kept, err := a.Directory.KeyUsedAt(keyID)
	if err == nil && now.UnixMilli()-kept < useEvery.Milliseconds() {
		return
	}
	a.Uses.Used(keyID, now.UnixMilli())
}
