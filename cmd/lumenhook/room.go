package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

// lookForRoomEvery is how often the free room is asked for.
const lookForRoomEvery = time.Second

// room watches the free space of the data folder's disk. With less than is
// needed, new work is refused: no command is taken and no ledger is closed or
// read, while what is under way is brought to its end. Work that is half
// written would be worse than work that waits.
type room struct {
	leastBytes uint64
	free       func() (uint64, error)
	out        *printer
	logger     *slog.Logger

	mu    sync.Mutex
	err   error         // why new work is refused; nil while there is room
	again chan struct{} // closed when there is room again
}

// freeBytes is the free space of a folder's disk, as a user may fill it.
func freeBytes(dir string) (uint64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return 0, fmt.Errorf("asking for the free room of %s: %w", dir, err)
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}

// look asks for the free room once and says what changed.
func (r *room) look() {
	free, err := r.free()
	if err == nil && free < r.leastBytes {
		err = fmt.Errorf("the disk of the data folder has %d MiB free and %d are needed: make room", free>>20, r.leastBytes>>20)
	}
	r.mu.Lock()
	before := r.err
	r.err = err
	switch {
	case err != nil && before == nil:
		r.again = make(chan struct{})
	case err == nil && before != nil:
		close(r.again)
	}
	r.mu.Unlock()
	switch {
	case err != nil && before == nil:
		r.out.line("NO ROOM    %v; no new work is taken until then", err)
		r.logger.Error("no new work is taken", "err", err)
	case err == nil && before != nil:
		r.out.line("room again: %d MiB are free, work goes on", free>>20)
	}
}

// Run looks again and again until ctx ends.
func (r *room) Run(ctx context.Context) error {
	tick := time.NewTicker(lookForRoomEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			r.look()
		}
	}
}

// check fails while there is no room.
func (r *room) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// await waits for room.
func (r *room) await(ctx context.Context) {
	r.mu.Lock()
	err, again := r.err, r.again
	r.mu.Unlock()
	if err == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-again:
	}
}

// roomySource gives the follower no ledger while there is no room to tell of it.
type roomySource struct {
	follower.Source
	room *room
}

func (s roomySource) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	s.room.await(ctx)
	return s.Source.Next(ctx, sequence)
}
