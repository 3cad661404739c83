package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// remembering returns a partition that has an endpoint and remembers the given number of settled
// deliveries.
func remembering(t *testing.T, settled int) *core {
	t.Helper()
	c := newCore(t)
	c.settled = settled
	c.reopen(true)
	c.turn(creation(endpointID))
	return c
}

// settles sends an event to the endpoint, whose receiver answers with the given status.
func (c *core) settles(event string, status int) {
	c.t.Helper()
	c.pay(endpointID, event)
	c.done[len(c.done)-1](domain.AttemptResult{StatusCode: status})
	c.turn()
}

// held returns the keys in a space of the state, without their first byte.
func (c *core) held(space byte) (keys []string) {
	c.t.Helper()
	err := c.Store().Scan([]byte{space}, []byte{space + 1}, func(key, _ []byte) (bool, error) {
		keys = append(keys, string(key[1:]))
		return true, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return keys
}

// Spaces of the state (doc.go).
const (
	deliveries = 0x13
	bodies     = 0x14
	tabled     = 0x17
	settled    = 0x19
)

func (c *core) wantHeld(what string, space byte, want ...string) {
	c.t.Helper()
	if got := c.held(space); !slices.Equal(got, want) {
		c.t.Errorf("%s: %q, not %q", what, got, want)
	}
}

// everything returns the complete state except the publishing position.
func (c *core) everything() map[string]string {
	c.t.Helper()
	all := make(map[string]string)
	err := c.Store().Scan([]byte{0x01}, []byte{0xff}, func(key, value []byte) (bool, error) {
		if key[0] != tabled {
			all[string(key)] = string(value)
		}
		return true, nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return all
}

// A settled delivery has no body, and only the latest settled deliveries are remembered. A pending
// or FAILED delivery stays, with its body. Folding the journal again gives the same state.
func TestWhatHasSettledIsForgotten(t *testing.T) {
	c := remembering(t, 2)
	c.settles("evt_0", 200)
	c.settles("evt_1", 500) // it waits for its next attempt
	c.settles("evt_2", 200)
	c.settles("evt_3", 200)
	c.wantHeld("remembered", deliveries, "evt_1", "evt_2", "evt_3")
	c.wantHeld("bodies", bodies, "evt_1")
	if n := len(c.held(settled)); n != 2 {
		t.Errorf("the ring has %d entries", n)
	}
	for range 2 { // it is FAILED when its schedule is used up
		c.now += 2 * hour
		c.turn()
		c.done[len(c.done)-1](domain.AttemptResult{StatusCode: 500})
		c.turn()
	}
	c.settles("evt_4", 200)
	c.settles("evt_5", 200)
	c.wantHeld("remembered", deliveries, "evt_1", "evt_4", "evt_5")
	c.wantHeld("bodies", bodies, "evt_1")
	live := c.everything()
	c.reopen(true)
	if folded := c.everything(); !reflect.DeepEqual(folded, live) {
		t.Errorf("folded anew, the state is %q, not %q", folded, live)
	}
}

// resent returns a resend of an event. Its delivery was read from a history that ends at asOf.
func resent(id string, d domain.Delivery, asOf int) domain.Command {
	return domain.Command{ID: id, AccountID: accountID, Body: domain.ResendEvent{
		EndpointID: endpointID,
		EventID:    d.EventID,
		Remembered: &domain.Remembered{Body: []byte(d.EventID), Delivery: d, AsOf: int64(asOf)},
	}}
}

func past(event string) domain.Delivery {
	return domain.Delivery{
		EventID:    event,
		EventType:  domain.PaymentReceived,
		AccountID:  accountID,
		EndpointID: endpointID,
		WatchID:    watchID,
		State:      domain.StateDelivered,
		Attempts:   1,
		Run:        1,
	}
}

// A delivery that was queued again must not be forgotten where it first settled, neither while it
// is pending nor after it has settled again.
func TestOnlyTheLatestSettlingCounts(t *testing.T) {
	c := remembering(t, 2)
	c.settles("evt_0", 200)
	c.turn(resent("cmd_again", past("evt_0"), len(c.journal)))
	c.settles("evt_1", 200)
	c.settles("evt_2", 200) // the first settling of evt_0 leaves the ring
	c.wantHeld("while it is on its way", deliveries, "evt_0", "evt_1", "evt_2")
	c.wantHeld("its body", bodies, "evt_0")
	c.done[1](domain.AttemptResult{StatusCode: 200})
	c.turn()
	c.wantHeld("settled again", deliveries, "evt_0", "evt_2")
	c.settles("evt_3", 200)
	c.wantHeld("one later", deliveries, "evt_0", "evt_3")
	c.settles("evt_4", 200)
	c.wantHeld("two later", deliveries, "evt_3", "evt_4")
}

// The engine recalls a forgotten event from the history, gives it the next attempt number, and
// answers as usual. It refuses a resend while the history may lack its latest facts, and decides it
// again once the history has caught up.
func TestAForgottenEventIsSentAgain(t *testing.T) {
	c := remembering(t, 2)
	for n := range 4 {
		c.settles(fmt.Sprint("evt_", n), 200)
	}
	asOf := len(c.journal) - 2
	if facts := c.turn(resent("cmd_again", past("evt_0"), asOf)); len(facts) != 0 {
		t.Fatalf("a history that lacks %d records led to %+v", len(c.journal)-asOf, facts)
	}
	if n := len(c.writtenTo("results")); n != 1 {
		t.Fatalf("%d answers", n)
	}
	facts := c.turn(resent("cmd_again", past("evt_0"), asOf+1))
	if len(facts) != 1 || facts[0].Body.FactType() != "DeliveryRecalled" {
		t.Fatalf("the first turn led to %+v", facts)
	}
	facts = c.turn() // the command was left for this turn
	queued, is := facts[0].Body.(domain.DeliveryRequeued)
	if len(facts) != 2 || !is || queued.Run != 2 || string(queued.Body) != "evt_0" {
		t.Fatalf("the second turn led to %+v", facts)
	}
	if a := c.attempts[len(c.attempts)-1]; a.EventID != "evt_0" || a.Number != 2 ||
		string(a.Body) != "evt_0" {
		t.Errorf("sent as %+v", a)
	}
	if again := c.turn(resent("cmd_again", past("evt_0"), asOf)); len(again) != 0 {
		t.Errorf("a repeat led to %+v", again)
	}
}

// The history shows where a forgotten event has moved, however long ago. The endpoint that it left
// must not hand it over a second time.
func TestAForgottenEventThatMovedIsFollowed(t *testing.T) {
	c := remembering(t, 2)
	d := past("evt_0")
	d.State, d.MovedTo = domain.StateCancelled, nextEndpoint
	facts := c.turn(resent("cmd_again", d, 0))
	answer := facts[0].Body.(domain.CommandHandled).Answer
	if len(facts) != 1 || answer.Delivery == nil || answer.Delivery.MovedTo != nextEndpoint {
		t.Errorf("it led to %+v", facts)
	}
}

// The outcome of an attempt may arrive again after its delivery was forgotten. It must have no
// effect.
func TestAnOutcomeOfWhatIsForgottenHasNoEffect(t *testing.T) {
	c := remembering(t, 1)
	c.settles("evt_0", 200)
	c.settles("evt_1", 200)
	c.wantHeld("remembered", deliveries, "evt_1")
	c.Completed(engine.Outcome{
		Attempt: c.attempts[0],
		Result:  domain.AttemptResult{StatusCode: 200},
	})
	if facts := c.turn(); len(facts) != 0 {
		t.Errorf("it led to %+v", facts)
	}
	c.settles("evt_2", 200)
}
