package engine_test

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// order records the events of attempts in the order in which the attempts begin.
type order struct {
	mu     sync.Mutex
	events []string
}

func (o *order) add(eventID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, eventID)
}

func (o *order) last(n int) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.events[max(0, len(o.events)-n):])
}

type ordered struct {
	engine.Dispatcher
	began *order
}

func (d ordered) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	d.began.add(a.EventID)
	d.Dispatcher.Dispatch(a, done)
}

// A replay's since and until are compared with the envelope's createdAt, which lists show, and not
// with the time when the engine recorded the event. The events here are from 1970.
func TestReplaySpanIsOfTheEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, domain.Policy{})()
	id := r.endpoint(1)
	r.receiver.answer(status(500))
	ids := r.pay(id, 0, 40)
	r.eventuallyIn(id, domain.StateFailed, 40)
	r.receiver.answer(status(200))
	answer := r.ask("cmd_replay",
		domain.ReplayEndpoint{EndpointID: id, SinceMillis: 10, UntilMillis: 15})
	if answer.Replay == nil || *answer.Replay != (domain.ReplayResult{Queued: 5, Matched: 5}) {
		t.Fatalf("a replay was answered %+v", answer)
	}
	r.eventuallyIn(id, domain.StateDelivered, 5)
	_, after := r.fold(id)
	for n, eventID := range ids {
		if replayed := after[eventID].Run == 2; replayed != (n >= 10 && n < 15) {
			t.Errorf("the event of %d ms is in run %d", n, after[eventID].Run)
		}
	}
}

// A replay skips a test.ping that FAILED and does not count it as a match. A resend can still send
// it.
func TestReplayLeavesTestsOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.startWith(r.dir, domain.Policy{DisableAfter: 2})()
	id := r.endpoint(1)
	r.receiver.answer(status(500))
	r.ask("cmd_test", domain.TestEndpoint{EndpointID: id})
	r.ask("cmd_sample", domain.TestEndpoint{EndpointID: id, Sample: domain.PaymentReceived})
	paid := r.pay(id, 1, 1)[0]
	r.eventuallyIn(id, domain.StateFailed, 3)
	r.receiver.answer(status(200))
	answer := r.ask("cmd_replay", domain.ReplayEndpoint{EndpointID: id})
	if answer.Replay == nil || *answer.Replay != (domain.ReplayResult{Queued: 1, Matched: 1}) {
		t.Fatalf("a replay was answered %+v", answer)
	}
	r.eventuallyIn(id, domain.StateDelivered, 1)
	_, after := r.fold(id)
	if sample := after[domain.TestEventID("cmd_sample")]; sample.Run != 1 {
		t.Errorf("the sample is in run %d", sample.Run)
	}
	if ping := after[domain.TestEventID("cmd_test")]; ping.Run != 1 || after[paid].Run != 2 {
		t.Errorf("the test is in run %d, the payment in run %d", ping.Run, after[paid].Run)
	}
	resent := r.ask("cmd_resend",
		domain.ResendEvent{EndpointID: id, EventID: domain.TestEventID("cmd_test")})
	if resent.Delivery == nil {
		t.Errorf("a test that FAILED can be sent again by itself; it was answered %+v", resent)
	}
}

// As docs/state-machines.md promises, first attempts begin with the oldest event, in whatever order
// the events reached the engine. With one attempt at a time, they also reach the receiver in this
// order.
func TestReplayOrder(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 16} {
		t.Run(strconv.Itoa(window)+" at a time", func(t *testing.T) {
			r := newRig(t)
			began, arrived := new(order), new(order)
			r.window = window
			r.around = func(d engine.Dispatcher) engine.Dispatcher { return ordered{d, began} }
			defer r.startWith(r.dir, domain.Policy{})()
			id := r.endpoint(1)
			r.receiver.answer(status(500))
			const half = 60
			newer := r.pay(id, half, half)
			ids := append(r.pay(id, 0, half), newer...)
			r.eventuallyIn(id, domain.StateFailed, len(ids))
			r.receiver.answer(func(w http.ResponseWriter, req *http.Request, _ int) {
				arrived.add(req.Header.Get("Webhook-Id"))
				w.WriteHeader(http.StatusOK)
			})
			r.ask("cmd_replay", domain.ReplayEndpoint{EndpointID: id})
			r.eventuallyIn(id, domain.StateDelivered, len(ids))
			if got := began.last(len(ids)); !slices.Equal(got, ids) {
				t.Errorf("attempts began in the order %v", got)
			}
			if got := arrived.last(len(ids)); window == 1 && !slices.Equal(got, ids) {
				t.Errorf("attempts arrived in the order %v", got)
			}
		})
	}
}

// A replay queues only the chosen events that are FAILED and belong to the endpoint, in the chosen
// order. A repeated command gets the same answer, even after a restart and whatever events it
// names.
func TestReplayOfChosenEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	stop := r.startWith(r.dir, domain.Policy{})
	id, other := r.endpoint(1), r.endpoint(2)
	r.receiver.answer(status(500))
	ids := r.pay(id, 0, 6)
	elsewhere := r.pay(other, 50, 1)
	r.eventuallyIn(id, domain.StateFailed, 6)
	r.eventuallyIn(other, domain.StateFailed, 1)
	r.receiver.answer(status(200))
	unknown := domain.DeriveID(domain.EventPrefix, "unknown")
	chosen := domain.ReplayEvents{
		EndpointID: id,
		EventIDs:   []string{ids[4], unknown, ids[1], elsewhere[0], ids[4]},
		Matched:    9,
	}
	want := domain.ReplayResult{Queued: 2, Matched: 9, Truncated: true}
	answer := r.ask("cmd_chosen", chosen)
	if answer.Replay == nil || *answer.Replay != want {
		t.Fatalf("a replay was answered %+v", answer)
	}
	r.eventuallyIn(id, domain.StateDelivered, 2)
	stop()
	defer r.startWith(r.dir, domain.Policy{})()
	chosen.EventIDs = ids
	if again := r.ask("cmd_chosen", chosen); again.Replay == nil || *again.Replay != want {
		t.Errorf("a repeat was answered %+v", again)
	}
	_, after := r.fold(id)
	for n, eventID := range ids {
		if replayed := after[eventID].Run == 2; replayed != (n == 4 || n == 1) {
			t.Errorf("event %d is in run %d", n, after[eventID].Run)
		}
	}
	foreign := r.ask("cmd_other", domain.ReplayEvents{EndpointID: other, EventIDs: ids, Matched: 6})
	if foreign.Replay == nil || foreign.Replay.Queued != 0 {
		t.Errorf("another endpoint's events were answered %+v", foreign)
	}
}
