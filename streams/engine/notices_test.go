package engine_test

import (
	"fmt"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

func (c *core) orders() (orders []domain.MailOrder) {
	c.t.Helper()
	for _, r := range c.writtenTo(schemas.TopicMails) {
		o, err := schemas.DecodeMailOrder(schemas.Read(r.Value, r))
		if err != nil {
			c.t.Fatal(err)
		}
		orders = append(orders, o)
	}
	return orders
}

// later runs turns after the given time has passed, and returns their orders.
func (c *core) later(millis int64) []domain.MailOrder {
	c.t.Helper()
	c.now += millis
	c.turn()
	first := c.orders()
	c.turn()
	return append(first, c.orders()...)
}

func (c *core) answered(
	o domain.MailOrder, answer domain.MailAnswer, taken ...string,
) []domain.Fact {
	c.t.Helper()
	return c.turn(domain.Command{
		ID:        fmt.Sprintf("cmd_mail_%d_%d", o.Notice, o.Number),
		AccountID: accountID,
		Body:      o.Answered(answer, domain.MailDone{Taken: taken}),
	})
}

// gone creates an endpoint whose receiver answers 410.
func (c *core) gone(endpoint string) {
	c.t.Helper()
	c.turn(creation(endpoint))
	c.pay(endpoint, "evt_"+endpoint)
	c.answerAll(domain.AttemptResult{StatusCode: 410})
}

func outcomes(facts []domain.Fact) (all []domain.MailOutcome) {
	for _, f := range facts {
		if made, is := f.Body.(domain.MailAttempted); is {
			all = append(all, made.Outcome)
		}
	}
	return all
}

// The next order for a notice names the recipients that already have the mail, even if it comes
// from another process with a rebuilt state.
func TestWhoHasTheMailIsPassedBy(t *testing.T) {
	c := newCore(t)
	c.gone("ep_1")
	c.answered(c.later(0)[0], domain.MailDeferred, "tag1")
	c.reopen(true)
	again := c.later(hour)
	if len(again) != 1 || again[0].Number != 2 || !again[0].Done.Has("tag1") {
		t.Errorf("ordered %+v", again)
	}
}

// An order describes the endpoint as it is when the order is written. An answer counts once, and a
// mail that was sent is not ordered again, even by another process with a rebuilt state.
func TestADisablingIsOrderedOnce(t *testing.T) {
	c := newCore(t)
	c.gone("ep_1")
	orders := c.later(0)
	if len(orders) != 1 {
		t.Fatalf("ordered %+v", orders)
	}
	o := orders[0]
	if o.EndpointID != "ep_1" || o.AccountID != accountID || o.URL != "https://shop.example" ||
		o.Enabled || o.Number != 1 || o.Disabled.Reason != domain.DisabledGone ||
		o.Disabled.EventID != "evt_ep_1" || o.UntilMillis != c.now+domain.MailOrderFor {
		t.Errorf("ordered %+v", o)
	}
	c.reopen(true)
	if again := c.later(hour / 2); len(again) > 0 {
		t.Errorf("ordered again, while its answer is awaited: %+v", again)
	}
	if got := outcomes(c.answered(o, domain.MailTaken)); len(got) != 1 || got[0] != domain.MailSent {
		t.Errorf("the answer led to %v", got)
	}
	if facts := c.answered(o, domain.MailTaken); len(facts) > 0 {
		t.Errorf("the same answer again led to %+v", facts)
	}
	for range 2 {
		if again := c.later(8 * 24 * hour); len(again) > 0 {
			t.Errorf("what was sent is ordered again: %+v", again)
		}
		c.reopen(true)
	}
}

// A user who disables an endpoint gets no mail about it.
func TestADisablingThatWasAskedForIsNotOrdered(t *testing.T) {
	c := newCore(t)
	c.turn(creation("ep_1"))
	c.turn(domain.Command{
		ID:        "cmd_1",
		AccountID: accountID,
		Body:      domain.DisableEndpoint{EndpointID: "ep_1"},
	})
	if orders := c.later(hour); len(orders) > 0 {
		t.Errorf("ordered %+v", orders)
	}
}

// The engine repeats a lost order with the endpoint's current state, unless the endpoint has been
// deleted.
func TestAnOrderWithoutAnAnswerIsGivenAgain(t *testing.T) {
	c := newCore(t)
	c.gone("ep_1")
	first := c.later(0)
	c.turn(domain.Command{
		ID:        "cmd_1",
		AccountID: accountID,
		Body:      domain.EnableEndpoint{EndpointID: "ep_1"},
	})
	if early := c.later(first[0].UntilMillis - c.now); len(early) > 0 {
		t.Errorf("ordered again while the first may be carried out: %+v", early)
	}
	second := c.later(hour / 6)
	if len(second) != 1 || second[0].Number != 2 || !second[0].Enabled ||
		second[0].ID() != first[0].ID() {
		t.Fatalf("ordered %+v", second)
	}
	if facts := c.answered(first[0], domain.MailDeclined); len(facts) > 0 {
		t.Errorf("an answer to an order of before led to %+v", facts)
	}
	c.turn(domain.Command{
		ID:        "cmd_2",
		AccountID: accountID,
		Body:      domain.DeleteEndpoint{EndpointID: "ep_1"},
	})
	c.now += 2 * hour
	c.turn()
	if got := outcomes(c.turn()); len(got) != 1 || got[0] != domain.MailNobody ||
		len(c.orders()) > 0 {
		t.Errorf("of a deleted endpoint: %v, ordered %+v", got, c.orders())
	}
}

// A state that is rebuilt from an old journal sends no mails about old events.
func TestOldNewsIsNotOrdered(t *testing.T) {
	c := newCore(t)
	c.ours = false // nothing is ordered yet
	c.turn(creation("ep_1"))
	c.ours = true
	c.pay("ep_1", "evt_1")
	c.ours = false
	c.answerAll(domain.AttemptResult{StatusCode: 410})
	c.now += domain.MailNewsFor + 1
	c.reopen(true)
	c.ours = true
	c.turn()
	if got := outcomes(c.turn()); len(got) != 1 || got[0] != domain.MailGivenUp {
		t.Errorf("old news is %v", got)
	}
	if orders := c.later(hour); len(orders) > 0 {
		t.Errorf("ordered %+v", orders)
	}
}

// However many endpoints are disabled at once, only a bounded number of orders wait for an answer.
// An answer makes room for the next order, even in another process.
func TestOrdersThatWaitForAnAnswerAreBounded(t *testing.T) {
	c := newCore(t)
	var orders []domain.MailOrder
	for n := range 40 {
		c.gone(fmt.Sprintf("ep_%03d", n))
		orders = append(orders, c.later(0)...)
	}
	if len(orders) != 32 {
		t.Fatalf("%d orders wait for an answer", len(orders))
	}
	c.reopen(false)
	if more := c.later(0); len(more) > 0 {
		t.Errorf("another process orders %d more", len(more))
	}
	for _, o := range orders[:8] {
		c.answered(o, domain.MailTaken)
		if next := c.later(0); len(next) != 1 {
			t.Errorf("an answer makes room for %d", len(next))
		}
	}
}

// While no mail server is available, the engine orders one notice at a time, at growing intervals.
// When a server is available again, it orders all of them.
func TestAServerThatIsDownIsAskedForOneMailAtATime(t *testing.T) {
	t.Parallel()
	c := newCore(t)
	var orders []domain.MailOrder
	for n := range 10 {
		c.gone(fmt.Sprintf("ep_%03d", n))
		orders = append(orders, c.later(0)...)
	}
	for _, o := range orders {
		c.answered(o, domain.MailUnserved)
	}
	asked := 0
	for range 24 * 60 { // one day, minute by minute
		next := c.later(60_000)
		if len(next) > 1 {
			t.Fatalf("%d are ordered at once", len(next))
		}
		if asked += len(next); len(next) > 0 {
			c.answered(next[0], domain.MailUnserved)
		}
	}
	if asked < 200 || asked > 24*12+1 {
		t.Errorf("the server was asked %d times in a day", asked)
	}
	first := c.later(domain.MailLastWait)
	if len(first) != 1 {
		t.Fatalf("%d are ordered", len(first))
	}
	c.answered(first[0], domain.MailTaken)
	if rest := c.later(domain.MailLastWait); len(rest) != 9 {
		t.Errorf("%d of 9 are ordered when there is a server again", len(rest))
	}
}

// An order must not be repeated in the turn in which its answer arrives.
func TestAnAnswerMeetsItsOrdersEnd(t *testing.T) {
	c := newCore(t)
	c.gone("ep_1")
	o := c.later(0)[0]
	c.now += 2 * hour
	c.turn() // claims the order
	if got := outcomes(c.answered(o, domain.MailTaken)); len(got) != 1 || len(c.orders()) > 0 {
		t.Errorf("%v, and ordered %+v", got, c.orders())
	}
}

// A mailer's unreadable answer becomes a dead letter, and the engine repeats the order.
func TestAnAnswerThatCannotBeReadIsSetAside(t *testing.T) {
	c := newCore(t)
	c.gone("ep_1")
	o := c.later(0)[0]
	c.answered(o, "perhaps")
	if letters := c.writtenTo(schemas.TopicDeadLetters); len(letters) != 1 {
		t.Errorf("%d records were set aside", len(letters))
	}
	if again := c.later(2 * hour); len(again) != 1 {
		t.Errorf("ordered %+v", again)
	}
}
