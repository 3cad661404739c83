package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
)

func (c *core) owners() map[string]string {
	c.t.Helper()
	by := make(map[string]string)
	err := c.Store().Each(func(key, value []byte) (bool, error) {
		aggregate, err := engine.Owner(c.Store(), key, value)
		by[string(key)] = aggregate
		return err == nil, err
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return by
}

// Every entry of a state belongs to the aggregate whose facts created it. This makes it possible to
// split a state so that every part is in the partition where it will be looked up.
func TestEveryEntryOfAStateHasAnOwner(t *testing.T) {
	c := newCore(t)
	c.turn(domain.Command{
		ID:        "cmd_account",
		AccountID: accountID,
		Body: domain.CreateAccount{
			AccountID: accountID,
			Email:     "a@b.example",
			Key:       domain.Key{ID: "key_1", Hash: []byte{1}},
		},
	})
	c.take(commandRecord(asked(domain.CreateWatch{Watch: goodWatch()})))
	for _, id := range []string{"ep_1", "ep_2"} {
		c.turn(creation(id))
		c.pay(id, "evt_done_"+id)
		c.pay(id, "evt_failed_"+id)
		c.pay(id, "evt_due_"+id)
	}
	for i, a := range c.attempts {
		if strings.HasPrefix(a.EventID, "evt_failed") {
			c.done[i](domain.AttemptResult{StatusCode: 410}) // disables the endpoint
		}
		if strings.HasPrefix(a.EventID, "evt_done") {
			c.done[i](domain.AttemptResult{StatusCode: 200})
		}
	}
	c.turn()
	by := c.owners()
	kinds := make(map[byte]int)
	for key, owner := range by {
		kinds[key[0]]++
		named := strings.Contains(key, owner)
		if _, event, is := strings.Cut(key, "evt_"); is && owner != "" {
			named = strings.HasSuffix(event, owner)
		}
		switch {
		case owner == "" && key[0] != 0x17 && key[0] != 0x1a, key[0] == 0x19 && owner != "ep_1" &&
			owner != "ep_2", owner != "" && !named && key[0] != 0x15 && key[0] != 0x19 &&
			!strings.Contains(key, "commands"):
			t.Errorf("%q belongs to %q", key, owner)
		}
	}
	for kind := byte(0x10); kind <= 0x1a; kind++ {
		if kinds[kind] == 0 && kind != 0x16 && kind != 0x17 {
			t.Errorf("the state has no entry of %#x, so nothing was found out", kind)
		}
	}
	for _, id := range []string{"ep_1", "ep_2"} {
		if owner := by["\x15cmd_"+id]; owner != id {
			t.Errorf("the answer to the creation of %s belongs to %q", id, owner)
		}
	}
	if owner := by["\x15cmd_account"]; owner != accountID {
		t.Errorf("the answer to the creation of the account belongs to %q", owner)
	}
}

// A merge of partitions that have two deliveries of the same event keeps the later one.
func TestTheLaterDeliveryOfAnEventStays(t *testing.T) {
	entry := func(moves int) []byte {
		return schemas.MarshalDelivery(domain.Delivery{
			EventID:    "evt_1",
			EndpointID: fmt.Sprint("ep_", moves),
			Moves:      moves,
		})
	}
	for _, order := range [][2]int{{0, 2}, {2, 0}} {
		kept, err := engine.Later(entry(order[0]), entry(order[1]))
		if err != nil || string(kept) != string(entry(2)) {
			t.Errorf("of %v stays %q, %v", order, kept, err)
		}
	}
	if !engine.IsDelivery([]byte("\x13evt_1")) || engine.IsDelivery([]byte("\x11ep_1")) {
		t.Error("a delivery is not known by its key")
	}
}

// A row built from the state must equal the row that the engine publishes.
func TestTheRowsOfAState(t *testing.T) {
	c := newCore(t)
	c.turn(creation("ep_1"))
	published := c.writtenTo(schemas.TopicEndpoints)
	rows := 0
	err := c.Store().Each(func(key, value []byte) (bool, error) {
		r, is, err := engine.Row(key, value)
		if is {
			rows++
			if want := published[0]; r.Topic != want.Topic || string(r.Key) != string(want.Key) ||
				string(r.Value) != string(want.Value) ||
				r.Header(schemas.HeaderType) != want.Header(schemas.HeaderType) {
				t.Errorf("the row is %+v in place of %+v", r, want)
			}
		}
		return true, err
	})
	if err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// A command that is handled again after its answer has expired may leave a second timer behind.
// Once the answer is gone, that timer belongs to no aggregate.
func TestATimeWithoutAnAnswerIsNobodys(t *testing.T) {
	c := newCore(t)
	c.turn(creation("ep_1"))
	b := c.Store().Begin()
	if err := errors.Join(b.Delete([]byte("\x15cmd_ep_1")), b.Commit()); err != nil {
		t.Fatal(err)
	}
	for key, owner := range c.owners() {
		if owner == "" && strings.HasSuffix(key, "cmd_ep_1") {
			return
		}
	}
	t.Error("there was no such time")
}
