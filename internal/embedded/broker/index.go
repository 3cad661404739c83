package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// kfake writes a batch to a segment (.dat) and then an entry of the index beside it (.idx),
// which has a flag that the batch belongs to a transaction. A kill between the two leaves a
// batch without an entry, and every later entry one position too early. kfake then treats
// records of transactions as records outside of them, and returns aborted ones as
// committed. The batch itself says whether it is transactional, so indexes are compared
// with their segments before kfake reads them.
//
// An entry is a version, the low byte of the CRC-32C of the rest, the leader's epoch
// and a time (both little-endian; the time is not read), and the flags.
const (
	segmentExt   = ".dat"
	indexExt     = ".idx"
	entryBytes   = 15
	entryVersion = 1
	sumAt        = 1
	flagAt       = 14
	inTxn        = 1

	// Offsets in the header of a batch, and bits of its attributes.
	batchLengthAt     = 8
	batchEpochAt      = 12
	batchSumAt        = 17
	batchAttributesAt = 21
	batchLastDeltaAt  = 23
	batchHeaderBytes  = 27
	transactional     = 1 << 4
	control           = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// healIndexes rewrites the indexes that do not match their segments.
func healIndexes(dir string) error {
	partitions := filepath.Join(dir, "partitions")
	return eachPartition(partitions, func(folder string) error {
		segments, err := filesIn(filepath.Join(partitions, folder), segmentExt)
		for _, segment := range segments {
			index := strings.TrimSuffix(segment, segmentExt) + indexExt
			if err := healIndex(segment, index); err != nil {
				return fmt.Errorf("the index of %s: %w", segment, err)
			}
		}
		return err
	})
}

func healIndex(segment, index string) error {
	want, err := indexOf(segment)
	if err != nil {
		return err
	}
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
// takes one that is not whole for one without flags. It truncates excess entries itself.
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

// indexOf builds the index of a segment.
func indexOf(segment string) (index []byte, err error) {
	file, err := os.Open(segment)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	err = eachBatch(file, func(header []byte) { index = append(index, entryOf(header)...) })
	return index, err
}

func entryOf(header []byte) []byte {
	entry := make([]byte, entryBytes)
	entry[0] = entryVersion
	epoch := binary.BigEndian.Uint32(header[batchEpochAt:])
	binary.LittleEndian.PutUint32(entry[2:], epoch)
	attributes := binary.BigEndian.Uint16(header[batchAttributesAt:])
	if attributes&transactional != 0 && attributes&control == 0 {
		entry[flagAt] = inTxn
	}
	entry[sumAt] = sumOf(entry)
	return entry
}
