package writer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// A DSN may name several servers. Their states are independent: tables may have different UUIDs, or
// be behind or ahead. An operation of several steps, such as writing a block and then its progress,
// therefore uses one server throughout, and starts over on another one if that server fails.

func openServers(d source) (*DB, error) {
	all := &DB{name: d.database, used: new(atomic.Int32),
		suspected: new(atomic.Bool)}
	for _, addr := range d.opts.Addr {
		opts := *d.opts
		opts.Addr = []string{addr}
		conn, err := clickhouse.Open(&opts)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("projections: opening ClickHouse: %w", err), all.Close())
		}
		all.each = append(all.each, &DB{name: d.database, conn: conn, addr: addr, opts: &opts,
			suspected: all.suspected})
	}
	if len(all.each) == 1 {
		return all.each[0], nil
	}
	return all, nil
}

// Connect opens a connection with other options to the server in use. Its session starts in the
// database, whose tables must exist (see Open).
func (db *DB) Connect(
	ctx context.Context, change func(*clickhouse.Options),
) (clickhouse.Conn, error) {
	one, err := db.pin(ctx)
	if err == nil {
		_, err = one.live(ctx)
	}
	if err != nil {
		return nil, err
	}
	opts := *one.opts
	opts.Auth.Database = db.name
	change(&opts)
	conn, err := clickhouse.Open(&opts)
	if err != nil {
		return nil, fmt.Errorf("projections: opening ClickHouse: %w", err)
	}
	return conn, nil
}

// Close closes all connections.
func (db *DB) Close() (err error) {
	for _, one := range db.Servers() {
		err = errors.Join(err, one.conn.Close())
	}
	return err
}

// Servers returns each server as a separate DB.
func (db *DB) Servers() []*DB {
	if db.conn != nil {
		return []*DB{db}
	}
	return db.each
}

// Server returns the server in use.
func (db *DB) Server() *DB {
	if db.conn != nil {
		return db
	}
	return db.each[db.used.Load()]
}

// pin returns one server for all steps of an operation: the one in use, or the next one that
// responds. A single server is returned without a check.
func (db *DB) pin(ctx context.Context) (one *DB, err error) {
	if db.conn != nil {
		return db, nil
	}
	first := int(db.used.Load())
	for i := range db.each {
		n := (first + i) % len(db.each)
		answered := db.each[n].Ping(ctx)
		if answered == nil {
			db.used.Store(int32(n))
			return db.each[n], nil
		}
		err = errors.Join(err, fmt.Errorf("%s: %w", db.each[n].addr, answered))
	}
	return nil, err
}

// MoveOn switches to the next server after one has failed.
func (db *DB) MoveOn(failed *DB) {
	for n, one := range db.each {
		if one == failed {
			db.used.CompareAndSwap(int32(n), int32((n+1)%len(db.each)))
		}
	}
}
