package directory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// FreshFor is how long a confirmation counts. A revoked key is rejected everywhere within this time
// (docs/architecture.md).
const FreshFor = 5 * time.Second

// ErrStale means that the directory may be behind the tables. Authentication then returns 503.
var ErrStale = errors.New("the directory has not confirmed its tables within 5 s")

// freshness is when the directory was last known to contain everything in the tables.
type freshness struct {
	mu        sync.Mutex
	confirmed time.Time // by this process; zero if not yet
	whole     time.Time // by this or an earlier process
	noted     time.Time
}

func (f *freshness) begin(whole time.Time) { f.whole, f.noted = whole, whole }

// Fresh returns ErrStale unless the directory was at or after the tables' ends less than 5 s ago.
func (d *Directory) Fresh() error {
	d.fresh.mu.Lock()
	confirmed := d.fresh.confirmed
	d.fresh.mu.Unlock()
	if confirmed.IsZero() {
		return fmt.Errorf("%w: it is being filled", ErrStale)
	}
	if age := age(d.cfg.Now(), confirmed); age >= FreshFor {
		return fmt.Errorf("%w: the last confirmation is %s old", ErrStale, age.Round(time.Millisecond))
	}
	return nil
}

// age returns the larger age of the monotonic clock, which stops while a machine sleeps, and the
// wall clock, which can be set back.
func age(now, then time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

func (d *Directory) confirmLoop(ctx context.Context) error {
	tick := time.NewTicker(d.cfg.ConfirmEvery)
	defer tick.Stop()
	failing := false
	for {
		err := d.confirm(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRebuild):
			return err
		case err != nil && !failing:
			d.cfg.Logger.Warn("the directory cannot confirm its tables", "error", err)
		case err == nil && failing:
			d.cfg.Logger.Info("the directory has confirmed its tables again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// confirm reads the tables' ends and waits until they are reached.
func (d *Directory) confirm(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, FreshFor)
	defer cancel()
	asked := d.cfg.Now()
	ends, err := d.endsOf(ctx, tables...)
	if err != nil {
		return err
	}
	if err := d.progress.await(ctx, d.over(), ends); err != nil {
		return err
	}
	f := &d.fresh
	f.mu.Lock()
	away := age(asked, f.whole)
	if away <= completeFor {
		f.confirmed, f.whole = asked, asked
	}
	f.mu.Unlock()
	if away > completeFor {
		return fmt.Errorf("directory: it had no connection to its tables for %s and may have "+
			"missed deletions: %w", away, ErrRebuild)
	}
	if age(asked, f.noted) < noteCompleteEvery {
		return nil
	}
	f.noted = asked
	return d.noteComplete(asked)
}

// Confirm waits until the directory has every account, endpoint and watch that was acknowledged
// before the call.
func (d *Directory) Confirm(ctx context.Context) error {
	return d.confirmTables(ctx, accounts, endpoints, watches)
}

// ConfirmKeys is Confirm for accounts, with their keys, only.
func (d *Directory) ConfirmKeys(ctx context.Context) error { return d.confirmTables(ctx, accounts) }

func (d *Directory) confirmTables(ctx context.Context, tables ...table) error {
	ends, err := d.endsOf(ctx, tables...)
	if err != nil {
		return err
	}
	return d.progress.await(ctx, d.over(), ends)
}

func (d *Directory) endsOf(ctx context.Context, of ...table) (kafka.Offsets, error) {
	g, ctx := errgroup.WithContext(ctx)
	by := make([]map[int32]int64, len(of))
	for i, t := range of {
		g.Go(func() (err error) {
			by[i], err = d.ends.Of(ctx, t.topic)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("directory: reading the tables' ends: %w", err)
	}
	ends := make(kafka.Offsets, len(of))
	for i, t := range of {
		ends[t.topic] = by[i]
	}
	return ends, nil
}

// Barrier returns the ends of the tables that matching reads, to wait for with Reached.
func (d *Directory) Barrier(ctx context.Context) (kafka.Offsets, error) {
	return d.endsOf(ctx, watches, endpoints)
}

// Reached reports whether the directory has everything before the ends.
func (d *Directory) Reached(ends kafka.Offsets) bool {
	d.progress.mu.Lock()
	defer d.progress.mu.Unlock()
	return d.progress.behind(ends) == ""
}

// Position returns the directory's position in each partition of the tables.
func (d *Directory) Position() kafka.Offsets { return d.progress.all() }

// CatchUp waits until the directory has every watch and endpoint that was acknowledged before the
// call, and returns its position in each partition of `watches`. It waits for open transactions, so
// ctx should allow for a dead writer's timeout (10 s).
func (d *Directory) CatchUp(ctx context.Context) (watchesOffsets map[int32]int64, err error) {
	ends, err := d.Barrier(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.progress.await(ctx, d.over(), ends); err != nil {
		return nil, err
	}
	return d.Position()[watches.topic], nil
}
