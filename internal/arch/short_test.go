package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatTheShortRunLeavesOutIsListed: CONTRIBUTING.md lists each file that leaves tests out of
// go test -short, and no other.
func TestWhatTheShortRunLeavesOutIsListed(t *testing.T) {
	root := filepath.Join("..", "..")
	grep := exec.CommandContext(t.Context(), "git", "grep", "-lE",
		`testkit\.Long\(|testing\.Short\(`, "--", "*.go", ":!internal/arch", ":!internal/testkit")
	grep.Dir = root
	out, err := grep.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## What the short run leaves out\n")
	section, _, found := strings.Cut(section, "\n## ")
	var listed []string
	for _, item := range regexp.MustCompile("(?m)^- `(.+?)`: ").FindAllStringSubmatch(section, -1) {
		listed = append(listed, item[1])
	}
	slices.Sort(listed)
	if guarded := strings.Fields(string(out)); !found || !slices.Equal(guarded, listed) {
		t.Errorf("these files leave tests out:\n%q\nand CONTRIBUTING.md lists:\n%q", guarded, listed)
	}
}
