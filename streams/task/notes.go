package task

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A task's input positions are part of its state, and therefore of its journal: the last record of
// a turn carries them in a header. A turn that writes nothing else to the journal adds a note: a
// record with only that header. The group stores the positions too, but not permanently: after
// seven days it drops those of topics that it does not subscribe to, or all of them if it is empty,
// and a deleted group drops them at once. Old inputs must not be processed again then, because the
// identifiers that mark them as repeats may have been dropped.

// StartRecord returns the record that an owner writes before anything else.
func StartRecord(journal string, partition int32) kafka.Record {
	return kafka.Record{
		Topic:     journal,
		Partition: partition,
		Key:       []byte{},
		Headers:   []kafka.Header{{Key: kafka.HeaderStart, Value: []byte("1")}},
	}
}

// TakenRecord returns a note with the positions up to which a task has taken its inputs.
func TakenRecord(journal string, partition int32, positions map[string]int64) kafka.Record {
	return kafka.Record{
		Topic:     journal,
		Partition: partition,
		Key:       []byte{},
		Headers: []kafka.Header{{
			Key:   kafka.HeaderInputs,
			Value: []byte(inputPositions(positions).String()),
		}},
	}
}

// inputPositions are the offsets of the next records of a task's inputs, by topic.
type inputPositions map[string]int64

func (p inputPositions) String() string {
	var b strings.Builder
	for i, topic := range slices.Sorted(maps.Keys(p)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(topic + "=" + strconv.FormatInt(p[topic], 10))
	}
	return b.String()
}

func parsePositions(text string) (inputPositions, error) {
	p := make(inputPositions)
	for part := range strings.SplitSeq(text, ",") {
		topic, offset, ok := strings.Cut(part, "=")
		at, err := strconv.ParseInt(offset, 10, 64)
		if !ok || err != nil || at < 0 || topic == "" {
			return nil, fmt.Errorf("streams: the input positions %.200q cannot be read", text)
		}
		p[topic] = at
	}
	return p, nil
}
