package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// StateFormat is incremented when the same journal is folded into other keys or values than
// before, or into as many settled deliveries as another rememberedSettled leaves. conversions
// then has what makes the former entries of it, and testdata a folder of the new format
// (formats_test.go).
const StateFormat = 16

// conversions has, by the number of each earlier format, what makes entries of it entries of
// the next one. None is ever removed: a partition that is quiet for years has a snapshot of
// then.
var conversions = map[int]streams.Conversion{
	7:  {}, // 8 numbers the deliveries of each endpoint: entries of 7 have none
	8:  {Whole: carryBodies},
	9:  {}, // 10 has lines of deliveries: at no endpoint of 9 is there one
	10: {}, // 11 has watches that expire, and that are for one payment: there are none in 10
	11: {}, // 12 gives accounts other emails: in 11 none had
	12: {}, // 13 has logs of attempts: the next attempt of each endpoint of 12 begins one
	13: {}, // 14 gives accounts several emails: in 13 none had
	14: {}, // 15 has what endpoints met since their last success: those of 14 begin anew
	15: {Whole: dateAnswers},
}

// Formats are the format of the states of an engine, and those that it reads.
type Formats struct {
	Number      int // of today's
	Conversions map[int]streams.Conversion
}

// orToday is the format of this program, unless a test names another.
func (f Formats) orToday() Formats {
	if f.Number == 0 {
		return Formats{Number: StateFormat, Conversions: conversions}
	}
	return f
}

// identityOf names the states of a format of so many partitions, whatever cluster they are in.
func identityOf(format, partitions int) string {
	return fmt.Sprintf("engine state %d over %d partitions", format, partitions)
}

// Snapshots says where the snapshots of the states of so many partitions are, and which of
// them are read.
func Snapshots(partitions int) streams.SnapshotConfig {
	return Formats{}.orToday().snapshots(partitions)
}

func (f Formats) snapshots(partitions int) streams.SnapshotConfig {
	cfg := streams.SnapshotConfig{
		Topic:    schemas.TopicSnapshots,
		Identity: identityOf(f.Number, partitions),
		Advise: func(identity string) string {
			return f.advise(identity, partitions)
		},
	}
	var convert streams.Conversion
	for n := f.Number - 1; f.has(n); n-- {
		convert = following(f.Conversions[n], convert)
		cfg.Earlier = append(cfg.Earlier, streams.EarlierFormat{
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

// following converts by one conversion and then by the next ones. Every entry is converted
// before any whole: an Entry that follows a Whole sees entries as they were before that.
func following(first, rest streams.Conversion) (both streams.Conversion) {
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
		both.Whole = func(s *streams.Store) error { return errors.Join(first.Whole(s), rest.Whole(s)) }
	}
	return both
}

// reads lists the numbers of the formats that are read, the lowest first.
func (f Formats) reads() []int {
	numbers := []int{f.Number}
	for n := f.Number - 1; f.has(n); n-- {
		numbers = append(numbers, n)
	}
	slices.Reverse(numbers)
	return numbers
}

// advise says what to do about snapshots that are not read, where the journal does not reach
// back to its beginning any more.
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

// convertedAtOnce is how many timers a batch of a conversion is of: a body each, at most.
const convertedAtOnce = 256

// convertTimers has what each timer of a state leads to converted, in batches: what is converted
// again after a crash must come to the same.
func convertTimers(
	s *streams.Store, convert func(*streams.Batch, streams.Claimed) error,
) error {
	batch, n := s.Begin(), 0
	err := s.ScanTimers(func(c streams.Claimed) error {
		err := convert(batch, c)
		if n++; n%convertedAtOnce == 0 && err == nil {
			err = batch.Commit()
			batch = s.Begin()
		}
		return err
	})
	if err != nil {
		batch.Discard()
		return err
	}
	return batch.Commit()
}
