package draw_test

import (
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/lab/draw"
)

// The failure needs two items at the same time.
func TestShrinkFindsTheFew(t *testing.T) {
	list := make([]int, 200)
	for i := range list {
		list[i] = i
	}
	short := draw.Shrink(list, time.Now().Add(time.Minute), func(some []int) bool {
		return slices.Contains(some, 31) && slices.Contains(some, 170)
	})
	if !slices.Equal(short, []int{31, 170}) {
		t.Fatalf("%v is left", short)
	}
}
