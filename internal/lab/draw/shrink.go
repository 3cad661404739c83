package draw

import (
	"slices"
	"time"
)

// Shrink removes parts of a list as long as the rest still fails, until a point in time. It starts
// with halves and proceeds to ever smaller parts down to single elements (delta debugging). At
// least one element is left.
func Shrink[T any](list []T, until time.Time, fails func([]T) bool) []T {
	for size := len(list) / 2; size > 0; {
		found := false
		for at := 0; at < len(list) && time.Now().Before(until); {
			shorter := slices.Delete(slices.Clone(list), at, min(at+size, len(list)))
			if len(shorter) > 0 && fails(shorter) {
				list, found = shorter, true
				continue
			}
			at += size
		}
		if size = min(size, len(list)); !found || len(list) < 2 {
			size /= 2
		}
		if time.Now().After(until) {
			break
		}
	}
	return list
}
