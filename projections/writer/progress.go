package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	continuityEvery = 5 * time.Second
	progressPoll    = 25 * time.Millisecond
)

const selectProgress = `
SELECT toString(generation), topic, partition, max(next_offset)
FROM {database:Identifier}.projection_progress
WHERE generation IN (SELECT toUUID(arrayJoin({generations:Array(String)})))
GROUP BY generation, topic, partition`

// progress returns for each partition the offset up to which all of the layout's tables are
// complete. Partitions without progress are omitted.
func (db *DB) progress(ctx context.Context, l layout) (map[topicPartition]int64, error) {
	return db.progressBy(ctx, selectProgress, l)
}

func (db *DB) liveProgress(ctx context.Context) (map[topicPartition]int64, error) {
	l, err := db.live(ctx)
	if err != nil {
		return nil, err
	}
	return db.progress(ctx, l)
}

// behind returns how many records before ends are missing from a live table that they fill.
func (db *DB) behind(
	ctx context.Context, ends map[topicPartition]int64,
) (records int64, err error) {
	at, err := db.liveProgress(ctx)
	if err != nil {
		return 0, err
	}
	for p, end := range ends {
		records += max(0, end-at[p])
	}
	return records, nil
}

// endsOf returns the ends of the topics' partitions.
func endsOf(
	ctx context.Context, asking *kafka.Ends, topics []string,
) (map[topicPartition]int64, error) {
	all := make(map[topicPartition]int64)
	for _, topic := range topics {
		ends, err := asking.Of(ctx, topic)
		if err != nil {
			return nil, err
		}
		for partition, end := range ends {
			all[topicPartition{topic, partition}] = end
		}
	}
	return all, nil
}

func (db *DB) progressBy(
	ctx context.Context, query string, l layout,
) (map[topicPartition]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	tables := make(map[string]int) // number of tables per topic
	generations := make([]string, 0, len(l))
	for name, f := range l {
		tables[topicOf(name)]++
		generations = append(generations, f.generation)
	}
	next, known := make(map[topicPartition]int64), make(map[topicPartition]int)
	err := db.Query(ctx, query, Parameters{"generations": ArrayOf(generations)},
		func(read func(...any) error) error {
			var generation string
			var p topicPartition
			var offset int64
			err := read(&generation, &p.topic, &p.partition, &offset)
			if known[p]++; known[p] == 1 {
				next[p] = offset
			}
			next[p] = min(next[p], offset)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("projections: reading the progress: %w", err)
	}
	for p, n := range known {
		if n < tables[p.topic] {
			delete(next, p)
		}
	}
	return next, nil
}

// ArrayOf formats a list of our own identifiers as a query parameter. It doesn't escape them.
func ArrayOf(names []string) string {
	if len(names) == 0 {
		return "[]"
	}
	return "['" + strings.Join(names, "','") + "']"
}

// TimesOf formats a list of times as a query parameter. A function call for each time would take
// longer than reading the rows.
func TimesOf(times ...time.Time) string {
	texts := make([]string, len(times))
	for i, at := range times {
		texts[i] = at.UTC().Format("2006-01-02 15:04:05.000")
	}
	return ArrayOf(texts)
}

func (db *DB) recordProgress(ctx context.Context, l layout, next map[topicPartition]int64) error {
	type row struct {
		topicPartition
		name, generation string
	}
	var rows []row
	for _, p := range partitionsOf(next) {
		for _, name := range l.tables() {
			if topicOf(name) == p.topic {
				rows = append(rows, row{p, name, l[name].generation})
			}
		}
	}
	return db.insert(ctx, table{"projection_progress", len(rows), func(yield func([]column) bool) {
		yield([]column{
			{"generation", each(rows, func(r *row) string { return r.generation })},
			{"table_name", each(rows, func(r *row) string { return r.name })},
			{"topic", each(rows, func(r *row) string { return r.topic })},
			{"partition", each(rows, func(r *row) int32 { return r.partition })},
			{"next_offset", each(rows, func(r *row) int64 { return next[r.topicPartition] })},
		})
	}})
}

// checkContinuity checks that the tables still have the rows before a block. They don't if they
// were emptied and another projector started over. If this projector continued, older facts would
// then be recorded as written.
func (db *DB) checkContinuity(ctx context.Context, l layout, from map[topicPartition]int64) error {
	recorded, err := db.progress(ctx, l)
	if err != nil {
		return err
	}
	for p, next := range from {
		if recorded[p] < next {
			return fmt.Errorf("projections: the tables lost what was written of %s up to offset %d (they "+
				"have it to %d)", p, next, recorded[p])
		}
	}
	return nil
}

// keepChecking returns when the tables differ from the layout or have lost rows from before the
// session. A session without anything to write would not notice otherwise.
func (db *DB) keepChecking(
	ctx context.Context, l layout, from map[topicPartition]int64,
) (err error) {
	for err == nil {
		if err = retry.Sleep(ctx, continuityEvery); err == nil {
			err = errors.Join(db.check(ctx, l), db.checkContinuity(ctx, l, from))
		}
	}
	return cmp.Or(ctx.Err(), err)
}

// JournalProgress returns the progress of the live journal tables.
func (db *DB) JournalProgress(ctx context.Context) (map[int32]int64, error) {
	return db.TopicProgress(ctx, schemas.TopicJournal)
}

// TopicProgress returns the progress of the live tables that are filled from a topic.
func (db *DB) TopicProgress(ctx context.Context, topic string) (map[int32]int64, error) {
	all, err := db.liveProgress(ctx)
	if err != nil {
		return nil, err
	}
	by := make(map[int32]int64)
	for p, next := range all {
		if p.topic == topic {
			by[p.partition] = next
		}
	}
	return by, nil
}

// ProgressOf returns the progress of the journal tables with these UUIDs, by name. It is empty if a
// table is missing, because the slowest table determines the journal's progress.
func (db *DB) ProgressOf(
	ctx context.Context, tables map[string]string,
) (map[int32]int64, error) {
	at := make(map[int32]int64)
	l := journalLayout(tables)
	if len(l) != len(tables) {
		return at, nil
	}
	all, err := db.progress(ctx, l)
	for p, next := range all {
		at[p.partition] = next
	}
	return at, err
}

// Passed reports whether progress has reached ends.
func Passed(progress, ends map[int32]int64) bool {
	for partition, end := range ends {
		if progress[partition] < end {
			return false
		}
	}
	return true
}

func partitionsOf(by map[topicPartition]int64) []topicPartition {
	list := make([]topicPartition, 0, len(by))
	for p := range by {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b topicPartition) int {
		return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.partition, b.partition))
	})
	return list
}
