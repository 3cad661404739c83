package arch

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	citedPage      = regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	citedGuarantee = regexp.MustCompile(`\bG[1-9]\b`)
	// citedSection may be followed by the number of an item in a list of the section.
	citedSection = regexp.MustCompile(`[Ss]pecification, "([^"]+)"(, \d+)?`)
	commentLine  = regexp.MustCompile(`\n\s*// ?`) // where a comment continues
	citedTest    = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z]\\w+)`")
	citedFile    = regexp.MustCompile("`((?:[a-z]\\w*/)+[a-z_]+\\.(?:go|md))`")
	link         = regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)

	heading   = regexp.MustCompile(`(?m)^##+ (.+)$`)
	listItem  = regexp.MustCompile(`(?m)^(\d+)\. `)
	guarantee = regexp.MustCompile(`(?m)^\*\*(G[0-9])\. `)
	testFunc  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
)

// house contains everything that can be cited.
type house struct {
	root                        string
	tests, sections, guarantees map[string]bool
	texts                       map[string]string // Go files and pages, by their path
}

// TestWhatIsCitedExists checks that the pages, sections of the specification, guarantees, tests and
// files that code and pages name exist.
func TestWhatIsCitedExists(t *testing.T) {
	h := readHouse(t)
	if len(h.sections) == 0 || len(h.guarantees) != 8 {
		t.Fatalf("%d sections and %d guarantees were read", len(h.sections), len(h.guarantees))
	}
	cited := 0
	for _, path := range slices.Sorted(maps.Keys(h.texts)) {
		missing, n := h.missing(path)
		for _, what := range missing {
			t.Errorf("%s names %s, which there is not", path, what)
		}
		cited += n
	}
	if cited < 500 {
		t.Errorf("only %d citations were found: are they still read rightly?", cited)
	}
}

func TestAWrongCitationIsNamed(t *testing.T) {
	h := house{root: filepath.Join("..", ".."), texts: map[string]string{
		"docs/page.md": "see [it](nowhere.md), `TestNothing` and `domain/nothing.go`",
		"a.go": "// as docs/nowhere.md says (G9;\n" +
			"// specification,\n// \"Nothing\" and the specification, \"Signature\n// of\", 9)",
	}}
	var all []string
	for _, path := range []string{"docs/page.md", "a.go"} {
		missing, _ := h.missing(path)
		all = append(all, missing...)
	}
	want := []string{"TestNothing", "domain/nothing.go", "nowhere.md",
		"docs/nowhere.md", `section "Nothing" of the specification`,
		`section "Signature of", 9 of the specification`, "G9"}
	if !slices.Equal(all, want) {
		t.Errorf("missing are %q, not %q", all, want)
	}
}

// missing returns the citations in a file that lead nowhere, and the number of all its citations.
func (h house) missing(path string) (what []string, cited int) {
	text := commentLine.ReplaceAllString(h.texts[path], " ")
	each := func(re *regexp.Regexp, group int, exists func(name string) bool, as func(string) string) {
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			if cited++; !exists(m[group]) {
				what = append(what, as(m[group]))
			}
		}
	}
	asItIs := func(name string) string { return name }
	exists := func(name string) bool { return h.exists(name) }
	if strings.HasSuffix(path, ".md") {
		each(citedTest, 1, func(name string) bool { return h.tests[name] }, asItIs)
		each(citedFile, 1, exists, asItIs)
		each(link, 1, func(to string) bool { return h.exists(filepath.Join(filepath.Dir(path), to)) },
			asItIs)
	}
	each(citedPage, 0, exists, asItIs)
	for _, m := range citedSection.FindAllStringSubmatch(text, -1) {
		if cited++; !h.sections[m[1]+m[2]] {
			what = append(what, `section "`+m[1]+`"`+m[2]+` of the specification`)
		}
	}
	if strings.HasSuffix(path, ".go") {
		each(citedGuarantee, 0, func(name string) bool { return h.guarantees[name] }, asItIs)
	}
	return what, cited
}

func (h house) exists(path string) bool {
	_, err := os.Stat(filepath.Join(h.root, path))
	return err == nil
}

func readHouse(t *testing.T) house {
	t.Helper()
	h := house{
		root:       filepath.Join("..", ".."),
		tests:      make(map[string]bool),
		sections:   make(map[string]bool),
		guarantees: make(map[string]bool),
		texts:      make(map[string]string),
	}
	err := filepath.WalkDir(h.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err = filepath.Rel(h.root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			return leftOut(d.Name(), path)
		}
		return h.read(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	h.readSections(h.texts["docs/specification.md"])
	names(h.guarantees, guarantee, h.texts["docs/architecture.md"])
	return h
}

// readSections records the sections of the specification and the items of their lists.
func (h house) readSections(text string) {
	starts := heading.FindAllStringSubmatchIndex(text, -1)
	for i, at := range starts {
		end := len(text)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		name := text[at[2]:at[3]]
		h.sections[name] = true
		for _, item := range listItem.FindAllStringSubmatch(text[at[0]:end], -1) {
			h.sections[name+", "+item[1]] = true
		}
	}
}

// leftOut skips folders that don't belong to the project.
func leftOut(name, path string) error {
	hidden := path != "." && strings.HasPrefix(name, ".")
	if hidden || name == "node_modules" || name == "build" || name == "testdata" {
		return fs.SkipDir
	}
	return nil
}

func (h house) read(path string) error {
	if ext := filepath.Ext(path); ext != ".go" && ext != ".md" {
		return nil
	}
	text, err := os.ReadFile(filepath.Join(h.root, path))
	if err != nil {
		return err
	}
	if path != ownFile {
		h.texts[path] = string(text)
	}
	if strings.HasSuffix(path, "_test.go") {
		names(h.tests, testFunc, string(text))
	}
	return nil
}

// ownFile contains citations that are wrong on purpose.
const ownFile = "internal/arch/citations_test.go"

func names(into map[string]bool, re *regexp.Regexp, text string) {
	for _, m := range re.FindAllStringSubmatch(text, -1) {
		into[m[1]] = true
	}
}
