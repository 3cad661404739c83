package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// afterAList matches an indented line with text right below it. roff would join the two.
var afterAList = regexp.MustCompile(`(?m)^ .*\n[^ .\n].*`)

// Each command must have a page with its first example and its paragraphs. Written again, the pages
// must be the same.
func TestEachCommandHasAManPage(t *testing.T) {
	commands := make(map[string]*cobra.Command)
	collect(newRoot(), commands)
	dir, again := t.TempDir(), t.TempDir()
	for _, to := range []string{dir, again} {
		if err := writeManPages(newRoot(), to); err != nil {
			t.Fatal(err)
		}
	}
	// roff writes some hyphens as \-, and others unescaped.
	words := strings.NewReplacer("-", "", `\`, "")
	for name, c := range commands {
		file := "lumenhook-" + strings.ReplaceAll(name, " ", "-") + ".1"
		page, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Error(err)
			continue
		}
		same, err := os.ReadFile(filepath.Join(again, file))
		if err != nil || string(same) != string(page) {
			t.Errorf("%s is another when it is written again: %v", file, err)
		}
		purpose, _, _ := strings.Cut(strings.TrimPrefix(c.Example, "  # "), "\n")
		if !strings.Contains(words.Replace(string(page)), words.Replace(purpose)) {
			t.Errorf("%s lacks the example %q", file, purpose)
		}
		if joined := afterAList.Find(page); joined != nil {
			t.Errorf("%s has text in a line with the list before it:\n%s", file, joined)
		}
	}
}
