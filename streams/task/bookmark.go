package task

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// bookmark identifies the last record that is folded into a state, a fact or a note: its
// offset in the journal, and a checksum. A checkpoint alone is not enough: a journal that was
// truncated since, by an unclean election or by hand, and has grown past the checkpoint again
// has another record at that offset, or none; and a copy may have been handed a record that
// was never committed. Notes count, since input positions are taken from them.
type bookmark struct {
	offset int64
	sum    uint32
	known  bool // false: nothing is folded yet, or a program without bookmarks folded it
}

var bookmarkKey = []byte{store.KeySpaceOwn, 'b'}

func bookmarkOf(offset int64, r kafka.Record) bookmark {
	return bookmark{offset: offset, sum: checksum(r), known: true}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers a record's key, value and headers.
func checksum(r kafka.Record) uint32 {
	sum := crc32.Update(crc32.Checksum(r.Key, castagnoli), castagnoli, r.Value)
	for _, h := range r.Headers {
		sum = crc32.Update(crc32.Update(sum, castagnoli, []byte(h.Key)), castagnoli, h.Value)
	}
	return sum
}

func (b bookmark) set(batch *store.Batch) error {
	if !b.known {
		return nil
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(b.offset))
	return batch.Set(bookmarkKey, binary.BigEndian.AppendUint32(value, b.sum))
}

func loadBookmark(s *store.Store) (b bookmark, err error) {
	value, err := s.Get(bookmarkKey)
	if err != nil || len(value) != 12 {
		return b, err
	}
	b.offset, b.known = int64(binary.BigEndian.Uint64(value)), true
	b.sum = binary.BigEndian.Uint32(value[8:])
	return b, nil
}
