package standalone

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

var untold = transfer.Telling{Step: func(string) {}, Progress: func(int64, int64) {}}

// fills creates files with the given sizes in a folder.
func fills(t *testing.T, dir string, files map[string]int64) {
	t.Helper()
	for name, size := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		err := os.WriteFile(path, nil, 0o600)
		if err == nil {
			err = os.Truncate(path, size)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func stoppedFolder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	fills(t, dir, map[string]int64{
		"broker/p/0.dat": 10, "devnet/chain.db": 10, "secrets/api-key": 3, "network": 1,
	})
	return dir
}

func backsUp(ctx context.Context, dir, to string, tell transfer.Telling) error {
	_, err := WriteBackup(ctx, dir, to, "v", slog.New(slog.DiscardHandler), tell)
	return err
}

func isEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) > 0 {
		t.Errorf("%s has %v (%v), and should be empty", dir, entries, err)
	}
}

// A backup that doesn't fit must write nothing, so that the service keeps its space.
func TestABackupNeedsSpace(t *testing.T) {
	dir, to := stoppedFolder(t), filepath.Join(t.TempDir(), "backup")
	huge := map[string]int64{"broker/p/1.dat": 1 << 42} // sparse, so it takes no space
	fills(t, dir, huge)
	err := backsUp(t.Context(), dir, to, untold)
	if err == nil || !strings.Contains(err.Error(), "must stay free: delete older backups") {
		t.Errorf("a backup that does not fit: %v", err)
	}
	isEmpty(t, to)
}

// A failed backup must remove what it wrote, and must be repeatable with the same folder.
func TestAFailedBackupLeavesNothing(t *testing.T) {
	dir, to := stoppedFolder(t), filepath.Join(t.TempDir(), "backup")
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	tell := untold
	tell.Progress = func(int64, int64) { cancel(interrupted) } // after the first file
	if err := backsUp(ctx, dir, to, tell); !errors.Is(err, interrupted) {
		t.Errorf("an interrupted backup: %v", err)
	}
	isEmpty(t, to)
	if err := backsUp(t.Context(), dir, to, untold); err != nil {
		t.Error(err)
	}
	if err := backsUp(t.Context(), dir, to, untold); err == nil || !IsBackup(to) {
		t.Errorf("a folder that has a backup was used for another: %v", err)
	}
}

// A restore that was interrupted between its last steps must be repeatable.
func TestAnInterruptedRestoreIsRepeated(t *testing.T) {
	to, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "new")
	if err := backsUp(t.Context(), stoppedFolder(t), to, untold); err != nil {
		t.Fatal(err)
	}
	fills(t, dir, map[string]int64{
		"secrets/api-key": 3, "devnet/chain.db": 5, "devnet/other": 1, "restoring/broker/p/0.dat": 10,
	})
	if _, err := RestoreBackup(t.Context(), to, dir, untold); err != nil {
		t.Fatal(err)
	}
	about, err := os.Stat(filepath.Join(dir, "devnet", "chain.db"))
	if err != nil || about.Size() != 10 {
		t.Errorf("the file is not the backup's: %v", err)
	}
	for _, name := range []string{"devnet/other", "restoring", "broker/devnet"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left (%v)", name, err)
		}
	}
}

// After a failed restore, the folder must not be used as that of a new deployment. The restore has
// to be repeated first.
func TestAFailedRestoreIsNotStarted(t *testing.T) {
	to, dir := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "new")
	if err := backsUp(t.Context(), stoppedFolder(t), to, untold); err != nil {
		t.Fatal(err)
	}
	fills(t, dir, map[string]int64{"secrets/api-key": 3})
	lost, hidden := filepath.Join(to, "broker/p/0.dat"), filepath.Join(to, "hidden")
	if err := os.Rename(lost, hidden); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(t.Context(), to, dir, untold); err == nil {
		t.Fatal("an incomplete backup was restored")
	}
	starts := func() error {
		folder, err := runfile.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer folder.Close()
		return checkRestored(folder)
	}
	err := starts()
	if err == nil || !strings.Contains(err.Error(), "repeat `lumenhook restore`") {
		t.Errorf("a start after a failed restore: %v", err)
	}
	if err := os.Rename(hidden, lost); err != nil {
		t.Fatal(err)
	}
	if _, err := RestoreBackup(t.Context(), to, dir, untold); err != nil {
		t.Fatal(err)
	}
	fills(t, dir, map[string]int64{"restoring/broker/left": 0}) // left by a kill after the last step
	if err := starts(); err != nil {
		t.Error(err)
	}
}

// A backup must not copy the snapshot of a backup that was killed.
func TestABackupHasNoSnapshots(t *testing.T) {
	dir, to := stoppedFolder(t), filepath.Join(t.TempDir(), "backup")
	fills(t, dir, map[string]int64{"broker/snapshot-1/p/0.dat": 10})
	if err := backsUp(t.Context(), dir, to, untold); err != nil {
		t.Fatal(err)
	}
	b, err := readBackup(to)
	if err != nil || len(b.Files) != 3 {
		t.Errorf("the backup has %v (%v), and should have three files", b.Files, err)
	}
}

// A backup of a stopped folder must change nothing there, because the folder may be read-only.
func TestABackupOnlyReads(t *testing.T) {
	dir, to := stoppedFolder(t), filepath.Join(t.TempDir(), "backup")
	fills(t, dir, map[string]int64{"lock": 0})
	before := time.Now().Add(-time.Hour)
	each := func(do func(path string) error) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, do(path))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	each(func(path string) error { return os.Chtimes(path, before, before) })
	if err := backsUp(t.Context(), dir, to, untold); err != nil {
		t.Fatal(err)
	}
	each(func(path string) error {
		about, err := os.Stat(path)
		if err == nil && about.ModTime().After(before.Add(time.Minute)) {
			t.Errorf("the backup wrote %s", path)
		}
		return err
	})
}
