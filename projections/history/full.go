package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// readsMin is how often a list is read, at least, if its tables are exchanged or recreated
// meanwhile. After that, it is retried until WaitMax has passed.
const readsMin = 3

// fullTables tracks whether the tables are complete. A table that contained everything in the
// journal at some time stays complete as long as it has the same UUID. A lost table that comes back
// has a different UUID.
type fullTables struct {
	mu     sync.Mutex
	tables map[string]string // UUID by name; nil if unknown
	owed   map[int32]int64   // offsets at which the tables are complete; nil if not read yet
}

func (f *fullTables) known() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tables
}

// incompleteFrom returns the offsets at which the tables are complete, or nil if they have not been
// read yet.
func (f *fullTables) incompleteFrom() map[int32]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owed
}

// lost records that the tables have been replaced.
func (f *fullTables) lost(tables map[string]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if maps.Equal(f.tables, tables) {
		f.tables, f.owed = nil, nil
	}
}

func (f *fullTables) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tables, f.owed = nil, nil
}

// onFull calls read on complete tables, that is, tables that contain everything that was in the
// journal when they were first seen. Later rows may be missing for a moment, but no result contains
// only a part of earlier ones. If there are no tables, it returns [ErrNotFound].
func (h *reading) onFull(ctx context.Context, read func() error) error {
	h.cfg.Ask(ctx, nil)
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	for reads := 1; reads <= readsMin || waiting.Err() == nil; reads++ {
		if err := h.whole(ctx, append(writer.JournalNames(), "endpoints")...); err != nil {
			return err
		}
		known, err := h.awaitFull(ctx)
		if err != nil {
			return err
		}
		err = read()
		if errors.Is(err, errOlder) && retry.Sleep(waiting, catchUpPoll) == nil {
			continue
		}
		if err != nil && !errors.Is(err, readmodel.ErrNotFound) {
			return err
		}
		tables, uptime, err := h.db.JournalTables(ctx)
		if err != nil {
			return readFault(ctx, err)
		}
		restarted := uptime+1 < h.uptime.Swap(uptime) // concurrent reads may differ by a second
		if !restarted && maps.Equal(tables, known) {
			return nil
		}
		h.full.lost(known)
		h.damage.Store(nil)
	}
	return fmt.Errorf("%w: its tables are being built again", readmodel.ErrBehind)
}

// awaitFull returns the tables once they are complete. It waits for at most WaitMax.
func (h *reading) awaitFull(ctx context.Context) (map[string]string, error) {
	waiting, cancel := context.WithTimeout(ctx, h.cfg.WaitMax)
	defer cancel()
	tick := time.NewTicker(catchUpPoll)
	defer tick.Stop()
	for {
		if known := h.full.known(); known != nil {
			return known, nil
		}
		err := h.once(waiting, "full", h.checkFull)
		switch {
		case err == nil:
			continue
		case waiting.Err() == nil && !errors.Is(err, readmodel.ErrBehind):
			return nil, err
		}
		h.cfg.Ask(waiting, h.full.incompleteFrom())
		select {
		case <-tick.C:
		case <-waiting.Done():
			return nil, callersFirst(ctx,
				fmt.Errorf("%w: its tables are being filled, and were not full within %s: %w",
					readmodel.ErrBehind, h.cfg.WaitMax, err))
		}
	}
}

// once shares one call of do among all concurrent callers.
func (h *reading) once(ctx context.Context, what string, do func(context.Context) error) error {
	done := h.flight.DoChan(what, func() (any, error) {
		return nil, h.readOnly(context.WithoutCancel(ctx), do)
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkFull returns ErrBehind unless the tables are complete.
func (h *reading) checkFull(ctx context.Context) error {
	owed, err := h.readOwed(ctx)
	if err != nil {
		return err
	}
	tables, _, err := h.db.JournalTables(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err)
	}
	at, err := h.db.ProgressOf(ctx, tables)
	if err != nil && !writer.IsMissing(err) {
		return fmt.Errorf("%w: %w", readmodel.ErrUnavailable, err)
	}
	if !writer.Passed(at, owed) {
		return readmodel.ErrBehind
	}
	h.full.mu.Lock()
	defer h.full.mu.Unlock()
	h.full.tables = tables
	return nil
}

// readOwed returns the ends of the journal at the time when the tables were first seen. It must not
// be called concurrently.
func (h *reading) readOwed(ctx context.Context) (map[int32]int64, error) {
	if owed := h.full.incompleteFrom(); owed != nil {
		return owed, nil
	}
	owed, err := h.cfg.Ends(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: asking for the journal's ends: %w", readmodel.ErrBehind, err)
	}
	h.full.mu.Lock()
	defer h.full.mu.Unlock()
	h.full.owed = owed
	return owed, nil
}

// whole returns ErrBehind if one of the tables has lost rows.
func (h *reading) whole(ctx context.Context, tables ...string) error {
	for {
		if known := h.damage.Load(); known != nil {
			if slices.ContainsFunc(*known, func(d writer.Damage) bool {
				return slices.Contains(tables, d.Table)
			}) {
				return fmt.Errorf("%w: %w", readmodel.ErrBehind, *known)
			}
			return nil
		}
		if err := h.once(ctx, "damage", h.readDamage); err != nil {
			return readFault(ctx, err)
		}
	}
}

func (h *reading) readDamage(ctx context.Context) error {
	list, err := h.db.Damage(ctx)
	if err != nil && !writer.IsDenied(err) { // the user may lack permission to check for damage
		return err
	}
	h.damage.Store(&list)
	time.AfterFunc(writer.DamageAge, func() { h.damage.CompareAndSwap(&list, nil) })
	return nil
}
