package broker

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// kfake appends the state of groups and producers to two logs. When it reads a log, it skips an
// entry that a power cut left incomplete, and later appends after it. The next start would then
// skip everything after that entry. So heal truncates the logs to their complete entries before
// kfake reads them.
//
// An entry consists of the length of the part after the checksum, the CRC-32C of that part (both
// little-endian), a two-byte version, and the data.
const (
	logHeaderBytes  = 8
	logVersionBytes = 2
	logVersion      = 1
)

// From time to time, and when it closes, kfake rewrites a log and renames it into place. With
// Config.Sync, a power cut may leave the new log's name without its contents. So each log has a
// second name (.kept), which a new log gets once it is on disk, before anything is acknowledged
// (disk.keepLogs). If a start finds different files under the two names, it uses the kept one:
// nothing has been acknowledged since the log was replaced.
const (
	groupsLog    = "groups.log"
	producersLog = "pids.log"
	keptSuffix   = ".kept"
)

// healLogs restores the kept logs if necessary, and truncates both logs to their complete entries.
func healLogs(dir string) error {
	for _, name := range []string{groupsLog, producersLog} {
		path := filepath.Join(dir, name)
		if err := errors.Join(bringLogBack(path), healLog(path)); err != nil {
			return fmt.Errorf("the log %s: %w", path, err)
		}
	}
	return nil
}

// bringLogBack renames the kept log into place, unless it is a prefix of the current one, as in a
// copied data folder. It leaves no kept log, since none is needed without Config.Sync. A clean
// close doesn't leave one either.
func bringLogBack(path string) error {
	kept, err := os.ReadFile(path + keptSuffix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	log, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if bytes.HasPrefix(log, kept) {
		return os.Remove(path + keptSuffix)
	}
	return os.Rename(path+keptSuffix, path)
}

func dropKept(dir string) error {
	var all error
	for _, name := range []string{groupsLog, producersLog} {
		err := os.Remove(filepath.Join(dir, name) + keptSuffix)
		if !errors.Is(err, os.ErrNotExist) {
			all = errors.Join(all, err)
		}
	}
	return all
}

// keepLog gives a log its second name, unless it already has it. It syncs the file first, because
// kfake may have renamed another log into place.
func keepLog(path string, sync func(path string) error) (replaced bool, err error) {
	is, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	kept, err := os.Stat(path + keptSuffix)
	if err == nil && os.SameFile(is, kept) {
		return false, nil
	}
	draft := path + keptSuffix + ".draft"
	if err := os.Remove(draft); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := os.Link(path, draft); err != nil {
		return false, err
	}
	if err := sync(draft); err != nil {
		return false, err
	}
	return true, os.Rename(draft, path+keptSuffix)
}

func healLog(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if whole := validPrefix(content); whole < len(content) {
		return os.Truncate(path, int64(whole))
	}
	return nil
}

// eachEntry calls take with the data of each complete entry of a log. A missing log counts as
// empty.
func eachEntry(path string, take func(data []byte)) error {
	rest, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for rest = rest[:validPrefix(rest)]; len(rest) > 0; {
		end := logHeaderBytes + binary.LittleEndian.Uint32(rest)
		take(rest[logHeaderBytes+logVersionBytes : end])
		rest = rest[end:]
	}
	return nil
}

func appendEntries(path string, entries []any) (err error) {
	if len(entries) == 0 {
		return nil
	}
	var raw []byte
	for _, entry := range entries {
		data, err := json.Marshal(entry)
		if err != nil {
			return err
		}
		summed := append(binary.LittleEndian.AppendUint16(nil, logVersion), data...)
		raw = binary.LittleEndian.AppendUint32(raw, uint32(len(summed)))
		raw = binary.LittleEndian.AppendUint32(raw, crc32.Checksum(summed, castagnoli))
		raw = append(raw, summed...)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(raw)
	return errors.Join(err, file.Close())
}

// validPrefix returns the size of the entries before the first broken one.
func validPrefix(log []byte) (bytes int) {
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
