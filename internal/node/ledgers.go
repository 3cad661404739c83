package node

import (
	"context"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/schemas"
)

// cursorMax is how long reading the cursor may take.
const cursorMax = 5 * time.Second

// ledgers is the API's view of the follower's cursor. What it tells is never older than the
// question: whoever was told of a payment finds its ledger read. One read at a time answers all
// who asked before it began.
type ledgers struct {
	newest func(context.Context) (schemas.LedgerRead, bool, error)
	now    func() time.Time

	turn   chan struct{} // whose is the turn reads
	mu     sync.Mutex
	read   api.Followed
	readAt time.Time // when the read began
}

func newLedgers(
	newest func(context.Context) (schemas.LedgerRead, bool, error), now func() time.Time,
) *ledgers {
	return &ledgers{newest: newest, now: now, turn: make(chan struct{}, 1)}
}

// readSince returns what was read by a read that began after a time.
func (l *ledgers) readSince(asked time.Time) (api.Followed, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read, l.readAt.After(asked)
}

// Followed returns what the newest cursor that was committed before the call says.
func (l *ledgers) Followed(ctx context.Context) (api.Followed, error) {
	asked := l.now()
	ctx, cancel := context.WithTimeout(ctx, cursorMax)
	defer cancel()
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return api.Followed{}, ctx.Err()
	}
	if read, since := l.readSince(asked); since {
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
