package trial

import (
	"testing"
	"time"
)

// A program that is killed right after it resumes had no time to record what was in flight when
// it was paused.
func TestWhatStoodStillDoesNotCount(t *testing.T) {
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	for _, c := range []struct {
		name   string
		pauses []span
		want   time.Time
	}{
		{"no pause", nil, at(97)},
		{"a pause that ended long before", []span{{at(10), at(90)}}, at(97)},
		{"killed right behind a pause", []span{{at(90), at(100)}}, at(87)},
		{"two pauses", []span{{at(80), at(88)}, {at(90), at(100)}}, at(79)},
	} {
		if got := workedFor(3*time.Second, at(100), c.pauses); !got.Equal(c.want) {
			t.Errorf("%s: from %d, want %d", c.name, got.Unix(), c.want.Unix())
		}
	}
}
