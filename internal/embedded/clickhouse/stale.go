package clickhouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"
)

const (
	staleTermMax = childStopMax + time.Second // longer than the child's own limit
	staleKillMax = 10 * time.Second
	stalePoll    = 20 * time.Millisecond
)

// childRecord identifies the running child in the data folder, in case the parent dies.
type childRecord struct {
	PID      int    `json:"pid"`
	Identity string `json:"identity"` // see processIdentity
}

func writeChildRecord(f folder, pid int) error {
	b, err := json.Marshal(childRecord{PID: pid, Identity: processIdentity(pid)})
	if err != nil {
		return err
	}
	if err := writeFileAtomic(f.record(), b, 0o600); err != nil {
		return fmt.Errorf("recording the ClickHouse engine's process: %w", err)
	}
	return nil
}

// endStaleChild ends the child of an earlier parent and waits for it, because it still holds the
// ports and the data. It doesn't touch a process that merely has the same id. The caller must hold
// the data folder's lock.
func endStaleChild(f folder, log *slog.Logger) error {
	b, err := os.ReadFile(f.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the record of an earlier ClickHouse engine: %w", err)
	}
	var r childRecord
	if err := json.Unmarshal(b, &r); err != nil || r.PID <= 1 || r.Identity == "" {
		// Our records are written by renaming, so this one isn't ours and identifies no process.
		return os.Remove(f.record())
	}
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGTERM, staleTermMax}, {syscall.SIGKILL, staleKillMax}} {
		if processIdentity(r.PID) != r.Identity {
			return os.Remove(f.record())
		}
		log.Warn("ending a ClickHouse engine that an earlier run left behind", "pid", r.PID, "signal",
			step.signal.String())
		if err := syscall.Kill(r.PID, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf(
				"ending the ClickHouse engine that an earlier run left behind (process %d): %w",
				r.PID, err)
		}
		awaitEnd(r, step.wait)
	}
	if processIdentity(r.PID) == r.Identity {
		return fmt.Errorf("the ClickHouse engine that an earlier run left behind (process %d) does not "+
			"end; end it by hand", r.PID)
	}
	return os.Remove(f.record())
}

// awaitEnd polls, because a process can only wait for its own children.
func awaitEnd(r childRecord, atMost time.Duration) {
	deadline := time.NewTimer(atMost)
	defer deadline.Stop()
	tick := time.NewTicker(stalePoll)
	defer tick.Stop()
	for processIdentity(r.PID) == r.Identity {
		select {
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}
