package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
)

// A deployment that continues on other topics has different partition counts or offsets. Rows
// contain offsets, but are not looked up by them: facts are ordered by their endpoint's version,
// which continues. Only the tables of current rows are ordered by offsets, and the new topics
// contain all of those rows.

const truncateTable = "TRUNCATE TABLE {database:Identifier}.{table:Identifier} " +
	"SETTINGS max_table_size_to_drop = 0"

// Restart makes the projectors continue from the start of other topics. These continue the topics
// that the tables were filled from, after the given offsets of the journal's partitions. No
// projector may run in the meantime. Restart can be repeated.
func Restart(ctx context.Context, db *DB, journal []int64) error {
	db, err := db.pin(ctx)
	if err != nil {
		return err
	}
	if err := Migrate(ctx, db); err != nil {
		return err
	}
	damaged, err := db.Damage(ctx)
	if err != nil && !IsDenied(err) {
		return err
	}
	for _, name := range append(currentTables(), "projection_progress") {
		if err := db.execWithin(ctx, dropMax, truncateTable, Parameters{"table": name}); err != nil {
			return fmt.Errorf("projections: emptying %s: %w", name, err)
		}
	}
	// Parts that are already missing are not reported as lost.
	err = db.exec(ctx, recordParts, Parameters{"damaged": ArrayOf(damaged.generations())})
	if err != nil && !IsDenied(err) {
		return fmt.Errorf("projections: recording the parts of the emptied tables: %w", err)
	}
	at := layout{leadingTable: {generation: restartGeneration}}
	return db.recordProgress(ctx, at, positionsOf(journal))
}

// restartGeneration is the generation of the progress at Restart. It is valid until the tables have
// rows of the new topics, because copying to those may be interrupted and repeated.
const restartGeneration = "00000000-0000-0000-0000-000000000000"

func positionsOf(journal []int64) map[topicPartition]int64 {
	by := make(map[topicPartition]int64)
	for p, next := range journal {
		by[topicPartition{schemas.TopicJournal, int32(p)}] = next // #nosec G115 -- a partition
	}
	return by
}

// CheckAt returns an error unless the tables contain exactly the journal's facts below these
// offsets. Between journal and ends, a partition may only have transaction markers. Tables at any
// other position must not be continued: later facts would not make up for missing ones, and would
// have the same versions as surplus ones. Empty tables are accepted.
func CheckAt(ctx context.Context, db *DB, journal, ends []int64) error {
	db, err := db.pin(ctx)
	if err != nil {
		return err
	}
	var databases uint64
	if err := db.firstAnswer(ctx, countDatabases, &databases); err != nil {
		return fmt.Errorf("projections: reaching ClickHouse: %w", err)
	}
	progress, err := db.JournalProgress(ctx)
	if errors.As(err, new(errTablesMissing)) {
		return nil
	}
	if err == nil && len(progress) == 0 {
		var deliveries uint64
		if progress, err = db.RestartPositions(ctx); err == nil {
			err = db.QueryRow(ctx, countDeliveries, nil, &deliveries)
		}
		if err == nil && len(progress) == 0 && deliveries == 0 {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("projections: asking how far the history is: %w", err)
	}
	for p := range progress {
		if int(p) >= len(journal) {
			return fmt.Errorf("projections: the history in the database %s has partition %d of its "+
				"journal, and the copy's has %d partitions: %s", db.name, p, len(journal), otherHistory)
		}
	}
	for p := range journal {
		is, has := "newer", progress[int32(p)] // #nosec G115 -- a partition
		if has < journal[p] {
			is = "older"
		} else if has <= ends[p] {
			continue
		}
		return fmt.Errorf("projections: the history in the database %s is %s than the copy: of "+
			"partition %d of the journal it has what is below offset %d, and the copy what is below %d: %s",
			db.name, is, p, has, journal[p], otherHistory)
	}
	return nil
}

const countDeliveries = `SELECT count() FROM {database:Identifier}.deliveries`

const otherHistory = "restore the database of the same position (RESTORE DATABASE), or let the " +
	"new topics have an empty database, and keep this one to read in"

// RestartPositions returns the tables' journal offsets at Restart.
func (db *DB) RestartPositions(ctx context.Context) (map[int32]int64, error) {
	at, err := db.progress(ctx, layout{leadingTable: {generation: restartGeneration}})
	by := make(map[int32]int64)
	for p, next := range at {
		by[p.partition] = next
	}
	return by, err
}

func currentTables() (names []string) {
	for _, t := range tableSpecs {
		if slices.Contains([]string{schemas.TopicEndpoints, schemas.TopicWatches}, t.topic) {
			names = append(names, t.name)
		}
	}
	return names
}

const finishAsk = 5 * time.Second

// Finish runs a projector until the tables contain all records of the topics. Nothing may be
// appended to the topics in the meantime.
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

// awaitNoLag returns when no record is missing. It retries errors, because the tables cannot be
// read until the projector has created them.
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
