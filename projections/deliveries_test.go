package projections_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// also creates a delivery at this endpoint for an event of another endpoint. With laterMillis,
// the body and the time differ.
func (s *story) also(first domain.Fact, laterMillis int64) domain.Fact {
	body := first.Body.(domain.DeliveryCreated)
	s.sequence++
	body.EndpointID, body.Sequence = s.endpointID, s.sequence
	if laterMillis > 0 {
		body.Event.CreatedAtMillis += laterMillis
		body.Event.Body = bytes.Replace(body.Event.Body, []byte("xxx"), []byte("yyy"), 1)
	}
	return s.fact(body)
}

// attempt returns the only attempt of an event, which may have been created at another endpoint.
func (s *story) attempt(eventID string, state domain.DeliveryState, status int) domain.Fact {
	return s.fact(domain.AttemptMade{
		EventID:   eventID,
		EventType: domain.PaymentReceived,
		Number:    1,
		Run:       1,
		State:     state,
		Result:    domain.AttemptResult{SentAtMillis: startMillis + int64(s.version), StatusCode: status},
	})
}

// An event with deliveries at two endpoints must be listed once, always with the same delivery,
// whatever the filter. Reading the event by its id shows that delivery and the attempts of both.
// After a hand-over, both bodies are equal and one delivery is cancelled. In data from before an
// event was limited to one delivery, bodies and times may differ and both deliveries may have
// succeeded, which is reported.
func TestEventOfTwoDeliveries(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := newStory(1), newStory(2)
	if one.endpointID > two.endpointID {
		one, two = two, one
	}
	const events = 24
	var ids, doubled []string
	present := make(map[string]string)
	for n := range events {
		created, id := one.created(n), one.eventID(n)
		ids = append(ids, id)
		present[id] = two.endpointID
		switch n % 4 {
		case 0: // handed over
			r.append(created, one.attempt(id, domain.StateWaiting, 500),
				one.fact(domain.DeliveryCancelled{EventID: id}))
			r.append(two.also(created, 0), two.attempt(id, domain.StateDelivered, 200))
		case 1: // created at both
			r.append(created, one.attempt(id, domain.StateDelivered, 200))
			r.append(two.also(created, 2), two.attempt(id, domain.StateDelivered, 200))
			doubled = append(doubled, id)
		case 2: // created at both, and one endpoint was deleted
			r.append(created, one.attempt(id, domain.StateDelivered, 200))
			r.append(two.also(created, 0), two.fact(domain.DeliveryCancelled{EventID: id}))
			present[id] = one.endpointID
		default:
			r.append(created, one.attempt(id, domain.StateDelivered, 200))
			present[id] = one.endpointID
		}
	}
	slices.Sort(ids)
	slices.Sort(doubled)
	r.project(nil)
	r.awaitProjected()
	holds := func(when string) {
		t.Helper()
		r.listsEachOnce(when, ids, present)
		r.showsBothDeliveries(when, ids, present)
		found, err := writer.Verify(t.Context(), r.refold(nil))
		must(t, err)
		var named []string
		for _, d := range found.Doubled {
			if !slices.Equal(d.Endpoints, []string{one.endpointID, two.endpointID}) {
				t.Errorf("%s: %s is named with %v", when, d.EventID, d.Endpoints)
			}
			named = append(named, d.EventID)
		}
		if len(found.Differences) > 0 || found.DoubledEvents != uint64(len(doubled)) ||
			!slices.Equal(named, doubled[:5]) {
			t.Errorf("%s: the verification found %+v", when, found)
		}
	}
	holds("projected")
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	r.awaitProjected()
	holds("rebuilt")
}

