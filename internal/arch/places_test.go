package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	placeRow  = regexp.MustCompile("(?m)^\\| [^|]+ \\| `([a-z/]+\\.go)` \\| ([^|]+) \\| [^|]+ \\|$")
	placeName = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)`")
)

func TestThePlacesOfTheGuideAreThere(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "### Where to look\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := placeRow.FindAllStringSubmatch(section, -1)
	if len(rows) < 6 {
		t.Fatalf("%d places were read", len(rows))
	}
	for _, row := range rows {
		code, err := os.ReadFile(filepath.Join("..", "..", row[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		names := placeName.FindAllStringSubmatch(row[2], -1)
		if len(names) == 0 {
			t.Errorf("no function is named of %s", row[1])
		}
		for _, name := range names {
			receiver := `(?:\(\w+ \*?\w+(?:\[[^]]+\])?\) )?`
			if name[1] != "" {
				receiver = `\(\w+ \*?` + name[1] + `(?:\[[^]]+\])?\) `
			}
			f := regexp.MustCompile(`(?m)^func ` + receiver + name[2] + `[(\[]`)
			if !f.Match(code) {
				t.Errorf("%s has no function %s: the guide is to name where it is", row[1],
					strings.Trim(name[0], "`"))
			}
		}
	}
}
