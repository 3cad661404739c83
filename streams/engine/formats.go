package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// StateFormat is the number of the format into which a journal is folded: its keys, its values, and
// rememberedSettled. To change it, increment the number, add a conversion from the previous format,
// and add a testdata folder for the new one (formats_test.go).
const StateFormat = 1

// conversions maps each earlier format to its conversion to the next. Never remove any, because a
// partition that was idle for years has a snapshot of that age.
var conversions = map[int]task.Conversion{}

// Formats are the format of new states and the earlier ones that an engine can read.
type Formats struct {
	Number      int // the format to write
	Conversions map[int]task.Conversion
}

func (f Formats) orOwn() Formats {
	if f.Number == 0 {
		return Formats{Number: StateFormat, Conversions: conversions}
	}
	return f
}

func identityOf(format, partitions int) string {
	return fmt.Sprintf("engine state %d over %d partitions", format, partitions)
}

// Snapshots returns the snapshot configuration for a number of partitions.
func Snapshots(partitions int) task.SnapshotConfig {
	return Formats{}.orOwn().snapshots(partitions)
}

func (f Formats) snapshots(partitions int) task.SnapshotConfig {
	cfg := task.SnapshotConfig{
		Topic:    schemas.TopicSnapshots,
		Identity: identityOf(f.Number, partitions),
		Advise: func(identity string) string {
			return f.advise(identity, partitions)
		},
	}
	var convert task.Conversion
	for n := f.Number - 1; f.has(n); n-- {
		convert = following(f.Conversions[n], convert)
		cfg.Earlier = append(cfg.Earlier, task.EarlierFormat{
			Identity: identityOf(n, partitions),
			Convert:  convert,
		})
	}
	return cfg
}

func (f Formats) has(number int) bool {
	_, has := f.Conversions[number]
	return has
}

// following chains two conversions. All entries pass through both Entry functions before the first
// Whole runs, so the second Entry sees entries that no Whole has changed.
func following(first, rest task.Conversion) (both task.Conversion) {
	switch {
	case first.Entry == nil:
		both.Entry = rest.Entry
	case rest.Entry == nil:
		both.Entry = first.Entry
	default:
		both.Entry = func(key, value []byte, put func(key, value []byte) error) error {
			return first.Entry(key, value, func(key, value []byte) error {
				return rest.Entry(key, value, put)
			})
		}
	}
	switch {
	case first.Whole == nil:
		both.Whole = rest.Whole
	case rest.Whole == nil:
		both.Whole = first.Whole
	default:
		both.Whole = func(s *store.Store) error { return errors.Join(first.Whole(s), rest.Whole(s)) }
	}
	return both
}

func (f Formats) reads() []int {
	numbers := []int{f.Number}
	for n := f.Number - 1; f.has(n); n-- {
		numbers = append(numbers, n)
	}
	slices.Reverse(numbers)
	return numbers
}

// advise returns what to do if the snapshots cannot be read and the journal's beginning is deleted.
func (f Formats) advise(identity string, partitions int) string {
	var format, count int
	_, err := fmt.Sscanf(identity, "engine state %d over %d partitions", &format, &count)
	if err != nil {
		return ""
	}
	are := fmt.Sprintf("The existing snapshots have state format %d, but this version reads "+
		"%s: ", format, strings.Trim(fmt.Sprint(f.reads()), "[]"))
	switch {
	case count != partitions:
		return fmt.Sprintf("The existing snapshots are of %d partitions, but the topics have %d: "+
			"restore the topics from a backup", count, partitions)
	case format > f.Number:
		return are + "a newer version wrote them. Nothing is lost: start that version again, or a " +
			"later one (docs/decisions/upgrades.md)"
	case slices.Contains(f.reads(), format):
		return ""
	}
	return are + "an older version wrote them. Nothing is lost: start that version again, and " +
		"upgrade from it to one that still reads them (docs/decisions/upgrades.md)"
}
