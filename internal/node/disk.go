package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

const lookEvery = time.Second

// LeastFreeBytes is the free space that the data folder's disk needs. With less, the process
// accepts no new work.
const LeastFreeBytes = 256 << 20

// DiskGuard monitors the free space of the data folder's disk. If there is too little, it stops new
// work: no command is accepted, and no ledger is closed or read. Work in progress is finished,
// because half-written work would be worse than delayed work.
type DiskGuard struct {
	leastBytes uint64
	free       func() (uint64, error)
	say        func(format string, args ...any)
	logger     *slog.Logger

	mu    sync.Mutex
	err   error         // why there is no new work; nil if there is space
	again chan struct{} // closed when there is space again
}

// NewDiskGuard returns a guard for a folder's disk after one check. Run continues checking. say
// prints to the terminal.
func NewDiskGuard(
	dir string, leastBytes uint64, say func(string, ...any), l *slog.Logger,
) *DiskGuard {
	g := &DiskGuard{
		leastBytes: leastBytes,
		say:        say,
		logger:     l,
		free:       func() (uint64, error) { return FreeBytes(dir) },
	}
	g.look()
	return g
}

// FreeBytes returns the free space of a folder's disk for unprivileged users.
func FreeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("reading the free space of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

func (g *DiskGuard) look() {
	free, err := g.free()
	if err == nil && free < g.leastBytes {
		err = fmt.Errorf("the data folder's disk has %d MiB free but needs %d; free up space",
			free>>20, g.leastBytes>>20)
	}
	g.mu.Lock()
	before := g.err
	g.err = err
	switch {
	case err != nil && before == nil:
		g.again = make(chan struct{})
	case err == nil && before != nil:
		close(g.again)
	}
	g.mu.Unlock()
	switch {
	case err != nil && before == nil:
		g.say("DISK FULL  %v; until then no new work is accepted", err)
		g.logger.Error("accepting no new work", "err", err)
	case err == nil && before != nil:
		g.say("disk space available again: %d MiB free, resuming work", free>>20)
	}
}

// Run checks periodically until ctx is done.
func (g *DiskGuard) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.look()
		}
	}
}

// Check returns an error while there is too little space.
func (g *DiskGuard) Check() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

func (g *DiskGuard) await(ctx context.Context) {
	g.mu.Lock()
	err, again := g.err, g.again
	g.mu.Unlock()
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-again:
	}
}

// guardedSource delays ledgers while there is too little space to append their payments.
type guardedSource struct {
	follower.Source
	disk *DiskGuard
}

func (s guardedSource) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	s.disk.await(ctx)
	return s.Source.Next(ctx, sequence)
}
