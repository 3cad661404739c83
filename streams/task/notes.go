package task

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A task's input positions are part of its state, and so of its journal: the last record of
// a turn carries them in a header, and a turn that writes nothing else to the journal adds
// a record with that header only, a note. The group stores them too, but not for ever:
// after seven days it drops those of topics that it does not subscribe to, or all of them
// if it is empty, and a deleted group drops them at once. Inputs that were processed long
// ago must not be processed again then: what identifies them as repeats may have been
// dropped.

// StartRecord returns the record that an owner writes before anything else.
func StartRecord(journal string, partition int32) kafka.Record {
	return kafka.Record{
		Topic:     journal,
		Partition: partition,
		Key:       []byte{},
		Headers:   []kafka.Header{{Key: kafka.HeaderStart, Value: []byte("1")}},
	}
}

// TakenRecord returns a note that says how far a task's inputs were taken.
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
