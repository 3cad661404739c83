package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/internal/node"
)

const (
	syncs = 5 // number of writes measured
	// slowSync is the duration above which a disk delays turns.
	slowSync = 50 * time.Millisecond
	// leastInodes is the minimum of free inodes.
	leastInodes = 10_000
	// leastMemory is the memory of an idle process with all roles, plus a margin.
	leastMemory = 512 << 20
)

func (cfg *Config) disk(ctx context.Context, f *findings) {
	at, err := nearest(cfg.DataDir)
	if err != nil {
		f.failed(err, "use another --data-dir, or give the service's user access to it")
		return
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(at, &stat); err != nil {
		f.failed(fmt.Errorf("reading the free space of %s: %w", at, err), "use another --data-dir")
		return
	}
	free := stat.Bavail * uint64(stat.Bsize) // #nosec G115 -- a size
	kind := kindOf(uint32(stat.Type))        // #nosec G115 -- a number of 32 bits
	said := fmt.Sprintf("%s is on %s with %s free", at, kind.name, bytes(free))
	switch {
	case free < cfg.LeastFree:
		f.add(Problem, "free up space: until then the service accepts no new work", "%s, but %s are "+
			"needed", said,
			bytes(cfg.LeastFree))
	case free < 2*cfg.LeastFree:
		f.add(Warning, "free up space: below "+bytes(cfg.LeastFree)+" the service accepts no new "+
			"work", "%s", said)
	default:
		f.ok("%s", said)
	}
	if kind.why != "" {
		f.add(Warning, "put the data folder on a disk of this machine", "%s is %s: %s", at, kind.name,
			kind.why)
	}
	if stat.Files > 0 && stat.Ffree < leastInodes {
		f.add(Problem, "delete files, or use a disk with more inodes", "%s has %d inodes left", at,
			stat.Ffree)
	}
	cfg.sync(ctx, at, f)
}

// nearest returns the folder, or its nearest existing parent.
func nearest(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is not a folder", at)
		case err == nil:
			return at, nil
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return "", err
		}
		at = filepath.Dir(at)
	}
}

func (cfg *Config) sync(ctx context.Context, dir string, f *findings) {
	took, err := measureSync(ctx, dir)
	if err != nil {
		f.failed(fmt.Errorf("writing to %s: %w", dir, err),
			"give the service's user write permission, or use another --data-dir")
		return
	}
	said := fmt.Sprintf("a write reaches the disk in %s (median of %d)",
		took.Round(10*time.Microsecond), syncs)
	if took > slowSync {
		f.add(Warning, "use a faster disk, or find out what keeps it busy", "%s, so starts and "+
			"snapshots are slow", said)
		return
	}
	f.ok("%s", said)
}

func measureSync(ctx context.Context, dir string) (middle time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".lumenhook-doctor-*")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 4<<10)
	var took []time.Duration
	for range syncs {
		begin := time.Now()
		if _, err := file.Write(block); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

type kind struct{ name, why string }

// kinds maps the numbers of statfs(2) to file systems.
var kinds = map[uint32]kind{
	0xef53:     {name: "ext4"},
	0x58465342: {name: "xfs"},
	0x9123683e: {name: "btrfs"},
	0x2fc12fc1: {name: "zfs"},
	0x794c7630: {name: "overlayfs", why: "its content is lost with the container"},
	0x01021994: {name: "tmpfs", why: "its content is lost when the machine restarts"},
	0x6969:     {name: "NFS", why: "its locks and syncs are not reliable"},
	0xff534d42: {name: "CIFS", why: "its locks and syncs are not reliable"},
	0x65735546: {name: "FUSE", why: "its syncs may not reach a disk"},
	0x01021997: {name: "9p", why: "its syncs may not reach a disk"},
}

func kindOf(number uint32) kind {
	if k, known := kinds[number]; known {
		return k
	}
	return kind{name: fmt.Sprintf("a file system of kind %#x", number)}
}

func (cfg *Config) limits(_ context.Context, f *findings) {
	files, err := fileLimit(cfg.PID)
	if err != nil {
		f.unknown(fmt.Errorf("reading the limit of open files: %w", err), "check `ulimit -n`")
		return
	}
	whose := "the service"
	if cfg.PID == 0 {
		whose = "a process started here"
	}
	// At startup, the program raises its soft limit to the hard limit.
	if files < cfg.LeastFiles {
		f.add(Warning, fmt.Sprintf("increase it to %d or more with `ulimit -n`, LimitNOFILE= (systemd) "+
			"or nofile (containers)", cfg.LeastFiles),
			"%s can open %d files and connections; concurrent attempts may need more", whose, files)
	} else {
		f.ok("%s can open %d files and connections", whose, files)
	}
	limit, what := memoryLimit()
	switch {
	case limit == 0:
		f.ok("its memory is not limited")
	case limit < leastMemory:
		f.add(Warning, "increase it to "+bytes(leastMemory)+" or more", "%s limits its memory to "+
			"%s", what, bytes(uint64(limit))) // #nosec G115 -- not negative
	default:
		f.ok("%s limits its memory to %s", what, bytes(uint64(limit))) // #nosec G115 -- not negative
	}
}

// fileLimit returns how many files the service's process can open.
func fileLimit(pid int) (hard uint64, err error) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid)) // only on Linux, and not of process 0
	_, line, found := strings.Cut(string(text), "Max open files")
	if n, _ := fmt.Sscan(line, new(string), &hard); found && n == 2 {
		return hard, nil
	}
	var own unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_NOFILE, &own)
	return own.Max, err
}

// memoryLimit returns the lowest memory limit and its name. 0 means no limit.
func memoryLimit() (limit int64, what string) {
	limit, what = node.GroupMemory(), "its control group"
	const unlimited = 1 << 62
	soft := debug.SetMemoryLimit(-1) // a negative value only reads the limit
	if soft < unlimited && (limit == 0 || soft < limit) {
		return soft, "GOMEMLIMIT"
	}
	return limit, what
}
