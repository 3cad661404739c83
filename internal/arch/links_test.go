package arch

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// listOfPages is the site's navigation, which lists every page under docs.
const listOfPages = "docs/README.md"

// TestLinksLeadToAnchors checks that every link to a heading leads to an existing one, and that
// docs/README.md lists every page under docs by its title. TestWhatIsCitedExists checks that files
// exist.
func TestLinksLeadToAnchors(t *testing.T) {
	var all []pages.Page
	for _, name := range slices.Sorted(maps.Keys(readHouse(t).texts)) {
		if filepath.Ext(name) != ".md" {
			continue
		}
		p, err := pages.Read(filepath.Join("..", ".."), name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 50 {
		t.Errorf("only %d pages were read", len(all))
	}
	for _, fault := range linkFaults(all) {
		t.Error(fault)
	}
}

func TestAWrongLinkIsNamed(t *testing.T) {
	var all []pages.Page
	for name, text := range map[string]string{
		"docs/README.md":           "# Home\n\n- [Not A](A.md)\n- [Decisions](decisions/README.md)\n",
		"docs/A.md":                "# A\n\n## There\n\n[no](README.md#nowhere), [yes](#there)\n",
		"docs/B.md":                "# B\n",
		"docs/decisions/README.md": "# Decisions\n\n- [C](C.md)\n",
		"docs/decisions/C.md":      "# C\n",
	} {
		p, err := pages.Parse(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	want := []string{
		`docs/README.md:3: docs/A.md is called "A", not "Not A"`,
		"docs/A.md:5: docs/README.md has no heading #nowhere",
		"docs/README.md does not list docs/B.md",
	}
	if got := linkFaults(all); !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// linkFaults reports links to missing headings, pages under docs that no list contains, and pages
// whose name in the navigation differs from their title.
func linkFaults(all []pages.Page) (faults []string) {
	anchors, listed := make(map[string]bool), make(map[string]bool)
	titles := make(map[string]string)
	for _, p := range all {
		titles[p.Path] = p.Title
		anchors[p.Path+"#"+pages.Anchor(p.Title)] = true
		for _, h := range p.Headings {
			anchors[p.Path+"#"+h.Anchor] = true
		}
	}
	slices.SortFunc(all, func(a, b pages.Page) int { return strings.Compare(b.Path, a.Path) })
	for _, p := range all {
		for _, l := range p.Links {
			to := p.Resolve(l.Target)
			file, anchor, hasAnchor := strings.Cut(to, "#")
			if hasAnchor && filepath.Ext(file) == ".md" && !anchors[to] {
				faults = append(faults,
					fmt.Sprintf("%s:%d: %s has no heading #%s", p.Path, l.Line, file, anchor))
			}
			if title := titles[to]; p.Path == listOfPages && title != "" && l.Text != title {
				faults = append(faults,
					fmt.Sprintf("%s:%d: %s is called %q, not %q", p.Path, l.Line, to, title, l.Text))
			}
			if p.Path == listOfPages || p.Path == "docs/decisions/README.md" {
				listed[file] = true
			}
		}
	}
	for _, p := range all {
		if strings.HasPrefix(p.Path, "docs/") && p.Path != listOfPages && !listed[p.Path] {
			faults = append(faults, listOfPages+" does not list "+p.Path)
		}
	}
	return faults
}
