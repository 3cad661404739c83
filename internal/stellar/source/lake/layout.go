package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// manifestName is the file that says how a lake is laid out.
const manifestName = ".config.json"

// Layout says how ledgers are spread over files and folders (SEP-54).
type Layout struct {
	LedgersPerFile    uint32 // 1 or more
	FilesPerPartition uint32 // of a folder; 1 or less: no folders
}

// Bounds of a layout. More would not fit the memory of a reader.
const (
	ledgersPerFileMax    = 4096
	filesPerPartitionMax = 1 << 20
)

func (l Layout) check() error {
	if l.LedgersPerFile < 1 || l.LedgersPerFile > ledgersPerFileMax {
		return fmt.Errorf("files of %d ledgers: must be 1 to %d", l.LedgersPerFile, ledgersPerFileMax)
	}
	if l.FilesPerPartition > filesPerPartitionMax {
		return fmt.Errorf("folders of %d files: must be at most %d", l.FilesPerPartition,
			filesPerPartitionMax)
	}
	return nil
}

// rangeOf are the ledgers of the file that holds this one.
func (l Layout) rangeOf(sequence uint32) (first, last uint32) {
	first = sequence - sequence%l.LedgersPerFile
	return first, l.end(first, l.LedgersPerFile)
}

func (l Layout) end(first, count uint32) uint32 {
	return uint32(min(uint64(first)+uint64(count)-1, math.MaxUint32))
}

// Key names the file that holds a ledger. Names begin with the complement of the
// first sequence, so that a list of them begins with the newest.
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

// formerSuffix follows a key in lakes of an earlier Galexie, whose files end in .zstd.
const formerSuffix = "d"

var keyForm = regexp.MustCompile(`(?:^|/)([0-9A-F]{8})--(\d+)(?:-(\d+))?\.xdr\.zstd?$`)

// parseKey reads the last ledger of a file from its name, whose three numbers must agree.
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

// manifest is the lake's description of itself.
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

var errNoManifest = errors.New("there is no " + manifestName +
	", which says how the lake is laid out: export it with a Galexie that writes one")

func parseManifest(raw []byte) (m manifest, err error) {
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("%s is not what it should be: %w", manifestName, err)
	}
	if m.Compression != "" && m.Compression != compressionZstd {
		return m, fmt.Errorf("%s says that files are compressed by %q: only zstd is known", manifestName,
			m.Compression)
	}
	if err := m.layout().check(); err != nil {
		return m, fmt.Errorf("%s says %w", manifestName, err)
	}
	return m, nil
}

func (m manifest) layout() Layout {
	return Layout{LedgersPerFile: m.LedgersPerFile, FilesPerPartition: m.FilesPerPartition}
}
