package subprocess

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrLocked is returned if another process has locked the file.
var ErrLocked = errors.New("another process has locked it")

const lockInterval = 100 * time.Millisecond

// TryLock opens a file, creating it if necessary, and locks it until the file is closed or the
// process exits. It returns ErrLocked if another process has locked the file.
func TryLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return lock(f, syscall.LOCK_EX)
}

// TrySharedLock is like TryLock, but for a file that exists and that others may lock in the same
// way. It only needs read access.
func TrySharedLock(path string) (*os.File, error) {
	f, err := os.Open(path) // #nosec G304 -- the caller's
	if err != nil {
		return nil, err
	}
	return lock(f, syscall.LOCK_SH)
}

func lock(f *os.File, how int) (*os.File, error) {
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) // #nosec G115 -- a descriptor
	if err == nil {
		return f, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, errors.Join(err, f.Close())
}

// Lock is like TryLock but waits until the file is unlocked or ctx ends.
func Lock(ctx context.Context, path string) (*os.File, error) {
	tick := time.NewTicker(lockInterval)
	defer tick.Stop()
	for {
		f, err := TryLock(path)
		if !errors.Is(err, ErrLocked) {
			return f, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
