package subprocess_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

func TestALockKeepsOthersOutUntilItIsClosed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := subprocess.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := subprocess.TryLock(path); !errors.Is(err, subprocess.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := subprocess.Lock(ended, path); !errors.Is(err, context.Canceled) {
		t.Errorf("a wait that was cancelled: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := subprocess.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	missing := filepath.Join(t.TempDir(), "none", "lock")
	if _, err := subprocess.Lock(t.Context(), missing); err == nil {
		t.Error("a file in a folder that does not exist was locked")
	}
}

func TestASharedLockOnlyKeepsExclusiveOnesOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if _, err := subprocess.TrySharedLock(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that does not exist was locked: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		shared, err := subprocess.TrySharedLock(path)
		if err != nil {
			t.Fatal(err)
		}
		defer shared.Close()
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := subprocess.TryLock(path); !errors.Is(err, subprocess.ErrLocked) {
		t.Errorf("an exclusive lock: %v", err)
	}
}
