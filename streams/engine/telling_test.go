package engine_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// telling returns an endpoint that notifies another endpoint and whose receiver is gone.
func telling(t *testing.T, partitionOfTold int32) *core {
	t.Helper()
	c := newCore(t)
	c.partitionOf = func(id string) int32 {
		if id == nextEndpoint {
			return partitionOfTold
		}
		return 0
	}
	c.reopen(false)
	command := creation(leftEndpoint)
	body := command.Body.(domain.CreateEndpoint)
	body.NoticesTo = nextEndpoint
	command.Body = body
	c.turn(command)
	c.pay(leftEndpoint, "evt_gone")
	c.answerAll(domain.AttemptResult{StatusCode: 410})
	return c
}

// When an endpoint is disabled, another endpoint gets an ordinary delivery about it. It gets one,
// however often the match arrives and even after a restart.
func TestAnEndpointIsToldOfAnother(t *testing.T) {
	from := telling(t, 3)
	told := from.handed()
	if told.Partition != 3 || string(told.Key) != nextEndpoint {
		t.Fatalf("told by %+v", told)
	}
	to := newCore(t)
	to.turn(creation(nextEndpoint))
	facts := to.match(told)
	if len(facts) != 1 {
		t.Fatalf("what is told led to %+v", facts)
	}
	made := facts[0].Body.(domain.DeliveryCreated)
	if made.Event.Type != domain.EndpointDisabledEvent || made.WatchID != "" ||
		made.Moved.Number == 0 || made.Sequence != 1 {
		t.Errorf("is told as %+v", made)
	}
	if a := to.attempts; len(a) != 1 || a[0].EventID != made.Event.ID || a[0].Number != 1 {
		t.Errorf("attempts %+v", a)
	}
	from.reopen(false)
	if again := from.handedOver(); len(again) != 0 {
		t.Errorf("a start tells it again: %+v", again)
	}
	if facts := to.match(told); len(facts) != 0 {
		t.Errorf("is told twice: %+v", facts)
	}
}

// A notification for an endpoint that does not exist is cancelled and causes nothing more.
func TestTellingNobodyLeadsToNothing(t *testing.T) {
	from := telling(t, 0)
	facts := from.match(from.handed())
	if _, is := facts[len(facts)-1].Body.(domain.DeliveryCancelled); !is {
		t.Errorf("it is not cancelled: %+v", facts)
	}
	if more := from.writtenTo(schemas.TopicMatches); len(more) != 0 {
		t.Errorf("and led to %+v", more)
	}
}
