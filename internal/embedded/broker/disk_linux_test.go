package broker

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// Responses that arrive while files are being synced wait for the next round and share it.
func TestAnswersThatWaitTogetherAreSyncedTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	file := filepath.Join(dir, "file")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var syncs, answered atomic.Int32
		release := make(chan struct{})
		d, err := newDisk(dir, func(path string) error {
			if path == file {
				syncs.Add(1)
				<-release
			}
			return nil
		}, func(err error) { t.Error(err) })
		if err != nil {
			t.Fatal(err)
		}
		write := func() {
			if err := os.WriteFile(file, []byte("written"), 0o600); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		answer := func() {
			if err := d.settle(); err != nil {
				t.Error(err)
			}
			answered.Add(1)
		}
		write()
		all.Go(answer)
		synctest.Wait()
		write()
		for range 10 {
			all.Go(answer)
		}
		synctest.Wait()
		if syncs.Load() != 1 || answered.Load() != 0 {
			t.Errorf("%d syncs, %d answers before the first sync has ended", syncs.Load(),
				answered.Load())
		}
		release <- struct{}{}
		synctest.Wait()
		if syncs.Load() != 2 || answered.Load() != 1 {
			t.Errorf("%d syncs, %d answers while the second is under way", syncs.Load(),
				answered.Load())
		}
		release <- struct{}{}
		all.Wait()
		if err := d.settle(); err != nil {
			t.Error(err)
		}
		if syncs.Load() != 2 {
			t.Errorf("%d syncs of what was changed twice", syncs.Load())
		}
		replaced := make(chan struct{})
		all.Go(func() { d.alone(func() { <-replaced }) })
		synctest.Wait()
		write()
		all.Go(answer)
		synctest.Wait()
		if syncs.Load() != 2 || answered.Load() != 11 {
			t.Errorf("%d syncs, %d answers while files are replaced", syncs.Load(), answered.Load())
		}
		close(replaced)
		release <- struct{}{}
		all.Wait()
		if err := d.close(); err != nil {
			t.Error(err)
		}
		if err := d.settle(); err == nil {
			t.Error("answered after the end")
		}
	})
}

// A watcher must report the initial contents and each change, even in folders created later. If
// the kernel's queue overflows, it must report everything that may have changed.
func TestEachChangeIsSeen(t *testing.T) {
	t.Parallel()
	limit, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	queue, err := strconv.Atoi(strings.TrimSpace(string(limit)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path("before"), "a")
	w, err := watchFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	seen := func(when string, want ...string) {
		t.Helper()
		changed, err := w.Changed()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range want {
			if _, ok := changed[p]; !ok {
				t.Errorf("%s: %s is not seen, only %v", when, p, changed)
			}
		}
		if len(want) == 0 && len(changed) > 0 {
			t.Errorf("%s: %v", when, changed)
		}
	}
	seen("at first", dir, path("before"))
	seen("nothing")
	write(path("before"), "b")
	seen("a write", path("before"))
	if err := os.MkdirAll(path("new", "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(path("new", "below", "file"), "a")
	seen("a new folder", dir, path("new"), path("new", "below"), path("new", "below", "file"))
	write(path("new", "below", "file"), "b")
	seen("a write there", path("new", "below", "file"))
	if err := os.Rename(path("before"), path("new", "after")); err != nil {
		t.Fatal(err)
	}
	seen("a rename", dir, path("new"), path("new", "after"))
	if err := os.RemoveAll(path("new", "below")); err != nil {
		t.Fatal(err)
	}
	seen("a removal", path("new"))
	seen("nothing again")
	for range queue { // at least two events each
		write(path("x"), "")
		write(path("y"), "")
	}
	write(path("new", "after"), "c")
	seen("an overflow", dir, path("new"), path("new", "after"), path("x"), path("y"))
	seen("nothing at last")
}

// A folder may be a link to another disk. A link inside the folder would not be followed, so it
// must be rejected.
func TestLinksToAndInAFolder(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	synced := make(map[string]bool)
	open := func() (*disk, error) {
		return newDisk(link, func(path string) error {
			mu.Lock()
			defer mu.Unlock()
			synced[path] = true
			return nil
		}, func(err error) { t.Error(err) })
	}
	d, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(link, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.settle(), d.close()); err != nil {
		t.Error(err)
	}
	if !synced[filepath.Join(dir, "file")] {
		t.Errorf("synced: %v", synced)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "partitions")); err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("watched beyond a link: %v", err)
	}
}

// After a failed sync, no more responses may be sent, because the kernel reports a failure only
// once.
func TestNothingIsAnsweredAfterAFailedSync(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	file := filepath.Join(dir, "file")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	var reported []error
	fail := true
	d, err := newDisk(dir, func(path string) error {
		if path == file && fail {
			fail = false
			return broken
		}
		return nil
	}, func(err error) { reported = append(reported, err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := d.settle(); !errors.Is(err, broken) {
			t.Errorf("answered: %v", err)
		}
	}
	if err := d.close(); !errors.Is(err, broken) {
		t.Errorf("closed with %v", err)
	}
	if len(reported) != 1 || !errors.Is(reported[0], broken) {
		t.Errorf("reported: %v", reported)
	}
}

// The backup of a compaction must be kept until the restored files are on disk.
func TestACopyStaysUntilItIsBroughtBack(t *testing.T) {
	dir := t.TempDir()
	kept, there := filepath.Join(dir, beforeCompaction, "facts-0"), filepath.Join(dir, "partitions")
	err := errors.Join(os.MkdirAll(kept, 0o700), os.MkdirAll(there, 0o700),
		os.WriteFile(filepath.Join(kept, "0.dat"), []byte("kept"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	for _, path := range []string{filepath.Join(there, "facts-0"), there} {
		err := healCompaction(dir, func(synced string) error {
			if synced == path {
				return broken
			}
			return nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := os.Stat(filepath.Join(kept, "0.dat")); err != nil {
			t.Fatalf("the copy has gone before %s was on the disk", path)
		}
	}
	if err := healCompaction(dir, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(there, "facts-0", "0.dat"))
	if err != nil || string(content) != "kept" {
		t.Errorf("brought back: %q (%v)", content, err)
	}
	if _, err := os.Stat(filepath.Join(dir, beforeCompaction)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is still there: %v", err)
	}
}
