package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

var quotedFile = regexp.MustCompile("(?ms)^\\w+: \\[(examples/[^]]+)\\]\\(\\.\\./(.*?)\\)\n\n```\\w+\n(.*?)^```$")

// TestDocumentsQuoteTheFilesThatAreTested: the receivers that a document shows are the files
// that make test-signatures runs.
func TestDocumentsQuoteTheFilesThatAreTested(t *testing.T) {
	page, err := os.ReadFile("../../docs/receiving.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := quotedFile.FindAllStringSubmatch(string(page), -1)
	if len(quoted) != 5 {
		t.Fatalf("%d files are quoted, and there are receivers in five languages", len(quoted))
	}
	for _, q := range quoted {
		code, err := os.ReadFile(filepath.Join("..", "..", q[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if q[1] != q[2] || q[3] != string(code) {
			t.Errorf("docs/receiving.md quotes %s otherwise than it is: copy the file into it", q[1])
		}
	}
}
