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

// StateFormat numbers the format of the keys and values that a journal is folded into, including
// the number of settled deliveries that a partition remembers (rememberedSettled). To change
// either, increment it, add the conversion from the previous format to conversions, and write a
// folder of testdata for the new format (formats_test.go).
const StateFormat = 1

// conversions maps the number of each earlier format to the conversion of its entries to the next
// one. Do not remove one: a partition that was quiet for years has a snapshot of that age.
var conversions = map[int]task.Conversion{}

// Formats are the format in which an engine writes its states, and the earlier formats that it
// reads.
type Formats struct {
	Number      int // of the format that it writes
	Conversions map[int]task.Conversion
}

// orOwn returns the formats of this program, unless a test sets others.
func (f Formats) orOwn() Formats {
	if f.Number == 0 {
		return Formats{Number: StateFormat, Conversions: conversions}
	}
	return f
}

// identityOf returns the identity of the states of a format with that many partitions, in any
// cluster.
func identityOf(format, partitions int) string {
	return fmt.Sprintf("engine state %d over %d partitions", format, partitions)
}

// Snapshots returns the configuration of the snapshots of states with that many partitions,
// including which formats are read.
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

// has reports whether the format before the next one is read.
func (f Formats) has(number int) bool {
	_, has := f.Conversions[number]
	return has
}

// following chains two conversions. All entries pass through both Entry functions before the first
// Whole runs, so the second Entry sees entries as they were before the first Whole.
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

// reads lists the numbers of the formats that are read, in ascending order.
func (f Formats) reads() []int {
	numbers := []int{f.Number}
	for n := f.Number - 1; f.has(n); n-- {
		numbers = append(numbers, n)
	}
	slices.Reverse(numbers)
	return numbers
}

// advise returns what to do about snapshots that are not read, when the beginning of the journal is
// deleted.
func (f Formats) advise(identity string, partitions int) string {
	var format, count int
	_, err := fmt.Sscanf(identity, "engine state %d over %d partitions", &format, &count)
	if err != nil {
		return ""
	}
	are := fmt.Sprintf("The snapshots that there are have state format %d, and this version reads "+
		"%s: ", format, strings.Trim(fmt.Sprint(f.reads()), "[]"))
	switch {
	case count != partitions:
		return fmt.Sprintf("The snapshots that there are were made of %d partitions, and the topics "+
			"have %d: restore the topics from a backup", count, partitions)
	case format > f.Number:
		return are + "a newer version wrote them. Nothing is lost: start that version again, or a " +
			"later one (docs/decisions/upgrades.md)"
	case slices.Contains(f.reads(), format):
		return ""
	}
	return are + "an older version wrote them. Nothing is lost: start that version again, and go " +
		"from there to one that still reads them (docs/decisions/upgrades.md)"
}
