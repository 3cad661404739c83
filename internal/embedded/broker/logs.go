package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// kfake appends what it knows of groups and of producers to two logs. What a power cut left of an
// entry, kfake skips when it reads the log, and then appends behind it: at the start after that
// it would skip all that came since. So the logs are cut to their whole entries before kfake reads
// them.
//
// An entry is the length of what follows its sum, the CRC-32C of that (both little-endian), a
// version of two bytes, and data.
const (
	logHeaderBytes  = 8
	logVersionBytes = 2
)

// healLogs cuts both logs to their whole entries.
func healLogs(dir string) error {
	for _, name := range []string{"groups.log", "pids.log"} {
		path := filepath.Join(dir, name)
		if err := healLog(path); err != nil {
			return fmt.Errorf("the log %s: %w", path, err)
		}
	}
	return nil
}

func healLog(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if whole := wholeEntries(content); whole < len(content) {
		return os.Truncate(path, int64(whole))
	}
	return nil
}

// wholeEntries returns how many bytes the entries before the first broken one take.
func wholeEntries(log []byte) (bytes int) {
	for rest := log; len(rest) >= logHeaderBytes; rest = log[bytes:] {
		length := uint64(binary.LittleEndian.Uint32(rest))
		end := logHeaderBytes + length
		if length < logVersionBytes || end > uint64(len(rest)) {
			break
		}
		sum := crc32.Checksum(rest[logHeaderBytes:end], castagnoli)
		if sum != binary.LittleEndian.Uint32(rest[4:]) {
			break
		}
		bytes += int(end)
	}
	return bytes
}
