package projections

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/schemas"
)

// generation is the generation of the tables that is filled and read.
const generation uint32 = 1

const selectProgress = `SELECT partition, max(next_offset) FROM {database:Identifier}.projection_progress
WHERE generation = {generation:UInt32} AND topic = {topic:String} GROUP BY partition`

// progress gives, by partition of the journal, the offset below which
// everything is in the tables. A partition of which nothing is, is left out.
func (db *DB) progress(ctx context.Context) (map[int32]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, statementMax)
	defer cancel()
	by := make(map[int32]int64)
	which := parameters{"generation": strconv.Itoa(int(generation)), "topic": schemas.TopicJournal}
	err := db.query(ctx, selectProgress, which, func(read func(...any) error) error {
		var partition int32
		var next int64
		err := read(&partition, &next)
		by[partition] = next
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("projections: reading the progress: %w", err)
	}
	return by, nil
}

func (db *DB) recordProgress(ctx context.Context, next map[int32]int64) error {
	partitions := keys(next)
	return db.insert(ctx, table{"projection_progress", len(partitions), []column{
		{"generation", each(partitions, func(*int32) uint32 { return generation })},
		{"topic", each(partitions, func(*int32) string { return schemas.TopicJournal })},
		{"partition", partitions},
		{"next_offset", each(partitions, func(p *int32) int64 { return next[*p] })},
	}})
}

// checkContinuity makes sure that what lies before a block is still in the
// tables. It is not when somebody dropped them and another projector made them
// anew; going on would then say of older facts that they are there.
func (db *DB) checkContinuity(ctx context.Context, from map[int32]int64) error {
	recorded, err := db.progress(ctx)
	if err != nil {
		return err
	}
	for partition, next := range from {
		if recorded[partition] < next {
			return fmt.Errorf("projections: the tables lost what was written of partition %d up to offset %d (they have it to %d)", partition, next, recorded[partition])
		}
	}
	return nil
}

// passed tells whether the progress has reached the ends.
func passed(progress, ends map[int32]int64) bool {
	for partition, end := range ends {
		if progress[partition] < end {
			return false
		}
	}
	return true
}

func keys(by map[int32]int64) []int32 {
	list := make([]int32, 0, len(by))
	for p := range by {
		list = append(list, p)
	}
	slices.Sort(list)
	return list
}
