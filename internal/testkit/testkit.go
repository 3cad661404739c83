package testkit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// unbounded is how long a test waits if the test run has no deadline (-timeout 0).
const unbounded = 10 * time.Minute

var errNotYet = errors.New("condition is false")

// Eventually waits until holds returns true, and fails the test if it never does.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	EventuallyNil(t, what, func() error {
		if holds() {
			return nil
		}
		return errNotYet
	})
}

// EventuallyNil is like Eventually, but holds returns an error that explains why the condition is
// not met.
func EventuallyNil(t testing.TB, what string, holds func() error) {
	t.Helper()
	policy := retry.Policy{
		First:  time.Millisecond,
		Last:   50 * time.Millisecond,
		Within: Patience(t),
		If:     func(error) bool { return true },
	}
	if err := retry.Do(context.WithoutCancel(t.Context()), policy, holds); err != nil {
		t.Fatalf("never came true: %s: %v", what, err)
	}
}

// Patience returns how long a test waits for a condition.
func Patience(t testing.TB) time.Duration {
	if run, ok := t.(interface{ Deadline() (time.Time, bool) }); ok {
		if deadline, ok := run.Deadline(); ok {
			return time.Until(deadline) / 2
		}
	}
	return unbounded
}

// Buffer is a log buffer that is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

// String returns everything written since the last Reset.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Reset empties the buffer.
func (b *Buffer) Reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}

// WriteProgram writes an executable script. It prevents other goroutines from starting processes in
// the meantime. Otherwise a child could inherit the file while it is open for writing, and running
// the script would fail with "text file busy".
func WriteProgram(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
}

// Long skips a test in short runs (go test -short, make check). CONTRIBUTING.md lists the skipped
// tests and the reasons. make test runs all of them.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("left out of the short run; make test runs it") //nolint:forbidigo // see above
	}
}

// Nightly skips a test unless the build has the tag nightly (make nightly). CONTRIBUTING.md lists
// the tests that only run at night. They take long, and another test of each run shows the same in
// less time or on fewer parts.
func Nightly(t testing.TB) {
	t.Helper()
	if !IsNightly {
		t.Skip("left to the nightly run") //nolint:forbidigo // see above
	}
}

// Rounds returns how often a test repeats something: a few times, or more often in the nightly run.
func Rounds(few, nightly int) int {
	if IsNightly {
		return nightly
	}
	return few
}
