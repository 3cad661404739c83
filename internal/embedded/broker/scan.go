package broker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kfake writes a batch to a segment (.dat) and then an entry to its index (.idx), which says
// whether the batch belongs to a transaction. After a kill between the two writes, a batch has no
// entry, and all later entries are one position too early. kfake then treats transactional records
// as non-transactional, and returns aborted records as committed. The batches themselves say
// whether they are transactional, so a start checks the indexes against the segments before kfake
// reads them.
//
// An entry consists of a version, the low byte of the CRC-32C of the rest, the leader epoch and a
// time (both little-endian; kfake doesn't read the time), and the flags.
const (
	segmentExt   = ".dat"
	indexExt     = ".idx"
	entryBytes   = 15
	entryVersion = 1
	sumAt        = 1
	flagAt       = 14
	inTxn        = 1

	// Positions in a batch, and bits of its attributes. markerKind is in the first record's key, which
	// consists of a version and a type (KIP-98).
	batchLengthAt     = 8
	batchEpochAt      = 12
	batchSumAt        = 17
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchProducerAt   = 43
	batchTxnEpochAt   = 51
	batchHeaderBytes  = 61
	markerKindAt      = batchHeaderBytes + 7
	markerKindBytes   = 2
	transactional     = 1 << 4
	control           = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch holds the fields of a batch that a start needs.
type batch struct {
	end           int64 // offset after the last record
	leaderEpoch   uint32
	transactional bool
	producer      int64
	epoch         int16 // the producer's epoch
	marker        bool
	commit        bool // whether the marker commits
}

type partition struct {
	folder string
	end    int64           // offset after the last record
	open   map[int64]int16 // producer ids and epochs of transactions without a marker
}

type scan struct {
	partitions map[string]*partition // by directory name
	ended      endings               // according to markers
}

// scanPartitions reads the headers of all batches, and rewrites indexes that don't match.
func scanPartitions(dir string) (*scan, error) {
	found := &scan{partitions: make(map[string]*partition), ended: make(endings)}
	root := filepath.Join(dir, "partitions")
	err := eachPartition(root, func(name string) error {
		p := &partition{folder: filepath.Join(root, name), open: make(map[int64]int16)}
		found.partitions[name] = p
		segments, err := segmentsIn(p.folder)
		for _, segment := range segments {
			if err := found.read(p, segment); err != nil {
				return fmt.Errorf("the segment %s: %w", segment, err)
			}
		}
		return err
	})
	return found, err
}

func segmentsIn(folder string) ([]string, error) {
	segments, err := filesIn(folder, segmentExt)
	base := func(segment string) int64 {
		number := strings.TrimSuffix(filepath.Base(segment), segmentExt)
		at, _ := strconv.ParseInt(number, 10, 64)
		return at
	}
	slices.SortFunc(segments, func(a, b string) int { return cmp.Compare(base(a), base(b)) })
	return segments, err
}

func (s *scan) read(p *partition, segment string) (err error) {
	file, err := os.Open(segment)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var index []byte
	err = eachBatch(file, func(b batch) {
		index = append(index, entryOf(b)...)
		p.end = b.end
		switch {
		case b.marker:
			delete(p.open, b.producer)
			s.ended.note(b.producer, ending{b.epoch, b.commit})
		case b.transactional:
			p.open[b.producer] = b.epoch
		}
	})
	if err != nil {
		return err
	}
	return healIndex(strings.TrimSuffix(segment, segmentExt)+indexExt, index)
}

// eachBatch calls take with each complete batch of a segment. Anything after the last one was left
// incomplete by a kill.
func eachBatch(segment *os.File, take func(batch)) error {
	info, err := segment.Stat()
	if err != nil {
		return err
	}
	header := make([]byte, batchHeaderBytes)
	for at := int64(0); ; {
		_, err := segment.ReadAt(header, at)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		size := batchEpochAt + int64(binary.BigEndian.Uint32(header[batchLengthAt:]))
		if size < batchHeaderBytes || at+size > info.Size() {
			return nil
		}
		b := parseBatch(header)
		if b.marker {
			whole := make([]byte, size)
			if _, err := segment.ReadAt(whole, at); err != nil {
				return err
			}
			if sumOfBatch(whole) != binary.BigEndian.Uint32(whole[batchSumAt:]) {
				return nil
			}
			b.commit = isCommit(whole)
		}
		take(b)
		at += size
	}
}

func parseBatch(header []byte) batch {
	attributes := binary.BigEndian.Uint16(header[batchAttributesAt:])
	return batch{
		end: int64(binary.BigEndian.Uint64(header)) + 1 +
			int64(binary.BigEndian.Uint32(header[batchLastDeltaAt:])),
		leaderEpoch:   binary.BigEndian.Uint32(header[batchEpochAt:]),
		transactional: attributes&transactional != 0,
		producer:      int64(binary.BigEndian.Uint64(header[batchProducerAt:])),
		epoch:         int16(binary.BigEndian.Uint16(header[batchTxnEpochAt:])),
		marker:        attributes&control != 0,
	}
}

func sumOfBatch(raw []byte) uint32 { return crc32.Checksum(raw[batchAttributesAt:], castagnoli) }

func isCommit(marker []byte) bool {
	return len(marker) >= markerKindAt+markerKindBytes &&
		binary.BigEndian.Uint16(marker[markerKindAt:]) == commitKind
}

func healIndex(index string, want []byte) error {
	have, err := os.ReadFile(index)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if sameFlags(want, have) {
		return nil
	}
	draft := index + ".healed"
	if err := os.WriteFile(draft, want, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, index)
}

// sameFlags reports whether an index has a complete entry with the right flags for each batch.
// kfake reads an incomplete entry as one without flags. kfake itself truncates excess entries.
func sameFlags(want, have []byte) bool {
	if len(have) < len(want) {
		return false
	}
	for at := 0; at < len(want); at += entryBytes {
		entry := have[at : at+entryBytes]
		if entry[flagAt] != want[at+flagAt] || entry[sumAt] != sumOf(entry) {
			return false
		}
	}
	return true
}

func sumOf(entry []byte) byte { return byte(crc32.Checksum(entry[sumAt+1:], castagnoli)) }

func entryOf(b batch) []byte {
	entry := make([]byte, entryBytes)
	entry[0] = entryVersion
	binary.LittleEndian.PutUint32(entry[2:], b.leaderEpoch)
	if b.transactional && !b.marker {
		entry[flagAt] = inTxn
	}
	entry[sumAt] = sumOf(entry)
	return entry
}
