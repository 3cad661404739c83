package cli

import (
	"strings"
	"testing"
	"time"
)

// Without a terminal, progress must be printed at the start, periodically and at the end.
func TestProgressWithoutATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		step time.Duration // time between two of a hundred records
		want string
	}{
		"short": {time.Millisecond, "  0%  0 of 100 records  0/s\n100%  100 of 100 records  1000/s\n"},
		"long": {200 * time.Millisecond, "  0%  0 of 100 records  0/s\n" +
			" 50%  50 of 100 records  5/s  10s left\n100%  100 of 100 records  5/s\n"},
	} {
		var out strings.Builder
		now := time.Unix(1_000_000, 0)
		bar := NewProgress(&out)
		bar.now = func() time.Time { return now }
		for done := range int64(101) {
			bar.Show(done, 100)
			now = now.Add(c.step)
		}
		now = now.Add(-c.step)
		bar.End()
		if out.String() != c.want {
			t.Errorf("%s: the log has\n%sand should have\n%s", name, &out, c.want)
		}
	}
	var out strings.Builder
	NewProgress(&out).End()
	if out.Len() > 0 {
		t.Errorf("of no work it says %q", &out)
	}
}
