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

// CONTRIBUTING.md must list exactly the files that leave tests out of go test -short or out of make
// test.
func TestWhatARunLeavesOutIsListed(t *testing.T) {
	wantListed(t, `testkit\.Long\(|testing\.Short\(`, "What the short run leaves out")
	wantListed(t, `testkit\.(Nightly|Rounds)\(`, "What only the nightly run has")
}

func wantListed(t *testing.T, pattern, heading string) {
	t.Helper()
	root := filepath.Join("..", "..")
	grep := exec.CommandContext(t.Context(), "git", "grep", "-lE", pattern, "--", "*.go",
		":!internal/arch", ":!internal/testkit")
	grep.Dir = root
	out, err := grep.Output()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "## "+heading+"\n")
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

func TestTheSampleForKafkaExists(t *testing.T) {
	root := filepath.Join("..", "..")
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile(`(?m)^KAFKA_SAMPLE := \^Test\((.+)\)\$\$$`).FindSubmatch(makefile)
	if sample == nil {
		t.Fatal("the Makefile has no KAFKA_SAMPLE")
	}
	for name := range strings.SplitSeq(string(sample[1]), "|") {
		grep := exec.CommandContext(t.Context(), "git", "grep", "-qE", "^func Test"+name+`\(`, "--",
			"projections/*_test.go")
		grep.Dir = root
		if err := grep.Run(); err != nil {
			t.Errorf("projections has no Test%s", name)
		}
	}
}
