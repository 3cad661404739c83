package kafka

import (
	"testing"
	"time"
)

// If a member considers a copy warm and the group does not, the group must not rebalance forever.
// When another copy becomes warm, the member asks soon.
func TestAskingForWhatDoesNotComeIsRare(t *testing.T) {
	a := newRejoinBackoff()
	var now int64
	during := func(warm []int32, d time.Duration) (asked int) {
		for end := now + d.Milliseconds(); now < end; now += 500 {
			if a.due(warm, now) {
				asked++
			}
		}
		return asked
	}
	if n := during(nil, time.Minute); n != 0 {
		t.Errorf("it asks %d times for nothing", n)
	}
	if n := during([]int32{3}, time.Hour); n > 20 {
		t.Errorf("in an hour it asks %d times for the same copy", n)
	}
	if n := during([]int32{3, 4}, rejoinInterval); n != 1 {
		t.Errorf("it asks %d times for another copy, within %v", n, rejoinInterval)
	}
	during([]int32{4}, time.Hour)
	if n := during([]int32{3}, 6*time.Second); n == 0 {
		t.Error("what has become warm again does not count")
	}
	if n := during([]int32{5}, 4*time.Second) + during([]int32{6}, 500*time.Millisecond); n > 1 {
		t.Errorf("it asks %d times within 4.5 s", n)
	}
}
