package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

const manifestName = ".config.json"

// Layout describes how ledgers are divided into files and folders (SEP-54).
type Layout struct {
	LedgersPerFile    uint32 // at least 1
	FilesPerPartition uint32 // 1 or less: no folders
}

// Limits of a layout. With larger files, a reader would need too much memory.
const (
	ledgersPerFileMax    = 4096
	filesPerPartitionMax = 1 << 20
)

func (l Layout) check() error {
	if l.LedgersPerFile < 1 || l.LedgersPerFile > ledgersPerFileMax {
		return fmt.Errorf("%d ledgers per file: must be 1 to %d", l.LedgersPerFile, ledgersPerFileMax)
	}
	if l.FilesPerPartition > filesPerPartitionMax {
		return fmt.Errorf("%d files per folder: must be at most %d", l.FilesPerPartition,
			filesPerPartitionMax)
	}
	return nil
}

func (l Layout) rangeOf(sequence uint32) (first, last uint32) {
	first = sequence - sequence%l.LedgersPerFile
	return first, l.end(first, l.LedgersPerFile)
}

func (l Layout) end(first, count uint32) uint32 {
	return uint32(min(uint64(first)+uint64(count)-1, math.MaxUint32))
}

// Key returns the name of the file that contains a ledger. Names start with the complement of the
// first sequence, so that the newest file is listed first.
func (l Layout) Key(sequence uint32) string {
	first, last := l.rangeOf(sequence)
	key := fmt.Sprintf("%08X--%d", math.MaxUint32-first, first)
	if first != last {
		key += fmt.Sprintf("-%d", last)
	}
	key += ".xdr.zst"
	if l.FilesPerPartition > 1 {
		size := l.LedgersPerFile * l.FilesPerPartition
		folder := sequence - sequence%size
		key = fmt.Sprintf("%08X--%d-%d/%s", math.MaxUint32-folder, folder, l.end(folder, size), key)
	}
	return key
}

// formerSuffix is appended to keys in lakes of earlier Galexie versions, whose files end in .zstd.
const formerSuffix = "d"

var keyForm = regexp.MustCompile(`(?:^|/)([0-9A-F]{8})--(\d+)(?:-(\d+))?\.xdr\.zstd?$`)

// parseKey returns the last ledger of a file with the given name, if it is valid.
func parseKey(key string) (last uint32, ok bool) {
	m := keyForm.FindStringSubmatch(key)
	if m == nil {
		return 0, false
	}
	complement, _ := strconv.ParseUint(m[1], 16, 32)
	a, err := strconv.ParseUint(m[2], 10, 31)
	if err != nil || complement != math.MaxUint32-a {
		return 0, false
	}
	if m[3] == "" {
		return uint32(a), true
	}
	b, err := strconv.ParseUint(m[3], 10, 31)
	return uint32(b), err == nil && b >= a
}

type manifest struct {
	NetworkPassphrase string `json:"networkPassphrase"`
	Version           string `json:"version"`
	Compression       string `json:"compression"`
	LedgersPerFile    uint32 `json:"ledgersPerBatch"`
	FilesPerPartition uint32 `json:"batchesPerPartition"`
}

const (
	manifestVersion = "1.0"
	compressionZstd = "zstd"
)

var errNoManifest = errors.New("it has no " + manifestName +
	" with the lake's layout: export it with a Galexie that writes one")

func parseManifest(raw []byte) (m manifest, err error) {
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("%s is invalid: %w", manifestName, err)
	}
	if m.Compression != "" && m.Compression != compressionZstd {
		return m, fmt.Errorf("%s: unknown compression %q: only zstd is supported", manifestName,
			m.Compression)
	}
	if err := m.layout().check(); err != nil {
		return m, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, nil
}

func (m manifest) layout() Layout {
	return Layout{LedgersPerFile: m.LedgersPerFile, FilesPerPartition: m.FilesPerPartition}
}
