package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fileMap  = regexp.MustCompile(`(?m)^// (File map:|Files:)`)
	fileName = regexp.MustCompile(`[a-z0-9_*]+\.go`)
	// onSystem is the end of a file name that depends on the operating system.
	onSystem = regexp.MustCompile(`_(linux|darwin|other|unix|none)$`)
)

// A reader who starts at a package's doc.go must find every file of the package there. A name with
// a star, such as process_*.go, stands for several files.
func TestFileMapsNameEveryFile(t *testing.T) {
	maps := 0
	for path, text := range readHouse(t).texts {
		if filepath.Base(path) != "doc.go" || !fileMap.MatchString(text) {
			continue
		}
		maps++
		dir := filepath.Dir(path)
		entries, err := os.ReadDir(filepath.Join("..", "..", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			name, isGo := strings.CutSuffix(e.Name(), ".go")
			if !isGo || name == "doc" || strings.HasSuffix(name, "_test") {
				continue
			}
			if !named(text, name) {
				t.Errorf("the file map of %s does not name %s.go", path, name)
			}
		}
	}
	if maps < 40 {
		t.Errorf("only %d file maps were found: are they still read rightly?", maps)
	}
}

func named(text, name string) bool {
	plain := onSystem.ReplaceAllString(name, "")
	for _, word := range fileName.FindAllString(text, -1) {
		for _, of := range []string{name, plain} {
			if is, err := filepath.Match(word, of+".go"); err == nil && is {
				return true
			}
		}
	}
	return false
}
