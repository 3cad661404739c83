package pages_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/pages"
)

const page = "# Verify `it`\n\n## A heading: with \"marks\", and_more\n\n" +
	"Go: [verify.go](../examples/verify.go)\n\n```go\nfunc a() {}\n```\n\n" +
	"## A heading: with \"marks\", and_more\n\n    lumenhook version\n\n" +
	"[there](#a-heading-with-marks-and_more-1) ![picture](p.svg)\n"

func TestAPageIsRead(t *testing.T) {
	p, err := pages.Parse("docs/Verify.md", []byte(page))
	if err != nil {
		t.Fatal(err)
	}
	if p.Title != "Verify it" || len(p.Headings) != 2 ||
		p.Headings[0].Anchor != "a-heading-with-marks-and_more" ||
		p.Headings[1].Anchor != "a-heading-with-marks-and_more-1" {
		t.Errorf("title %q, headings %+v", p.Title, p.Headings)
	}
	if len(p.Blocks) != 2 {
		t.Fatalf("%d blocks", len(p.Blocks))
	}
	code, shown := p.Blocks[0], p.Blocks[1]
	if code.Language != "go" || code.Code != "func a() {}\n" || code.Line != 8 ||
		!slices.Equal(code.Quoting, []string{"examples/verify.go"}) {
		t.Errorf("%+v", code)
	}
	if shown.Fenced || shown.Code != "lumenhook version\n" ||
		!strings.HasPrefix(shown.Section, "A heading") {
		t.Errorf("%+v", shown)
	}
	if len(p.Links) != 3 || p.Links[2].Target != "p.svg" || p.Resolve(p.Links[1].Target) !=
		"docs/Verify.md#a-heading-with-marks-and_more-1" {
		t.Errorf("%+v", p.Links)
	}
}

func TestAPageMustReadOnAForge(t *testing.T) {
	for text, want := range map[string]string{
		"no title":                 "has no title",
		"# A\n\n<div>a</div>\n":    "docs/A.md:3: HTML",
		"# A\n\nand <b>so</b> on.": "docs/A.md:3: HTML",
	} {
		_, err := pages.Parse("docs/A.md", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
