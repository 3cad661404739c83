package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ProcessorTime returns the processor time that all threads of this process have used so far.
// Unlike wall-clock time, it doesn't include the work of other processes on a busy machine.
func ProcessorTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// HeapBytes returns the size of the live heap.
func HeapBytes() float64 {
	runtime.GC()
	runtime.GC() // collect what finalizers released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// FolderBytes returns the total size of the files in a folder and below.
func FolderBytes(t testing.TB, dir string) (sum float64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// ProcessorTimeOf returns the processor time that all threads of another process have used so far,
// or 0 if the process has ended.
func ProcessorTimeOf(t testing.TB, pid int) time.Duration {
	t.Helper()
	const ticksASecond = 100 // USER_HZ on every Linux architecture that Go supports
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return 0
	}
	// The name of the program, in parentheses, may contain any character.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	var user, system int64
	if err == nil && len(fields) > 12 {
		_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	}
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * time.Second / ticksASecond
}
