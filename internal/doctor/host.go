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
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	syncs = 5 // that are measured
	// slowSync is the duration above which a disk delays turns.
	slowSync = 50 * time.Millisecond
	// leastInodes is fewer than any state uses.
	leastInodes = 10_000
	// leastMemory is the memory of an idle process with all roles, with a margin.
	leastMemory = 512 << 20
)

// disk measures the data folder's.
func (cfg *Config) disk(ctx context.Context, f *findings) {
	at, err := nearest(cfg.DataDir)
	if err != nil {
		f.failed(err, "name another --data-dir, or let the user of the service have it")
		return
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(at, &stat); err != nil {
		f.failed(fmt.Errorf("asking for the free space of %s: %w", at, err), "name another --data-dir")
		return
	}
	free := stat.Bavail * uint64(stat.Bsize) // #nosec G115 -- a size
	kind := kindOf(uint32(stat.Type))        // #nosec G115 -- a number of 32 bits
	said := fmt.Sprintf("%s is on %s with %s free", at, kind.name, bytes(free))
	switch {
	case free < cfg.LeastFree:
		f.add(Problem, "make room: no new work is taken until then", "%s, and %s are needed", said,
			bytes(cfg.LeastFree))
	case free < 2*cfg.LeastFree:
		f.add(Warning, "make room: below "+bytes(cfg.LeastFree)+" no new work is taken", "%s", said)
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

// nearest returns the folder, or the nearest that exists where it is going to be.
func nearest(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is no folder", at)
		case err == nil:
			return at, nil
		case !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at):
			return "", err
		}
		at = filepath.Dir(at)
	}
}

// sync writes a file and measures how long it takes until it is on disk.
func (cfg *Config) sync(ctx context.Context, dir string, f *findings) {
	took, err := measureSync(ctx, dir)
	if err != nil {
		f.failed(fmt.Errorf("writing into %s: %w", dir, err),
			"let the user of the service write there, or name another --data-dir")
		return
	}
	said := fmt.Sprintf("a write is on the disk after %s (the middle of %d)",
		took.Round(10*time.Microsecond), syncs)
	if took > slowSync {
		f.add(Warning, "use a faster disk, or see what else keeps it busy", "%s: starts and snapshots "+
			"take long", said)
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

// kind is a file system.
type kind struct{ name, why string }

// kinds are file systems by their numbers (statfs(2)); why not to use one, where there is a why.
var kinds = map[uint32]kind{
	0xef53:     {name: "ext4"},
	0x58465342: {name: "xfs"},
	0x9123683e: {name: "btrfs"},
	0x2fc12fc1: {name: "zfs"},
	0x794c7630: {name: "overlayfs", why: "what a container writes there is gone with it"},
	0x01021994: {name: "tmpfs", why: "what is written there is gone when the machine restarts"},
	0x6969:     {name: "NFS", why: "its locks and syncs are not those of a disk"},
	0xff534d42: {name: "CIFS", why: "its locks and syncs are not those of a disk"},
	0x65735546: {name: "FUSE", why: "its syncs may not reach a disk"},
	0x01021997: {name: "9p", why: "its syncs may not reach a disk"},
}

func kindOf(number uint32) kind {
	if k, known := kinds[number]; known {
		return k
	}
	return kind{name: fmt.Sprintf("a file system of kind %#x", number)}
}

// limits checks the limits of the process.
func (cfg *Config) limits(_ context.Context, f *findings) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		f.unknown(fmt.Errorf("asking for the limit of open files: %w", err), "see `ulimit -n`")
		return
	}
	// The program raises its limit to the hard one when it starts.
	if files.Max < cfg.LeastFiles {
		f.add(Warning, fmt.Sprintf("raise it to %d or more: `ulimit -n`, LimitNOFILE= of systemd, or "+
			"nofile of the container", cfg.LeastFiles),
			"the process may have %d files and connections open: attempts that run at once may need more",
			files.Max)
	} else {
		f.ok("the process may have %d files and connections open", files.Max)
	}
	limit, what := memoryLimit("/sys/fs/cgroup/memory.max")
	switch {
	case limit == 0:
		f.ok("its memory is not limited")
	case limit < leastMemory:
		f.add(Warning, "give it "+bytes(leastMemory)+" or more", "%s limits its memory to %s", what,
			bytes(limit))
	default:
		f.ok("%s limits its memory to %s", what, bytes(limit))
	}
}

// memoryLimit returns the lowest limit of memory that is set; 0: none.
func memoryLimit(cgroup string) (limit uint64, what string) {
	if text, err := os.ReadFile(cgroup); err == nil { // #nosec G304 -- of the kernel
		// "max" is not a number, and not a limit.
		limit, _ = strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		what = "its control group"
	}
	const unlimited = 1 << 62
	soft := uint64(max(0, debug.SetMemoryLimit(-1))) // a negative value only reads it
	if soft < unlimited && (limit == 0 || soft < limit) {
		return soft, "GOMEMLIMIT"
	}
	return limit, what
}
