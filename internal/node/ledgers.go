package node

import (
	"context"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/schemas"
)

// cursorAge is how old what is told of the cursor may be, cursorMax how long reading it may take.
const (
	cursorAge = time.Second
	cursorMax = 5 * time.Second
)

// ledgers is the API's view of the follower's cursor. It is read once for all who ask within a
// second.
type ledgers struct {
	newest func(context.Context) (schemas.LedgerRead, bool, error)
	now    func() time.Time

	turn   chan struct{} // whose is the turn reads
	mu     sync.Mutex
	read   api.Followed
	readAt time.Time
}

func newLedgers(
	newest func(context.Context) (schemas.LedgerRead, bool, error), now func() time.Time,
) *ledgers {
	return &ledgers{newest: newest, now: now, turn: make(chan struct{}, 1)}
}

// known returns what was read within the last second.
func (l *ledgers) known() (api.Followed, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read, !l.readAt.IsZero() && l.now().Sub(l.readAt) < cursorAge
}

// Followed returns what the newest cursor says.
func (l *ledgers) Followed(ctx context.Context) (api.Followed, error) {
	ctx, cancel := context.WithTimeout(ctx, cursorMax)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return api.Followed{}, ctx.Err()
	}
	if read, fresh := l.known(); fresh {
		return read, nil
	}
	began := l.now()
	cursor, found, err := l.newest(ctx)
	if err != nil || !found {
		return api.Followed{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readAt, l.read = began, api.Followed{
		NetworkPassphrase: cursor.NetworkPassphrase,
		Ledger:            cursor.Sequence,
		Hash:              cursor.Hash,
		ClosedAtMillis:    cursor.ClosedAtMillis,
		ReadAtMillis:      cursor.ReadAtMillis,
		Coverage:          cursor.Coverage,
		MovesSince:        cursor.MovesSince,
		MovesSinceMillis:  cursor.MovesSinceMillis,
	}
	return l.read, nil
}
