package projections_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

func (s *story) endpointMade() domain.Fact {
	return s.fact(domain.EndpointCreated{
		EndpointID:       s.endpointID,
		AccountID:        testAccount,
		EndpointSettings: domain.EndpointSettings{URL: "https://example.com/"},
	})
}

// queued returns the fact that creates an event's delivery, at the time of the event.
func (s *story) queued(eventID string, moved domain.Moved) domain.Fact {
	f := s.fact(domain.DeliveryCreated{
		AccountID:     testAccount,
		EndpointID:    s.endpointID,
		WatchID:       "wat_00000000000000000000000001",
		WalletAddress: "GWALLET",
		Moved:         moved,
		Sequence:      s.version,
	})
	body := f.Body.(domain.DeliveryCreated)
	body.Event = domain.Event{
		ID:              eventID,
		Type:            domain.PaymentReceived,
		CreatedAtMillis: startMillis,
		Body:            []byte(`{"id":"` + eventID + `"}`),
	}
	if moved.Moves == 0 {
		f.AtMillis = startMillis
	}
	f.Body = body
	return f
}

// tried returns an attempt that takes 5 ms.
func (s *story) tried(
	eventID string, number, run, statusCode int, state domain.DeliveryState,
) domain.Fact {
	f := s.fact(nil)
	made := domain.AttemptMade{
		EventID:   eventID,
		EventType: domain.PaymentReceived,
		Number:    number,
		Run:       run,
		State:     state,
		Result: domain.AttemptResult{
			SentAtMillis:   f.AtMillis - 5,
			DurationMillis: 5,
			StatusCode:     statusCode,
		},
	}
	if statusCode == 0 {
		made.Result.Error, made.Result.ErrorDetail = domain.AttemptTimeout, "connect: timed out"
	}
	if state == domain.StateWaiting {
		made.NextAttemptAtMillis = f.AtMillis + 30_000
	}
	f.Body = made
	return f
}

// anEvent returns the facts of an event and of its two endpoints. The event is held, delivered,
// resent, cancelled with its endpoint and handed over, and then fails and is replayed.
func anEvent(n int) (id string, facts []domain.Fact) {
	from, to := newStory(10*n), newStory(10*n+1)
	id = domain.DeriveID(domain.EventPrefix, "steps", fmt.Sprint(n))
	again := func(s *story, run int, why domain.RequeueReason) domain.Fact {
		f := s.fact(nil)
		f.Body = domain.DeliveryRequeued{
			EventID:             id,
			Run:                 run,
			NextAttemptAtMillis: f.AtMillis,
			Reason:              why,
			Body:                []byte("{}"),
		}
		return f
	}
	facts = []domain.Fact{
		from.endpointMade(),
		from.fact(domain.EndpointDisabled{Reason: domain.DisabledManual}),
		from.fact(domain.EndpointEnabled{}),
		from.queued(id, domain.Moved{}),
		from.created(1), // another event
		from.tried(id, 1, 1, 503, domain.StateWaiting),
		from.fact(domain.EndpointDisabled{Reason: domain.DisabledManual}),
		from.fact(domain.EndpointUpdated{}),
		from.fact(domain.EndpointEnabled{}),
		from.tried(id, 2, 1, 204, domain.StateDelivered),
		from.fact(domain.EndpointDisabled{Reason: domain.DisabledManual}),
		from.fact(domain.EndpointEnabled{}),
		again(from, 2, domain.RequeueResend),
		from.fact(domain.EndpointDeleted{}),
		from.fact(domain.DeliveryCancelled{EventID: id}),
		from.fact(domain.DeliveryMoved{
			EventID:      id,
			ToEndpointID: to.endpointID,
			Moves:        1,
			Body:         []byte("{}"),
		}),
		to.endpointMade(),
		to.queued(id, domain.Moved{
			Moves:             1,
			Attempts:          2,
			Runs:              2,
			FormerEndpointIDs: []string{from.endpointID},
		}),
		to.tried(id, 3, 3, 0, domain.StateFailed),
		again(to, 4, domain.RequeueReplay),
	}
	return id, facts
}

