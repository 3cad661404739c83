package cli_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// A number that may be missing is a number in a table, not where it is in memory.
func TestCellsOfNumbersThatMayBeMissing(t *testing.T) {
	number, long := 7, int64(8)
	for want, cell := range map[string]any{"7": &number, "8": &long} {
		if got := cli.OneLine(cell); got != want {
			t.Errorf("%q, not %s", got, want)
		}
	}
	for _, cell := range []any{(*int)(nil), (*int64)(nil)} {
		if got := cli.OneLine(cell); got != "-" {
			t.Errorf("%T that is missing is %q", cell, got)
		}
	}
}
