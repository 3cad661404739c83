package node

import "testing"

// TestHeapOf: a container's limit is heeded, and no limit is none.
func TestHeapOf(t *testing.T) {
	for text, want := range map[string]int64{
		"268435456\n": 128 << 20,
		"max\n":       0,
		"":            0,
		"-1":          0,
	} {
		if got, limited := heapOf(text); got != want || limited != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", text, got, limited, want)
		}
	}
}
