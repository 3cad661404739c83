package testkit

import (
	"os"
	"syscall"
	"testing"
)

// WriteProgram writes a script that is run afterwards. No other goroutine starts a process
// meanwhile: a child that is just being made would hold the file open for writing, and who
// runs it would be told that the text file is busy.
func WriteProgram(t testing.TB, path, script string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil { // #nosec G306 -- a program
		t.Fatal(err)
	}
}
