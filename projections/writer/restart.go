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

// A deployment that continues on other topics has another partition count, or other offsets. Rows
// of the history contain an offset, but are not looked up by it: facts count by the version of
// their endpoint, which continues. Only the tables of current rows are ordered by offsets, and the
// new topics have every row of those.

const truncateTable = "TRUNCATE TABLE {database:Identifier}.{table:Identifier} " +
	"SETTINGS max_table_size_to_drop = 0"

// Restart makes the projectors continue from the beginning of other topics. These continue the
// topics that the tables were filled from, after these offsets of the partitions of their journal.
// No projector may run in the meantime. It may be repeated.
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
	// Parts that are missing by now are not reported as lost.
	err = db.exec(ctx, recordParts, Parameters{"damaged": ArrayOf(damaged.generations())})
	if err != nil && !IsDenied(err) {
		return fmt.Errorf("projections: recording the parts of the emptied tables: %w", err)
	}
	at := layout{leadingTable: {generation: restartGeneration}}
	return db.recordProgress(ctx, at, positionsOf(journal))
}

// restartGeneration is the generation of the progress that tables had at Restart, valid until they
// have rows of the new topics: a copy into those may have been interrupted, and is repeated.
const restartGeneration = "00000000-0000-0000-0000-000000000000"

// positionsOf returns offsets of the journal, by partition.
func positionsOf(journal []int64) map[topicPartition]int64 {
	by := make(map[topicPartition]int64)
	for p, next := range journal {
		by[topicPartition{schemas.TopicJournal, int32(p)}] = next // #nosec G115 -- a partition
	}
	return by
}

// CheckAt fails unless the tables have exactly the facts of a journal below these offsets of its
// partitions: up to ends it must have only transaction markers. The tables must not be continued
// with topics that begin elsewhere: later facts do not include the missing ones, and have the same
// versions as surplus ones. Tables that are still empty may begin there.
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

// otherHistory says what to do if a history is not at the position of a copy.
const otherHistory = "restore the database of the same position (RESTORE DATABASE), or let the " +
	"new topics have an empty database, and keep this one to read in"

// RestartPositions returns the positions of the tables at Restart.
func (db *DB) RestartPositions(ctx context.Context) (map[int32]int64, error) {
	at, err := db.progress(ctx, layout{leadingTable: {generation: restartGeneration}})
	by := make(map[int32]int64)
	for p, next := range at {
		by[p.partition] = next
	}
	return by, err
}

// currentTables returns the tables whose rows are ordered by their offset.
func currentTables() (names []string) {
	for _, t := range tableTopics {
		if slices.Contains([]string{schemas.TopicEndpoints, schemas.TopicWatches}, t.topic) {
			names = append(names, t.table)
		}
	}
	return names
}

// finishAsk is how often Finish checks whether the tables have everything.
const finishAsk = 5 * time.Second

// Finish runs a projector until the tables have all records of the topics. Nothing may be appended
// to them in the meantime.
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

// awaitNoLag returns when no record is missing. Until the projector has created the tables they
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
