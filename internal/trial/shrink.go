package trial

import (
	"slices"
	"time"
)

// Shrink leaves out operations as long as the script still fails, until the time is
// over: halves first, then smaller and smaller parts, and single ones at last (delta
// debugging). fails works a script and reports whether it breaks the same rule.
func Shrink(ops []Op, until time.Time, fails func([]Op) bool) []Op {
	for size := len(ops) / 2; size > 0; {
		shorter, found := withoutPart(ops, size, until, fails)
		if time.Now().After(until) {
			return shorter
		}
		ops = shorter
		if size = min(size, len(ops)); !found || size == 1 && len(ops) < 2 {
			size /= 2
		}
	}
	return ops
}

// withoutPart tries the script without each part of a size, keeping what fails.
func withoutPart(ops []Op, size int, until time.Time, fails func([]Op) bool) (_ []Op, found bool) {
	for at := 0; at < len(ops) && time.Now().Before(until); {
		shorter := slices.Delete(slices.Clone(ops), at, min(at+size, len(ops)))
		if len(shorter) > 0 && fails(shorter) {
			ops, found = shorter, true
			continue
		}
		at += size
	}
	return ops, found
}
