package trial

import (
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/shrink"
)

// Shrink leaves out operations as long as the script still fails, until the time is over: whole
// lanes first. fails runs a script and reports whether it violates the same rule.
func Shrink(ops []Op, until time.Time, fails func([]Op) bool) []Op {
	tried := map[string]bool{}
	for _, op := range ops {
		if tried[op.Lane] || time.Now().After(until) {
			continue
		}
		tried[op.Lane] = true
		others := slices.DeleteFunc(slices.Clone(ops), func(o Op) bool { return o.Lane == op.Lane })
		if len(others) > 0 && fails(others) {
			ops = others
		}
	}
	return shrink.List(ops, until, fails)
}
