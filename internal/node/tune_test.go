package node

import "testing"

// A small machine must run more goroutines than it has processors. A large machine, and a container
// with a share of one, must not.
func TestProcs(t *testing.T) {
	for _, c := range []struct{ processors, used, want int }{
		{1, 1, 4},
		{2, 2, 4},
		{4, 4, 4},
		{16, 16, 16},
		{16, 2, 2}, // a container with two processors' time
		{2, 1, 1},
	} {
		if got := procs(c.processors, c.used); got != c.want {
			t.Errorf("%d of %d processors: %d at a time, want %d", c.used, c.processors, got, c.want)
		}
	}
}
