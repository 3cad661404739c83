package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

func (c *core) sequences() map[string][]uint64 {
	by := make(map[string][]uint64)
	for _, a := range c.attempts {
		by[a.EventID] = append(by[a.EventID], a.Sequence)
	}
	return by
}

// Sequence numbers have no gaps across restarts with a state, without a state and from a snapshot.
// Every attempt of a delivery carries the same number.
func TestNumbersGoOnWithoutAGap(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID), creation("ep_other"))
	next := 0
	pays := func(when string) {
		t.Helper()
		next++
		event := fmt.Sprint("evt_", next)
		c.pay(endpointID, event)
		if got := c.sequences()[event]; !slices.Equal(got, []uint64{uint64(next)}) {
			t.Errorf("%s: the attempts of %s have %v", when, event, got)
		}
		c.answerAll(domain.AttemptResult{StatusCode: 200})
	}
	pays("at first")
	c.pay("ep_other", "evt_other")
	c.answerAll(domain.AttemptResult{StatusCode: 500})
	c.now += 2 * hour
	c.turn()
	if got := c.sequences()["evt_other"]; !slices.Equal(got, []uint64{1, 1}) {
		t.Errorf("the attempts of another endpoint's first delivery have %v", got)
	}
	c.answerAll(domain.AttemptResult{StatusCode: 200})
	pays("after another endpoint's")
	c.reopen(false)
	pays("after a start")
	c.reopen(true)
	pays("after the loss of the state")
	c.snapshot = snapshotOf(t, c)
	c.begins = int64(len(c.journal))
	c.reopen(true)
	pays("after a start from a snapshot")
}

// A handover gets the next number of its new endpoint, whatever number it had before.
func TestAHandOverHasTheNextNumber(t *testing.T) {
	from := movedOnce(t, 3)
	to := newCore(t)
	to.turn(creation(nextEndpoint))
	to.pay(nextEndpoint, "evt_own")
	to.match(from.handedOver()[0])
	if got := to.sequences()[movedEvent]; from.attempts[0].Sequence != 1 ||
		!slices.Equal(got, []uint64{2}) {
		t.Errorf("it was number %d, and is number %v of the next endpoint", from.attempts[0].Sequence,
			got)
	}
}
