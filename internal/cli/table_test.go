package cli_test

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
)

func TestATableIsAlignedByWhatATerminalShows(t *testing.T) {
	columns := []cli.Column{{Name: "label"}, {Name: "n", Numbers: true}, {Name: "memo"}}
	for _, c := range []struct {
		name string
		rows [][]string
		want string
	}{
		{"no row", nil, "label  n  memo\n──────────────\n"},
		{"wide characters", [][]string{{"東京", "7", "a"}, {"Zürich", "12345", ""}},
			"label       n  memo\n───────────────────\n東京        7  a\nZürich  12345\n"},
		{"combining marks", [][]string{{"Zu\u0308rich", "1", ""}, {"Genf", "2", ""}},
			"label   n  memo\n───────────────\nZu\u0308rich  1\nGenf    2\n"},
	} {
		var out strings.Builder
		if err := cli.WriteTable(&out, columns, c.rows); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s", c.name, err, out.String())
		}
	}
}