func (r *rig) listsEachOnce(when string, ids []string, present map[string]string) {
	r.t.Helper()
	for _, limit := range []int{1, 7, 250} {
		all := readmodel.EventFilter{AccountID: testAccount}
		delivered := readmodel.EventFilter{AccountID: testAccount, State: domain.StateDelivered}
		for _, f := range []readmodel.EventFilter{all, delivered} {
			got := r.list(f, limit)
			slices.Sort(got)
			if !slices.Equal(got, ids) {
				r.t.Errorf("%s: a list of %q in pages of %d has %d events, not each of %d once", when, f.State,
					limit, len(got), len(ids))
			}
		}
		cancelled := readmodel.EventFilter{AccountID: testAccount, State: domain.StateCancelled}
		if got := r.list(cancelled, limit); len(got) > 0 {
			r.t.Errorf("%s: %d events are listed as cancelled", when, len(got))
		}
		for _, endpointID := range []string{newStory(1).endpointID, newStory(2).endpointID} {
			var want []string
			for _, id := range ids {
				if present[id] == endpointID {
					want = append(want, id)
				}
			}
			got := r.list(readmodel.EventFilter{AccountID: testAccount, EndpointID: endpointID}, limit)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				r.t.Errorf("%s: in pages of %d an endpoint has the events %v, not %v", when, limit, got, want)
			}
		}
	}
}

func (r *rig) showsBothDeliveries(when string, ids []string, present map[string]string) {
	r.t.Helper()
	for _, id := range ids {
		record, err := r.history(0).Event(r.t.Context(), testAccount, id)
		must(r.t, err)
		if record.EndpointID != present[id] || record.State != domain.StateDelivered {
			r.t.Errorf("%s: %s is %s at %s, not at %s", when, id, record.State, record.EndpointID,
				present[id])
		}
		page, _, err := r.history(0).Events(r.t.Context(), readmodel.EventFilter{
			AccountID:   testAccount,
			SinceMillis: record.CreatedAtMillis,
			UntilMillis: record.CreatedAtMillis + 1,
		}, nil, 250)
		must(r.t, err)
		i := slices.IndexFunc(page, func(e readmodel.Event) bool { return e.ID == id })
		if i < 0 || !bytes.Equal(page[i].Body, record.Body) ||
			page[i].EndpointID != record.EndpointID {
			r.t.Errorf("%s: %s is not listed as it is read", when, id)
		}
		attempts := r.count("SELECT count() FROM attempts FINAL WHERE event_id = ?", id)
		last := record.Attempts[len(record.Attempts)-1]
		if len(record.Attempts) != attempts || last.EndpointID != present[id] {
			r.t.Errorf("%s: %s has %d attempts, and shows %+v", when, id, attempts, record.Attempts)
		}
	}
}

// The latest delivery after a hand-over is shown, whatever the states of the deliveries.
func TestTheLatestHandOverIsPresent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := newStory(1), newStory(2)
	if one.endpointID < two.endpointID {
		one, two = two, one
	}
	created, id := one.created(1), one.eventID(1)
	r.append(created, one.fact(domain.DeliveryCancelled{EventID: id}))
	r.append(two.also(created, 0), two.fact(domain.DeliveryCancelled{EventID: id}))
	r.project(nil)
	r.awaitProjected()
	read := func() readmodel.Event {
		t.Helper()
		record, err := r.history(0).Event(t.Context(), testAccount, id)
		must(t, err)
		return record
	}
	if at := read().EndpointID; at != one.endpointID {
		t.Errorf("of two alike, the one at %s is present", at)
	}
	r.exec("INSERT INTO deliveries (event_id, endpoint_id, moves) VALUES ('" + id + "', '" + two.endpointID + "', 1)")
	if at := read().EndpointID; at != two.endpointID {
		t.Errorf("after a hand-over, the one at %s is present", at)
	}
	if ids := r.list(readmodel.EventFilter{
		AccountID:  testAccount,
		EndpointID: two.endpointID,
		State:      domain.StateCancelled,
	}, 1); !slices.Equal(ids, []string{id}) {
		t.Errorf("the endpoint has %v", ids)
	}
}
