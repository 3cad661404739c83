package projections

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
)

// A deployment that goes on under other topics has another partition count, or other offsets.
// Rows of the history name an offset, but none is found by it: facts count by the version of
// their endpoint, which goes on. Only the tables of current rows are ordered by offsets, and
// the new topics have every row of those.

const truncateTable = "TRUNCATE TABLE {database:Identifier}.{table:Identifier} " +
	"SETTINGS max_table_size_to_drop = 0"

// BeginAnew has the projectors go on from the beginning of other topics, which continue those
// that the tables were filled from. No projector may run meanwhile. It may be repeated.
func BeginAnew(ctx context.Context, db *DB) error {
	db, err := db.pin(ctx)
	if err != nil {
		return err
	}
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	for _, name := range append(currentTables(), "projection_progress") {
		if err := db.changeWithin(ctx, dropMax, truncateTable, parameters{"table": name}); err != nil {
			return fmt.Errorf("projections: emptying %s: %w", name, err)
		}
	}
	return nil
}

// currentTables are the tables whose rows are ordered by their offset.
func currentTables() (names []string) {
	for _, t := range tableTopics {
		if slices.Contains([]string{schemas.TopicEndpoints, schemas.TopicWatches}, t.topic) {
			names = append(names, t.table)
		}
	}
	return names
}

// finishAsk is how often it is asked whether the tables have everything.
const finishAsk = 5 * time.Second

// Finish runs a projector until the tables have all that the topics have. Nothing may be
// appended to them meanwhile.
func Finish(ctx context.Context, cfg ProjectorConfig) error {
	p, err := NewProjector(cfg)
	if err != nil {
		return err
	}
	defer p.Close()
	lag, err := NewLag(cfg.DB, cfg.Cluster)
	if err != nil {
		return err
	}
	defer lag.Close()
	running, stop := context.WithCancelCause(ctx)
	ended := make(chan error, 1)
	go func() {
		err := p.Run(running)
		stop(err)
		ended <- err
	}()
	caught := awaitNoLag(running, lag)
	stop(nil)
	return errors.Join(<-ended, caught)
}

// awaitNoLag returns when no record is missing. Until the projector has made the tables they
// cannot be read.
func awaitNoLag(ctx context.Context, lag *Lag) error {
	for {
		asking, cancel := context.WithTimeout(ctx, finishAsk)
		missing, err := lag.CatchUp(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && missing == 0:
			return nil
		}
		if err := retry.Sleep(ctx, firstWait); err != nil {
			return context.Cause(ctx)
		}
	}
}
