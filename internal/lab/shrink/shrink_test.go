package shrink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/shrink"
)

// TestListFindsTheFew: a failure of two items that need each other.
func TestListFindsTheFew(t *testing.T) {
	list := make([]int, 200)
	for i := range list {
		list[i] = i
	}
	short := shrink.List(list, time.Now().Add(time.Minute), func(some []int) bool {
		return slices.Contains(some, 31) && slices.Contains(some, 170)
	})
	if !slices.Equal(short, []int{31, 170}) {
		t.Fatalf("%v is left", short)
	}
}
