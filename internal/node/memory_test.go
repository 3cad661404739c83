package node

import (
	"math"
	"testing"
)

// TestHeapOf: the smaller of a container's limit and the machine's memory counts, and an unknown
// value is not a limit.
func TestHeapOf(t *testing.T) {
	const machine = "MemTotal:        2097152 kB\nMemFree:          104000 kB\n"
	for _, c := range []struct {
		container, machine string
		want               int64
	}{
		{"268435456\n", machine, 128 << 20},
		{"max\n", machine, 1 << 30},
		{"8589934592\n", machine, 1 << 30},
		{"268435456\n", "", 128 << 20},
		{"-1", "nothing", math.MaxInt64},
		{"", "", math.MaxInt64},
	} {
		if got := heapOf(c.container, c.machine, 4); got != c.want {
			t.Errorf("%q and %q: %d, want %d", c.container, c.machine, got, c.want)
		}
	}
}
