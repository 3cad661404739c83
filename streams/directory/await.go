package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// maxWaiters bounds how many goroutines may wait for rows at once.
const maxWaiters = 10_000

// ErrBusy means that too many goroutines are already waiting.
var ErrBusy = errors.New("too many are waiting for the directory: try again")

// AwaitAccount waits until the account's row has at least that version.
func (d *Directory) AwaitAccount(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, accounts, id, version, func() (uint64, error) {
		a, _, err := d.Account(id)
		return a.Version, err
	})
}

// AwaitEndpoint waits until the endpoint's row has at least that version.
func (d *Directory) AwaitEndpoint(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, endpoints, id, version, func() (uint64, error) {
		e, _, err := d.readEndpoint(id)
		return e.Version, err
	})
}

// AwaitWatch waits until the watch's row has at least that version. A deletion ends the
// wait too: no version follows it.
func (d *Directory) AwaitWatch(ctx context.Context, id string, version uint64) error {
	return d.await(ctx, watches, id, version, func() (uint64, error) {
		w, _, err := d.Watch(id)
		return w.Version, err
	})
}

// AwaitEndpointGone waits until the endpoint's row is gone, or says that the endpoint was deleted.
func (d *Directory) AwaitEndpointGone(ctx context.Context, id string) error {
	return d.awaitGone(ctx, endpoints, id, func() (bool, error) {
		e, found, err := d.readEndpoint(id)
		return found && !e.Deleted(), err
	})
}

// AwaitWatchGone waits until the watch's row is gone, or says that the watch was deleted.
func (d *Directory) AwaitWatchGone(ctx context.Context, id string) error {
	return d.awaitGone(ctx, watches, id, func() (bool, error) {
		w, found, err := d.Watch(id)
		return found && !w.Deleted(), err
	})
}

// awaitGone waits until gone returns true, checking it after each change of the row.
func (d *Directory) awaitGone(
	ctx context.Context, t table, id string, there func() (bool, error),
) error {
	for {
		w, err := d.waiters.add(rowID{t, id}, 0)
		if err != nil {
			return fmt.Errorf("directory: waiting for the end of %s %s: %w", t.topic, id, err)
		}
		is, err := there()
		if err == nil && is {
			select {
			case <-w.done:
			case <-d.over():
				err = ErrEnded
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		d.waiters.remove(rowID{t, id}, w)
		if err != nil {
			return fmt.Errorf("directory: waiting for the end of %s %s: %w", t.topic, id, err)
		}
		if !is {
			return nil
		}
	}
}

// await registers before it reads the row, so that it misses no change in between.
func (d *Directory) await(
	ctx context.Context, t table, id string, version uint64, stored func() (uint64, error),
) error {
	w, err := d.waiters.add(rowID{t, id}, version)
	if err != nil {
		return fmt.Errorf("directory: waiting for %s %s: %w", t.topic, id, err)
	}
	defer d.waiters.remove(rowID{t, id}, w)
	if have, err := stored(); err != nil || have >= version {
		return err
	}
	select {
	case <-w.done:
		return nil
	case <-d.over():
		err = ErrEnded
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return fmt.Errorf("directory: waiting for %s %s at version %d: %w", t.topic, id, version, err)
}

type rowID struct {
	table table
	id    string
}

type waiter struct {
	version uint64
	done    chan struct{} // closed when the version is reached
}

// waiters holds waiters by row.
type waiters struct {
	mu    sync.Mutex
	byRow map[rowID]map[*waiter]struct{}
	count int
}

func newWaiters() *waiters { return &waiters{byRow: make(map[rowID]map[*waiter]struct{})} }

func (ws *waiters) add(row rowID, version uint64) (*waiter, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.count == maxWaiters {
		return nil, ErrBusy
	}
	w := &waiter{version: version, done: make(chan struct{})}
	if ws.byRow[row] == nil {
		ws.byRow[row] = make(map[*waiter]struct{})
	}
	ws.byRow[row][w] = struct{}{}
	ws.count++
	return w, nil
}

// remove removes a waiter. It is called once for each waiter that was added.
func (ws *waiters) remove(row rowID, w *waiter) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.count--
	delete(ws.byRow[row], w)
	if len(ws.byRow[row]) == 0 {
		delete(ws.byRow, row)
	}
}

// wake ends the waits that committed changes satisfy.
func (ws *waiters) wake(changes []change) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.count == 0 {
		return
	}
	for _, c := range changes {
		row := rowID{c.table, c.id}
		for w := range ws.byRow[row] {
			if c.deleted || c.version >= w.version {
				close(w.done)
				delete(ws.byRow[row], w)
			}
		}
	}
}
