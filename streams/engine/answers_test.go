package engine_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// A command that is repeated after its answer has expired is handled again, and the new answer is
// kept for the full time, even if the journal of both is folded again when the first one's time has
// passed.
func TestALaterAnswerOutlivesTheFirst(t *testing.T) {
	c := newCore(t)
	c.turn(creation(endpointID))
	enable := domain.Command{
		ID:        "cmd_enable",
		AccountID: accountID,
		BodyHash:  []byte("h"),
		Body:      domain.EnableEndpoint{EndpointID: endpointID},
	}
	if len(c.turn(enable)) == 0 {
		t.Fatal("it is not handled")
	}
	const hour = 3_600_000
	later := func(hours int64) {
		c.now += hours * hour
		for range 2 { // due answers are claimed in one turn, and deleted in the next
			c.turn()
		}
	}
	later(60)
	if len(c.turn(enable)) == 0 {
		t.Fatal("its answer is kept for longer than 48 hours")
	}
	for _, lost := range []bool{false, true} {
		c.reopen(lost)
		later(1)
		if n := len(c.turn(enable)); n != 0 {
			t.Errorf("with the state lost (%t), a repeat leads to %d facts", lost, n)
		}
	}
	later(60)
	if len(c.turn(enable)) == 0 {
		t.Error("the later answer is never forgotten")
	}
}
