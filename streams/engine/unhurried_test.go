package engine_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// An outcome waits a few milliseconds to share a turn with a match, unless a delivery waits for the
// place that the outcome frees.
func TestOutcomesWaitForInputs(t *testing.T) {
	c := newCore(t)
	c.turn(creation("ep_1"))
	due := func(afterMillis int64) bool {
		return c.Due(kafka.Moment{WallMillis: c.now, SteadyMillis: 1000 + afterMillis})
	}
	answer := func(n int) { c.done[n](domain.AttemptResult{StatusCode: 200}) }
	c.pay("ep_1", "evt_0")
	if due(0) {
		t.Fatal("a turn is due when nothing has arrived")
	}
	answer(0)
	if due(0) || due(19) || !due(20) || !due(2000) {
		t.Errorf("after 0, 19, 20 and 2000 ms, a turn with an outcome is due: %t, %t, %t, %t", due(0), due(19),
			due(20), due(2000))
	}
	c.turn()

	c.pay("ep_1", "evt_1")
	answer(1)
	c.Arrived(1, []kafka.Record{{Topic: "matches"}})
	if !due(0) {
		t.Error("an outcome beside a match waits")
	}
	c.turn()

	begun := len(c.done)
	for n := range 2 + 3 + 4 + 5 { // more than the window has grown to
		c.pay("ep_1", fmt.Sprintf("evt_1%d", n))
	}
	if len(c.done)-begun > 8 {
		t.Fatalf("%d attempts are under way: nothing waits", len(c.done)-begun)
	}
	answer(begun)
	if !due(0) {
		t.Error("an outcome waits, though deliveries wait for the place that it makes")
	}
	c.turn()
	for n := begun + 1; n < len(c.done); n++ {
		answer(n)
		c.turn()
	}
	if due(0) {
		t.Error("a turn is due when all has ended")
	}
}

// After a turn with three inputs, the next inputs wait a few milliseconds for others. After a turn
// with fewer inputs, they do not wait.
func TestInputsWaitForOthers(t *testing.T) {
	c := newCore(t)
	waits := func(after int, want bool) {
		t.Helper()
		c.Arrived(1, []kafka.Record{{Topic: "matches"}})
		due := func(afterMillis int64) bool { // the test's turns begin at 0
			return c.Due(kafka.Moment{WallMillis: c.now, SteadyMillis: afterMillis})
		}
		if due(0) == want || due(5) == want || !due(6) {
			t.Errorf("after %d inputs another is due after 0, 5 and 6 ms: %t, %t, %t", after, due(0), due(5),
				due(6))
		}
	}
	c.turn(creation("ep_1"), creation("ep_2"))
	waits(2, false)
	c.turn(creation("ep_3"), creation("ep_4")) // together with the match from waits
	waits(3, true)
}
