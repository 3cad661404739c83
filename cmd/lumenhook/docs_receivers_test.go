//go:build receivers

package main

import (
	"os"
	"path"
	"path/filepath"
	"testing"
)

// TestReceiverKitsPagesAreFollowed follows the quick start of each language as written, in a folder
// that contains the repository's examples.
func TestReceiverKitsPagesAreFollowed(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), ".lumenhook")
	s := &testService{t: t, dir: dir}
	s.start("--no-demo", "--ledger-interval", "300ms")
	defer s.interrupt()
	followed := 0
	for _, p := range allPages(t) {
		if !needsToolchain(p.Path) {
			continue
		}
		followed++
		t.Run(path.Base(p.Path), func(t *testing.T) {
			home := t.TempDir()
			if err := os.Symlink(examples, filepath.Join(home, "examples")); err != nil {
				t.Fatal(err)
			}
			followPage(t, home, s.dir, p)
		})
	}
	if followed < 3 {
		t.Errorf("only %d pages were followed", followed)
	}
}
