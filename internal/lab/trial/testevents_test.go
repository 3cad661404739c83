package trial

import "testing"

// TestATestThatIsRefusedMayHaveItsEvent: where the endpoint is disabled after the test was queued
// and before it was attempted, the client is answered 409, and the event is there, cancelled.
func TestATestThatIsRefusedMayHaveItsEvent(t *testing.T) {
	of := func(refused bool, state string, attempts ...attempt) *observed {
		e := eventView{ID: "evt_1", Type: "test.ping"}
		e.Delivery.State, e.Delivery.EndpointID = state, "ep_1"
		return &observed{
			world:    &world{model: &model{}},
			events:   map[string]eventView{e.ID: e},
			targets:  map[string]*endpoint{"ep_1": {testsRefused: refused}},
			attempts: map[string][]attempt{e.ID: attempts},
		}
	}
	for _, c := range []struct {
		name string
		b    *observed
		want int
	}{
		{"refused and cancelled", of(true, "CANCELLED"), 0},
		{"never asked for", of(false, "CANCELLED"), 1},
		{"refused and delivered", of(true, "DELIVERED"), 1},
		{"refused and attempted", of(true, "CANCELLED", attempt{Number: 1}), 1},
	} {
		c.b.checkMatches()
		if got := len(c.b.violations); got != c.want {
			t.Errorf("%s: %v, want %d", c.name, c.b.violations, c.want)
		}
	}
}
