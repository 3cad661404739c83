package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

const maxWaiters = 10_000

// ErrBusy means that too many goroutines are already waiting.
var ErrBusy = errors.New("too many requests are waiting for the directory: try again")

// AwaitAccount waits until the account's row has at least that version.
func (d *Directory) AwaitAccount(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, accounts, id, func() (done, found bool, err error) {
		a, found, err := d.Account(id)
		return a.Version >= version, found, err
	})
}

// AwaitEndpoint waits until the endpoint's row has at least that version.
func (d *Directory) AwaitEndpoint(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, endpoints, id, func() (done, found bool, err error) {
		e, found, err := d.readEndpoint(id)
		return e.Version >= version, found, err
	})
}

// AwaitWatch waits until the watch's row has at least that version.
func (d *Directory) AwaitWatch(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, watches, id, func() (done, found bool, err error) {
		w, found, err := d.Watch(id)
		return w.Version >= version, found, err
	})
}

// AwaitEndpointGone waits until the endpoint is deleted, or its row is.
func (d *Directory) AwaitEndpointGone(ctx context.Context, id string) error {
	return d.await(ctx, endpoints, id, func() (done, found bool, err error) {
		e, found, err := d.readEndpoint(id)
		return !found || e.Deleted(), found, err
	})
}

// AwaitWatchGone waits until the watch is deleted, or its row is.
func (d *Directory) AwaitWatchGone(ctx context.Context, id string) error {
	return d.await(ctx, watches, id, func() (done, found bool, err error) {
		w, found, err := d.Watch(id)
		return !found || w.Deleted(), found, err
	})
}

// await waits until check reports that it is done, or the row is deleted. It registers before it
// reads the row, so that it misses no change in between.
func (d *Directory) await(
	ctx context.Context, t table, id string, check func() (done, found bool, err error),
) error {
	row := rowID{t, id}
	for woken := false; ; woken = true {
		changed, err := d.waiters.add(row)
		if err != nil {
			return fmt.Errorf("directory: waiting for %s %s: %w", t.topic, id, err)
		}
		done, found, err := check()
		done = done || woken && !found
		if err == nil && !done {
			select {
			case <-changed:
			case <-d.over():
				err = ErrEnded
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		d.waiters.remove(row)
		if err != nil {
			return fmt.Errorf("directory: waiting for %s %s: %w", t.topic, id, err)
		}
		if done {
			return nil
		}
	}
}

type rowID struct {
	table table
	id    string
}

type waiters struct {
	mu    sync.Mutex
	byRow map[rowID]*rowWaiters
	count int
}

type rowWaiters struct {
	count   int
	changed chan struct{} // closed and replaced at each change
}

func newWaiters() *waiters { return &waiters{byRow: make(map[rowID]*rowWaiters)} }

// add registers a waiter and returns a channel that is closed at the row's next change.
func (ws *waiters) add(row rowID) (changed <-chan struct{}, err error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.count == maxWaiters {
		return nil, ErrBusy
	}
	ws.count++
	of := ws.byRow[row]
	if of == nil {
		of = &rowWaiters{changed: make(chan struct{})}
		ws.byRow[row] = of
	}
	of.count++
	return of.changed, nil
}

func (ws *waiters) remove(row rowID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.count--
	if ws.byRow[row].count--; ws.byRow[row].count == 0 {
		delete(ws.byRow, row)
	}
}

func (ws *waiters) wake(changes []change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, c := range changes {
		if of := ws.byRow[rowID{c.table, c.id}]; of != nil {
			close(of.changed)
			of.changed = make(chan struct{})
		}
	}
}
