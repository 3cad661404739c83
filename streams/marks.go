package streams

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrAborted means that a broker handed out records of an aborted transaction as
// committed. What was made of what was read cannot be trusted.
var ErrAborted = errors.New("records of an aborted transaction were read as committed")

// marks holds what a reader was given against the markers that end transactions:
// where an abort marker comes, nothing of its producer may have been given since
// the marker before.
type marks struct {
	given  map[author]int64 // the first offset since the author's last marker
	latest author           // of the record before, which mostly is this one's too
}

// author is a producer's part in one partition.
type author struct {
	topic     string
	partition int32
	producer  int64
}

func newMarks() marks { return marks{given: make(map[author]int64)} }

// pass takes note of a record, or holds a marker against what was noted.
func (m *marks) pass(k *kgo.Record) error {
	by := author{k.Topic, k.Partition, k.ProducerID}
	if !k.Attrs.IsControl() {
		if by != m.latest && k.Attrs.IsTransactional() {
			m.latest = by
			if _, is := m.given[by]; !is {
				m.given[by] = k.Offset
			}
		}
		return nil
	}
	first, is := m.given[by]
	delete(m.given, by)
	m.latest = author{}
	if is && isAbortMarker(k) {
		return fmt.Errorf("streams: %s/%d: the record at offset %d was handed out, and the marker at "+
			"offset %d says that its transaction was aborted: %w "+
			"(a fault of the broker: update it, then start again; verify-projection names what of the "+
			"history differs and rebuild heals it)",
			k.Topic, k.Partition, first, k.Offset, ErrAborted)
	}
	return nil
}

// isAbortMarker reads the type of a control record: after a version of two bytes.
func isAbortMarker(k *kgo.Record) bool {
	const abort = 0
	return len(k.Key) >= 4 && binary.BigEndian.Uint16(k.Key[2:]) == abort
}
