package schemas

import (
	"bytes"
	"strconv"
	"testing"
)

// TestNames: a name is returned unchanged, whatever shares its slot, and a repeated name takes no
// memory.
func TestNames(t *testing.T) {
	for round := range 2 {
		for n := range 3 * namesPlaces {
			if want := "ep_" + strconv.Itoa(n); latestNames.of([]byte(want)) != want {
				t.Fatalf("round %d: %s is read as another", round, want)
			}
		}
	}
	for _, want := range [][]byte{{}, bytes.Repeat([]byte("x"), longestName+1)} {
		if got := latestNames.of(want); got != string(want) {
			t.Errorf("%q is read as %q", want, got)
		}
	}
	again := []byte("ep_again")
	if n := testing.AllocsPerRun(100, func() { latestNames.of(again) }); n != 0 {
		t.Errorf("a name that was read before takes %v allocations", n)
	}
}
