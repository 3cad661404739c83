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

// kfake writes a batch to a segment (.dat) and then an entry to the index next to it (.idx), which
// says whether the batch belongs to a transaction. A kill between the two leaves a batch without an
// entry, and every later entry one position too early. kfake then treats records of transactions as
// records outside of them, and returns aborted ones as committed. The batch itself says whether it
// is transactional, so a start compares the indexes with their segments before kfake reads them.
//
// An entry is a version, the low byte of the CRC-32C of the rest, the leader's epoch and a time
// (both little-endian; kfake does not read the time), and the flags.
const (
	segmentExt   = ".dat"
	indexExt     = ".idx"
	entryBytes   = 15
	entryVersion = 1
	sumAt        = 1
	flagAt       = 14
	inTxn        = 1

	// Offsets in a batch, and bits of its attributes. Those of the records are for a marker, which
	// is one record with a key of a version and a kind (KIP-98).
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
	end           int64 // the offset after its last record
	leaderEpoch   uint32
	transactional bool
	producer      int64
	epoch         int16 // of the producer
	marker        bool
	commit        bool // the kind of a marker
}

// partition is a folder of segments.
type partition struct {
	folder string
	end    int64           // the offset after its last record
	open   map[int64]int16 // epochs of transactions without a marker, by producer
}

// scan holds the contents of the segments of all partitions.
type scan struct {
	partitions map[string]*partition // by the names of their folders
	ended      endings               // by markers
}

// scanPartitions reads the headers of all batches, and rewrites indexes that do not match.
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

// segmentsIn returns the segments of a partition in the order of their offsets.
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

// read adds a segment to the scan.
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

// eachBatch calls take with each complete batch of a segment. Data after the last one was
// interrupted by a kill.
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

// healIndex rewrites the index of a segment if it is not the wanted one.
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

// sameFlags reports whether an index has a whole entry with the right flags for each batch: kfake
// reads an entry that is not whole as one without flags. It truncates excess entries itself.
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

// sumOf is the sum of an entry.
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
