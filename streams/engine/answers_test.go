package engine_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// A command that is repeated after its answer has expired takes effect again. The engine must keep
// the new answer for the full 48 hours, even if it folds the journal of both after the first one's
// time.
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
		for range 2 { // one turn claims due answers, the next deletes them
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
