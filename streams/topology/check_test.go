package topology

import (
	"strings"
	"testing"
	"time"
)

func TestAClockThatIsOffIsAFault(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		before, cluster, after time.Duration
		says                   string
	}{
		{0, 0, 0, ""},
		{0, 59 * time.Second, 0, ""},
		{0, -time.Minute, time.Second, ""},
		{0, 30 * time.Second, 2 * time.Minute, ""}, // slow response
		{0, 61 * time.Second, 0, "1m1s behind"},
		{0, -2 * time.Hour, time.Second, "2h0m0s ahead of"},
	} {
		f := clockFault(now.Add(c.before), now.Add(c.cluster), now.Add(c.after))
		if (f == nil) != (c.says == "") || f != nil && !strings.Contains(f.What, c.says) {
			t.Errorf("the cluster's clock at %s between %s and %s: %v", c.cluster, c.before, c.after, f)
		}
	}
}

func TestNumbersAreHeldAgainstBounds(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"1", "2", true},
		{"2", "2", false},
		{"3", "2", false},
		{"-1", "2", false},
		{"2", "-1", true},
		{"-1", "-1", false},
		{"", "2", true},
		{"", "-1", true},
		{"9223372036854775807", "-1", true},
	} {
		if below(c.a, c.b) != c.want {
			t.Errorf("%q below %q: %v", c.a, c.b, !c.want)
		}
	}
}
