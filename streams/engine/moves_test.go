package engine_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	leftEndpoint  = "ep_00000000000000000000000003"
	nextEndpoint  = "ep_00000000000000000000000004"
	movedEvent    = "evt_00000000000000000000000001"
	deleteCommand = "cmd_delete_"
)

func removal(endpoint string) domain.Command {
	return domain.Command{
		ID:        deleteCommand + endpoint,
		AccountID: accountID,
		Body:      domain.DeleteEndpoint{EndpointID: endpoint},
	}
}

func resending(id, endpoint, to string) domain.Command {
	return domain.Command{
		ID:        id,
		AccountID: accountID,
		Body: domain.ResendEvent{
			EndpointID:   endpoint,
			EventID:      movedEvent,
			ToEndpointID: to,
			Remembered:   &domain.Remembered{Body: []byte(movedEvent)},
		},
	}
}

func (c *core) match(r kafka.Record) []domain.Fact {
	c.t.Helper()
	r.Partition = 0 // every core is partition 0
	return c.take(r)
}

// movedOnce returns a partition in which an event's delivery was attempted once, cancelled with its
// endpoint and then moved.
func movedOnce(t *testing.T, partitionOfNext int32) *core {
	c := newCore(t)
	c.partitionOf = func(id string) int32 {
		if id == nextEndpoint {
			return partitionOfNext
		}
		return 0
	}
	c.reopen(false)
	c.turn(creation(leftEndpoint))
	c.pay(leftEndpoint, movedEvent)
	c.done[0](domain.AttemptResult{StatusCode: 500})
	c.turn()
	c.turn(removal(leftEndpoint))
	c.turn()
	facts := c.turn(resending("cmd_move", leftEndpoint, nextEndpoint))
	moved := facts[0].Body.(domain.DeliveryMoved)
	want := domain.DeliveryMoved{
		EventID:      movedEvent,
		ToEndpointID: nextEndpoint,
		Moves:        1,
		Body:         []byte(movedEvent),
		Number:       moved.Number,
	}
	if len(facts) != 2 || moved.Number == 0 || !reflect.DeepEqual(moved, want) {
		t.Fatalf("a resend of a cancelled delivery led to %+v", facts)
	}
	return c
}

// A partition hands over an event with its ID, body and history to the other endpoint's partition,
// in the same transaction as the fact. The other partition queues it once, however often it
// arrives.
func TestAnEventIsHandedOver(t *testing.T) {
	from := movedOnce(t, 3)
	if len(from.handedOver()) != 1 || from.handedOver()[0].Partition != 3 ||
		string(from.handedOver()[0].Key) != nextEndpoint {
		t.Fatalf("handed over by %+v", from.handedOver())
	}
	to := newCore(t)
	to.turn(creation(nextEndpoint))
	facts := to.match(from.handedOver()[0])
	if len(facts) != 1 {
		t.Fatalf("a hand-over led to %+v", facts)
	}
	made := facts[0].Body.(domain.DeliveryCreated)
	moved := domain.Moved{
		Moves:             1,
		Attempts:          1,
		Runs:              1,
		FormerEndpointIDs: []string{leftEndpoint},
		Number:            made.Moved.Number,
	}
	if made.Event.ID != movedEvent || string(made.Event.Body) != movedEvent ||
		made.WatchID != watchID || !reflect.DeepEqual(made.Moved, moved) {
		t.Errorf("goes on as %+v", made)
	}
	if a := to.attempts; len(a) != 1 || a[0].Number != 2 || a[0].EventID != movedEvent ||
		string(a[0].Body) != movedEvent {
		t.Errorf("attempts %+v", a)
	}
	if again := to.match(from.handedOver()[0]); len(again) != 0 {
		t.Errorf("arrives twice: %+v", again)
	}
	for _, asked := range []string{nextEndpoint, "ep_00000000000000000000000005", ""} {
		facts := from.turn(resending("cmd_again_"+asked, leftEndpoint, asked))
		if d := facts[0].Body.(domain.CommandHandled).Answer.Delivery; len(facts) != 1 ||
			d.MovedTo != nextEndpoint || d.MovedBy != "cmd_move" || len(from.handedOver()) != 0 {
			t.Errorf("asked again: %+v", facts)
		}
	}
}

