package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ErrAborted means that a broker returned records of an aborted transaction as committed. Data
// derived from them cannot be trusted.
var ErrAborted = errors.New("records of an aborted transaction were read as committed")

// marks checks records against the markers that end transactions: when an abort marker arrives, no
// record of its producer may have been read since the previous marker.
type marks struct {
	given  map[author]int64 // the first offset read since the author's last marker
	latest author
}

type author struct {
	topic     string
	partition int32
	producer  int64
}

func newMarks() marks { return marks{given: make(map[author]int64)} }

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
		return fmt.Errorf("streams: %s/%d: the record at offset %d was returned as committed, but the "+
			"marker at offset %d aborts its transaction: %w "+
			"(this is a bug in the broker: update it and restart; then find differences in the history "+
			"with verify-projection, and repair them with rebuild)",
			k.Topic, k.Partition, first, k.Offset, ErrAborted)
	}
	return nil
}

// isAbortMarker reads the type of a control record, which follows a two-byte version.
func isAbortMarker(k *kgo.Record) bool {
	const abort = 0
	return len(k.Key) >= 4 && binary.BigEndian.Uint16(k.Key[2:]) == abort
}
