package receiver

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// maxTries is how often an event is tried before it is set aside, and maxWait the longest wait
// between two tries: ten hours in total. A try that has not finished when the next one is due
// counts as killed.
const (
	maxTries = 20
	maxWait  = time.Hour
)

// The statements are for SQLite. The README of the kits lists the changes for PostgreSQL.
const (
	createInbox = `
CREATE TABLE IF NOT EXISTS inbox (
  webhook_id  TEXT PRIMARY KEY,
  body        BLOB NOT NULL,
  received_at INTEGER NOT NULL, -- Unix milliseconds, as all times here
  tries       INTEGER NOT NULL DEFAULT 0,
  next_try_at INTEGER NOT NULL,
  done_at     INTEGER,
  error       TEXT
);
CREATE INDEX IF NOT EXISTS inbox_waiting ON inbox (received_at) WHERE done_at IS NULL;`

	recordEvent = `
INSERT INTO inbox (webhook_id, body, received_at, next_try_at) VALUES (?, ?, ?, ?)
ON CONFLICT (webhook_id) DO NOTHING`

	claimEvent = `
UPDATE inbox SET tries = tries + 1, next_try_at = ? + min(1000 << (tries + 1), ?)
WHERE webhook_id = (
  SELECT webhook_id FROM inbox WHERE done_at IS NULL AND next_try_at <= ? AND tries < ?
  ORDER BY received_at LIMIT 1)
RETURNING webhook_id, body`

	finishEvent = `UPDATE inbox SET done_at = ?, error = NULL WHERE webhook_id = ? AND done_at IS NULL`
	failEvent   = `UPDATE inbox SET error = ? WHERE webhook_id = ?`
)

// Inbox is the table of received events. A row is stored before the service receives a 200. It is
// never deleted, because it identifies duplicates.
type Inbox struct {
	db   *sql.DB
	wake chan struct{}
}

// OpenInbox creates the table if it does not exist.
func OpenInbox(ctx context.Context, db *sql.DB) (*Inbox, error) {
	if _, err := db.ExecContext(ctx, createInbox); err != nil {
		return nil, fmt.Errorf("creating the table inbox: %w", err)
	}
	return &Inbox{db: db, wake: make(chan struct{}, 1)}, nil
}

// Record stores an event. It returns false if the event was stored before.
func (i *Inbox) Record(ctx context.Context, id string, body []byte) (isNew bool, err error) {
	now := time.Now().UnixMilli()
	result, err := i.db.ExecContext(ctx, recordEvent, id, body, now, now)
	if err != nil {
		return false, fmt.Errorf("recording %s: %w", id, err)
	}
	rows, err := result.RowsAffected()
	if rows > 0 {
		select {
		case i.wake <- struct{}{}:
		default: // the worker has already been notified
		}
	}
	return rows > 0, err
}

// HandleFunc handles an event. What it writes through tx is written once per event.
type HandleFunc func(ctx context.Context, tx *sql.Tx, event Event) error

// Work handles new events, and those that a previous process left behind, until ctx is done.
// Several workers in several processes may share a table.
func (i *Inbox) Work(ctx context.Context, handle HandleFunc) error {
	look := time.NewTicker(time.Second) // for events that others recorded, and for retries
	defer look.Stop()
	for {
		worked, err := i.workOne(ctx, handle)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			slog.Error("handling an event failed; it is retried later", "error", err)
		}
		if worked {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-i.wake:
		case <-look.C:
		}
	}
}

// workOne claims and handles the oldest event that is due. It commits the claim first, so that an
// event that kills the process is retried less and less often and doesn't block others.
func (i *Inbox) workOne(ctx context.Context, handle HandleFunc) (worked bool, err error) {
	var id string
	var body []byte
	now := time.Now().UnixMilli()
	err = i.db.QueryRowContext(ctx, claimEvent, now, maxWait.Milliseconds(), now, maxTries).Scan(&id, &body)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("claiming an event: %w", err)
	}
	if err := i.handle(ctx, handle, id, body); err != nil {
		_, failed := i.db.ExecContext(ctx, failEvent, err.Error(), id)
		return true, errors.Join(fmt.Errorf("handling %s: %w", id, err), failed)
	}
	return true, nil
}

// handle handles the event and marks it as done, in one transaction.
func (i *Inbox) handle(ctx context.Context, handle HandleFunc, id string, body []byte) error {
	event, err := ParseEvent(body)
	if err != nil {
		return err
	}
	tx, err := i.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if err := handle(ctx, tx, event); err != nil {
		return err
	}
	result, err := tx.ExecContext(ctx, finishEvent, time.Now().UnixMilli(), id)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return err // another worker was faster; this transaction is rolled back
	}
	return tx.Commit()
}