// shownSteps returns the steps that a page should show for an event's facts, newest first. It
// leaves out other events, and endpoint facts that do not affect the delivery.
func shownSteps(id string, facts []domain.Fact) (steps []domain.Step[domain.TrackedDelivery]) {
	var state domain.TrackedDelivery
	for _, f := range facts {
		_, updates := f.Body.(domain.EndpointUpdated)
		if other := f.EventID(); updates || other != "" && other != id {
			continue
		}
		if kept, alone := f.KeptOfDelivery(); alone {
			f = kept
		}
		if created, is := f.Body.(domain.DeliveryCreated); is {
			created.Event.Body = nil
			f.Body = created
		}
		before := state
		state = state.Evolve(f)
		if f.EventID() == id || before.Held() != state.Held() || before.DueMillis() != state.DueMillis() {
			steps = append([]domain.Step[domain.TrackedDelivery]{
				{Fact: f, Before: before, After: state},
			}, steps...)
		}
	}
	return steps
}

// The steps of an event are the fold of its facts, on pages of any size, live and rebuilt.
func TestAnEventHasItsSteps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	id, facts := anEvent(0)
	r.append(facts...)
	r.append(facts[3:6]...) // repeated, as after a crash
	want := shownSteps(id, facts)
	var names []string
	for _, s := range want {
		names = append(names, fmt.Sprint(s.Fact.Body.FactType(), " ", s.After.State, s.After.Held()))
	}
	story := "[DeliveryRequeued QUEUEDfalse AttemptMade FAILEDfalse DeliveryCreated QUEUEDfalse " +
		"DeliveryMoved CANCELLEDfalse DeliveryCancelled CANCELLEDfalse EndpointDeleted QUEUEDfalse " +
		"DeliveryRequeued QUEUEDfalse AttemptMade DELIVEREDfalse EndpointEnabled WAITINGfalse " +
		"EndpointDisabled WAITINGtrue AttemptMade WAITINGfalse DeliveryCreated QUEUEDfalse]"
	if fmt.Sprint(names) != story {
		t.Fatalf("the facts tell %v, want %s", names, story)
	}
	h := r.history(0)
	r.awaitProjected()
	check := func() {
		t.Helper()
		for _, limit := range []int{1, 2, 5, 12, 250} {
			got := eventSteps(t, h, id, limit)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("by %d: the steps are %+v, want %+v", limit, got, want)
			}
		}
	}
	check()
	r.rebuiltAndVerified("delivery_facts", 5)
	check()
	for name, f := range map[string]readmodel.StepFilter{
		"another account's": {AccountID: otherAccount, ID: id, Limit: 1},
		"nobody's":          {AccountID: testAccount, ID: id[:len(id)-1] + "0", Limit: 1},
	} {
		_, err := h.EventSteps(t.Context(), f)
		t.Log(name)
		isFault(t, err, readmodel.ErrNotFound)
	}
}

func eventSteps(
	t *testing.T, h *history.History, id string, limit int,
) (all []domain.Step[domain.TrackedDelivery]) {
	t.Helper()
	f := readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: limit}
	for more := true; more; {
		page, err := h.EventSteps(t.Context(), f)
		must(t, err)
		all, more = append(all, page.Steps...), page.More
		if len(all) == 0 {
			return nil
		}
		last := all[len(all)-1].Fact
		f.Before, f.BeforeAt = last.Version, last.Aggregate
	}
	return all
}

