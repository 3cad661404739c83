package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSecurityPageNamesRealTests checks that each test named in SECURITY.md exists. A name belongs
// to the last package that its line names before it, or else to the package of its section.
// "egress" is short for internal/egress.
func TestSecurityPageNamesRealTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	isTest := regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
	section, named := "", 0
	for line := range strings.Lines(string(page)) {
		folder := section
		if strings.HasPrefix(line, "#") {
			section, folder = "", ""
		}
		for _, match := range quoted.FindAllStringSubmatch(line, -1) {
			word := match[1]
			switch {
			case word == "egress":
				folder = "internal/egress"
			case isTest.MatchString(word):
				named++
				if folder == "" || !hasFunction(t, filepath.Join(root, folder), word) {
					t.Errorf("SECURITY.md names %s in %q, which has no such test", word, folder)
				}
			case isFolder(filepath.Join(root, word)):
				folder = word
				if strings.HasPrefix(line, "#") {
					section = word
				}
			}
		}
	}
	if named < 100 {
		t.Errorf("only %d tests were found on the page: is it still read rightly?", named)
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func hasFunction(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
