package trial

import (
	"slices"
	"testing"
	"time"
)

// TestSilenceAllowsForRounding: the history tells when an attempt was sent in whole
// milliseconds, rounded down. One that follows an enabling within the same millisecond is
// told to have been sent before it, and broke no silence.
func TestSilenceAllowsForRounding(t *testing.T) {
	begin := time.UnixMilli(1_795_622_825_000)
	after := func(us int64) time.Time { return begin.Add(time.Duration(us) * time.Microsecond) }
	e := &endpoint{slot: "e8", silent: []span{
		{after(0), after(9_300)},
		{after(8_900), after(9_300)}, // enabling looks once more whether it is disabled
	}}
	for _, c := range []struct {
		name string
		sent time.Time
		want []string
	}{
		{"within the silence", after(4_700), []string{"SILENCE"}},
		{"just before it ends", after(7_999), []string{"SILENCE"}},
		{"in the millisecond in which it ends", after(9_900), nil},
		{"after it", after(10_100), nil},
	} {
		w := &world{}
		b := &observed{
			world:    w,
			targets:  map[string]*endpoint{"ep_8": e},
			attempts: map[string][]attempt{"evt_1": {{EndpointID: "ep_8", Sent: c.sent.UnixMilli()}}},
		}
		b.checkSilence()
		var got []string
		for _, v := range w.violations {
			got = append(got, v.Rule)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("sent %s: %v, want %v", c.name, w.violations, c.want)
		}
	}
}

// TestAnEnablingExcusesAnEarlyAttempt: also within one millisecond.
func TestAnEnablingExcusesAnEarlyAttempt(t *testing.T) {
	begin := time.UnixMilli(1_795_622_825_000)
	e := &endpoint{enabledAsked: []time.Time{begin.Add(9_300 * time.Microsecond)}}
	run := func(second int64) []Violation {
		w := &world{}
		b := &observed{
			world:   w,
			targets: map[string]*endpoint{"ep_8": e},
			attempts: map[string][]attempt{"evt_1": {
				{EndpointID: "ep_8", Number: 1, Run: 1, Sent: begin.UnixMilli()},
				{EndpointID: "ep_8", Number: 2, Run: 1, Sent: begin.UnixMilli() + second},
			}},
		}
		b.checkWaits()
		return w.violations
	}
	if got := run(9); len(got) != 0 {
		t.Errorf("an attempt that followed the enabling: %v", got)
	}
	if got := run(8); len(got) != 1 || got[0].Rule != "SCHEDULE" {
		t.Errorf("an attempt before the enabling, and before it was due: %v", got)
	}
}
