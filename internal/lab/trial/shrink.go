package trial

import (
	"slices"
	"time"
)

// bystanders are operations that seldom affect others.
var bystanders = []string{
	"bad", "read", "foreign", "verify", "rebuild", "rebuild-killed", "pause", "endpoint.test",
	"endpoint.writers", "endpoint.rotate-secret", "key.create", "key.roll", "key.revoke",
}

// Shrink leaves out operations as long as the script still fails, until the time is over:
// bystanders and whole lanes first, then halves, smaller and smaller parts, and single ones
// at last (delta debugging). fails runs a script and reports whether it violates the same
// rule.
func Shrink(ops []Op, until time.Time, fails func([]Op) bool) []Op {
	without := func(left func(Op) bool) {
		shorter := slices.DeleteFunc(slices.Clone(ops), left)
		if n := len(shorter); n > 0 && n < len(ops) && time.Now().Before(until) && fails(shorter) {
			ops = shorter
		}
	}
	without(func(op Op) bool { return slices.Contains(bystanders, op.Do) })
	for _, lane := range lanesOf(ops) {
		without(func(op Op) bool { return op.Lane == lane })
	}
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

func lanesOf(ops []Op) []string {
	var lanes []string
	for _, op := range ops {
		if !slices.Contains(lanes, op.Lane) {
			lanes = append(lanes, op.Lane)
		}
	}
	return lanes
}

// withoutPart tries the script without each part of a size, and keeps the scripts that
// fail.
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