// If the tables lack the first facts of an event, reads return an error until the tables are
// rebuilt, whichever facts are missing.
func TestEventStepsWithoutTheFirstFacts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.project(nil)
	id, facts := anEvent(0)
	resent, afterwards := anEvent(1)
	plain, plainFacts := anEvent(2)
	r.append(facts...)
	r.append(afterwards[:14]...)
	r.append(plainFacts[:10]...)
	r.awaitProjected()
	run.finish(t)
	r.exec("TRUNCATE TABLE delivery_facts")
	r.project(nil)
	r.append(afterwards[14:]...) // cancelled and handed over, which is stored
	r.awaitProjected()
	h := r.history(0)
	for _, id := range []string{id, resent} {
		_, err := h.EventSteps(t.Context(),
			readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: 10})
		isFault(t, err, readmodel.ErrFactsMissing)
	}
	// An event with attempts only has no row in the table.
	want := shownSteps(plain, plainFacts[:10])
	if got := eventSteps(t, h, plain, 250); !reflect.DeepEqual(got, want) {
		t.Errorf("without such facts it has %+v", got)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(func(c *writer.RefoldConfig) {
		c.Tables = []string{"delivery_facts"}
	})))
	for id, facts := range map[string][]domain.Fact{id: facts, resent: afterwards} {
		if got := eventSteps(t, h, id, 250); !reflect.DeepEqual(got, shownSteps(id, facts)) {
			t.Errorf("once rebuilt, it has %+v", got)
		}
	}
	r.exec("TRUNCATE TABLE facts") // without its endpoint's facts, nobody knows when it was held
	_, err := h.EventSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: plain, Limit: 10})
	isFault(t, err, readmodel.ErrFactsMissing)
}

// After a move to other topics, whose offsets begin again, earlier events must keep their steps.
// An event that is still held also gets the later facts of its endpoint.
func TestEventStepsAfterAMoveToOtherTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	run := r.project(nil)
	moved, facts := anEvent(0)
	r.append(facts...)
	s := newStory(20)
	held := domain.DeriveID(domain.EventPrefix, "held")
	r.append(
		s.endpointMade(),
		s.queued(held, domain.Moved{}),
		s.tried(held, 1, 1, 503, domain.StateWaiting),
		s.fact(domain.EndpointDisabled{Reason: domain.DisabledManual}),
	)
	r.awaitProjected()
	want := make(map[string][]domain.Step[domain.TrackedDelivery])
	for _, id := range []string{moved, held} {
		want[id] = eventSteps(t, r.history(0), id, 250)
	}
	if !want[held][0].After.Held() {
		t.Fatalf("the endpoint holds %+v", want[held][0])
	}
	run.finish(t)
	other := r.restart()
	other.world(3)
	other.project(nil)
	for n := range 8 { // some of the former offsets are passed, others are not yet
		other.append(newStory(1).created(n+1), newStory(20).created(n+5))
		other.awaitProjected()
		for id, steps := range want {
			if got := eventSteps(t, other.history(0), id, 250); !reflect.DeepEqual(got, steps) {
				t.Errorf("after %d new facts the steps of %s are %+v, want %+v", n+1, id, got, steps)
			}
		}
	}
}

// If an event began before the retention and was recalled and resent within it, the steps report
// missing facts.
func TestEventStepsBeyondTheRetention(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	s := newStory(0)
	id := domain.DeriveID(domain.EventPrefix, "old")
	r.append(
		s.endpointMade(),
		s.queued(id, domain.Moved{}),
		s.tried(id, 1, 1, 204, domain.StateDelivered),
		s.fact(domain.DeliveryRecalled{Delivery: domain.Delivery{
			EventID:         id,
			AccountID:       testAccount,
			EndpointID:      s.endpointID,
			EventType:       domain.PaymentReceived,
			State:           domain.StateDelivered,
			CreatedAtMillis: startMillis,
			Attempts:        1,
			Run:             1,
		}}),
		s.fact(domain.DeliveryRequeued{
			EventID:             id,
			Run:                 2,
			NextAttemptAtMillis: startMillis,
			Reason:              domain.RequeueResend,
			Body:                []byte("{}"),
		}),
		s.tried(id, 2, 2, 204, domain.StateDelivered),
	)
	r.awaitProjected()
	h := r.history(0)
	if got := eventSteps(t, h, id, 250); len(got) != 5 {
		t.Fatalf("the whole is %+v", got)
	}
	for _, old := range []string{"events", "attempts"} {
		r.exec("ALTER TABLE " + old + " DELETE WHERE event_id = '" + id + "' AND version < 4 " +
			"SETTINGS mutations_sync = 1")
	}
	_, err := h.EventSteps(t.Context(),
		readmodel.StepFilter{AccountID: testAccount, ID: id, Limit: 250})
	isFault(t, err, readmodel.ErrFactsMissing)
}
