package node

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/schemas"
)

const cursorMax = 5 * time.Second

// ledgers is the API's view of the follower's cursor. A result is never older than the call.
// Concurrent callers share a read that began after they arrived.
type ledgers struct {
	newest func(context.Context) (schemas.LedgerRead, bool, error)
	now    func() time.Time

	turn   chan struct{} // guards the fields below
	read   api.Followed
	readAt time.Time // when the read began
}

func newLedgers(
	newest func(context.Context) (schemas.LedgerRead, bool, error), now func() time.Time,
) *ledgers {
	return &ledgers{newest: newest, now: now, turn: make(chan struct{}, 1)}
}

// Followed returns the latest cursor that was committed before the call.
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
	if l.readAt.After(asked) {
		return l.read, nil
	}
	began := l.now()
	cursor, found, err := l.newest(ctx)
	if err != nil || !found {
		return api.Followed{}, err
	}
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