// The partition keeps the latest delivery of an event, and every earlier endpoint of the event
// knows where it is now. Folding the journal gives the same state.
func TestAnEventMovesWithinItsPartition(t *testing.T) {
	c := movedOnce(t, 0)
	first := c.handed()
	c.turn(creation(nextEndpoint), creation("ep_last"))
	c.match(first)
	c.done[1](domain.AttemptResult{StatusCode: 500})
	c.turn()
	c.turn(removal(nextEndpoint))
	c.turn()
	c.turn(resending("cmd_on", nextEndpoint, "ep_last"))
	c.match(c.handed())
	check := func(when string) {
		t.Helper()
		for n, endpoint := range []string{leftEndpoint, nextEndpoint} {
			facts := c.turn(resending(fmt.Sprint("cmd_", when, n), endpoint, leftEndpoint))
			d := facts[0].Body.(domain.CommandHandled).Answer.Delivery
			if len(facts) != 1 || d.MovedTo != "ep_last" || d.State != domain.StateCancelled {
				t.Errorf("%s, %s says %+v", when, endpoint, facts)
			}
		}
		if a := c.attempts[len(c.attempts)-1]; a.EndpointID != "ep_last" || a.Number != 3 ||
			string(a.Body) != movedEvent {
			t.Errorf("%s, the last attempt is %+v", when, a)
		}
	}
	check("live")
	c.reopen(true)
	if len(c.handedOver()) != 0 {
		t.Errorf("what arrived in this partition is handed over again: %+v", c.handedOver())
	}
	check("folded")
}

func arrival(event string, from int32, number uint64) kafka.Record {
	m := schemas.EncodeHandOver(domain.MatchInput{
		AccountID:  accountID,
		EndpointID: nextEndpoint,
		WatchID:    watchID,
		Event: domain.Event{
			ID:              event,
			Type:            domain.PaymentReceived,
			CreatedAtMillis: 1,
			Body:            []byte(event),
		},
		Moved: domain.Moved{
			Moves:             1,
			Runs:              1,
			FormerEndpointIDs: []string{leftEndpoint},
			FromPartition:     from,
			Number:            number,
		},
	})
	return kafka.NewRecord(schemas.TopicMatches, nextEndpoint, m.Value, m.EachHeader)
}

// The engine recognizes a repeated handover by its number and drops it, whatever it knows of the
// event and however late the handover arrives.
func TestAHandOverThatComesAgainIsDropped(t *testing.T) {
	c := newCore(t)
	c.turn(creation(nextEndpoint))
	check := func(when string, event byte, from int32, number uint64, taken bool) {
		t.Helper()
		facts := c.match(arrival(fmt.Sprintf("evt_0000000000000000000000000%c", event), from, number))
		if got := len(facts) > 0; got != taken {
			t.Errorf("%s: taken in: %t, want %t", when, got, taken)
		}
	}
	check("the first", '1', 3, 40, true)
	check("again", '2', 3, 40, false)
	check("a later one", '3', 3, 41, true)
	check("an earlier one", '4', 3, 40, false)
	check("of another partition", '5', 2, 40, true)
	check("of the partition itself", '6', 0, 40, true)
	check("of an older version", '7', 0, 0, true)
	c.reopen(false)
	check("after a start", '8', 3, 41, false)
	c.reopen(true)
	check("with a state that was lost", '8', 3, 41, false)
	check("with a state that was lost, a later one", '8', 3, 42, true)
}

// Each handover's number is larger than all earlier ones, within a turn and across restarts. A
// restart does not hand over again.
func TestHandOversAreNumbered(t *testing.T) {
	c := movedOnce(t, 3)
	number := func(r kafka.Record) uint64 {
		t.Helper()
		in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
		if err != nil {
			t.Fatal(err)
		}
		return in.Moved.Number
	}
	first := number(c.handed())
	c.reopen(false)
	if again := c.handedOver(); len(again) != 0 {
		t.Errorf("a start hands over again: %+v", again)
	}
	var events []string
	for i := range 3 {
		events = append(events, fmt.Sprintf("evt_0000000000000000000000001%d", i))
	}
	const third = "ep_00000000000000000000000005"
	c.turn(creation(third))
	for _, event := range events {
		c.pay(third, event)
	}
	c.turn(removal(third))
	for _, done := range c.done[len(c.done)-len(events):] {
		done(domain.AttemptResult{StatusCode: 500})
	}
	c.turn()
	c.turn()
	var moves []domain.Command
	for _, event := range events {
		move := resending("cmd_move_"+event, third, nextEndpoint)
		body := move.Body.(domain.ResendEvent)
		body.EventID = event
		move.Body = body
		moves = append(moves, move)
	}
	c.turn(moves...)
	handed := c.handedOver()
	if len(handed) != len(events) {
		t.Fatalf("%d hand-overs, want %d", len(handed), len(events))
	}
	latest := first
	for _, r := range handed {
		if n := number(r); n <= latest {
			t.Errorf("number %d comes after %d", n, latest)
		}
		latest = number(r)
	}
}

func (c *core) handedOver() []kafka.Record { return c.writtenTo(schemas.TopicMatches) }

func (c *core) handed() kafka.Record {
	c.t.Helper()
	handed := c.handedOver()
	if len(handed) != 1 {
		c.t.Fatalf("hand-overs %+v", handed)
	}
	return handed[0]
}
