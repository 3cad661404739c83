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
// a turn has them in a header, or a note, which is a record with only that header. The group stores
// them as well, but after seven days it drops those of topics that it does not subscribe to, or all
// of them if it is empty. Old inputs must not be processed again then, because the ids that mark
// them as repeats may have expired.

// StartRecord returns the first record that an owner writes.
func StartRecord(journal string, partition int32) kafka.Record {
	return noteOf(journal, partition, kafka.HeaderStart, "1")
}

// TakenRecord returns a note with the input positions of a task.
func TakenRecord(journal string, partition int32, positions map[string]int64) kafka.Record {
	return noteOf(journal, partition, kafka.HeaderInputs, inputPositions(positions).String())
}

func noteOf(journal string, partition int32, header, value string) kafka.Record {
	return kafka.Record{
		Topic:     journal,
		Partition: partition,
		Key:       []byte{},
		Headers:   []kafka.Header{{Key: header, Value: []byte(value)}},
	}
}

// inputPositions maps input topics to the offset of the next record.
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
			return nil, fmt.Errorf("streams: cannot parse the input positions %.200q", text)
		}
		p[topic] = at
	}
	return p, nil
}
