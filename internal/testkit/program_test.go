package testkit

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Programs that are written and run concurrently are never busy.
func TestProgramsAreWrittenBesideOthers(t *testing.T) {
	dir := t.TempDir()
	var running sync.WaitGroup
	for n := range 8 {
		running.Go(func() {
			for i := range 50 {
				path := filepath.Join(dir, fmt.Sprintf("program-%d-%d", n, i))
				WriteProgram(t, path, "#!/bin/sh\nexit 0\n")
				if err := exec.CommandContext(t.Context(), path).Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}
