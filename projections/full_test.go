package projections_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A history that was lost and is being refilled must report that it is behind. No list may show
// only a part of the earlier rows.
func TestListsOfTablesThatAreBeingFilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const events = 400
	var stories []*story
	for n := range 4 {
		stories = append(stories, newStory(n))
	}
	for n := range events {
		s := stories[n%len(stories)]
		r.append(s.created(n), s.delivered(n, 1))
	}
	delivered := readmodel.EventFilter{AccountID: testAccount, State: domain.StateDelivered}
	before := r.history(2 * time.Second)
	complete := func(h *history.History) (bool, error) {
		all, after := 0, (*readmodel.Position)(nil)
		for {
			page, next, err := h.Events(t.Context(), delivered, after, 250)
			if err != nil {
				return false, err
			}
			all += len(page)
			if after = next; after == nil {
				break
			}
		}
		if all != events {
			t.Fatalf("a list has %d events of %d and says nothing", all, events)
		}
		return true, nil
	}
	run := r.project(nil)
	r.awaitProjected()
	if _, err := complete(before); err != nil {
		t.Fatal(err)
	}
	run.finish(t)
	for _, lost := range []string{"events", "deliveries"} {
		r.exec("DROP TABLE " + lost + " SYNC")
	}
	// No projector runs. The first history knows the tables, and the second does not.
	for _, h := range []*history.History{before, r.history(time.Millisecond)} {
		if _, _, err := h.Events(t.Context(), delivered, nil, 10); !errors.Is(err,
			readmodel.ErrBehind) {
			t.Errorf("without tables a list ends with %v", err)
		}
	}
	// The tables are being filled in small blocks.
	r.project(func(c *writer.ProjectorConfig) { c.BlockRows, c.BlockWait = 20, time.Millisecond })
	patient, hasty := r.history(eventualMax), r.history(time.Millisecond)
	for full := false; !full; {
		var err error
		if full, err = complete(hasty); err != nil && !errors.Is(err, readmodel.ErrBehind) {
			t.Fatal(err)
		}
	}
	for _, h := range []*history.History{before, patient} {
		if _, err := complete(h); err != nil {
			t.Error(err)
		}
	}
	// A table exchanged by a rebuild is complete at once.
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	if _, err := complete(patient); err != nil {
		t.Error(err)
	}
	// Without the journal's ends it is unknown whether the tables are complete, which is also an
	// error.
	blind := history.New(history.Config{
		DB:   r.db,
		Ends: func(context.Context) (map[int32]int64, error) { return nil, errors.New("no broker") },
	})
	if _, _, err := blind.Events(t.Context(), delivered, nil, 10); !errors.Is(err,
		readmodel.ErrBehind) {
		t.Errorf("without a broker a list ends with %v", err)
	}
}

// An event that is read before the tables are complete may lack later facts, so it is marked as
// behind. An event without the mark is complete.
func TestAnEventOfTablesThatAreBeingFilledSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	r.append(s.created(1))
	run := r.project(nil)
	r.awaitProjected()
	run.finish(t)
	r.append(s.delivered(1, 1))
	read := func(h *history.History) readmodel.Event {
		t.Helper()
		record, err := h.Event(t.Context(), testAccount, s.eventID(1))
		must(t, err)
		return record
	}
	hasty := r.history(50 * time.Millisecond)
	if got := read(hasty); !got.Behind || got.State != domain.StateQueued || len(got.Attempts) != 0 {
		t.Errorf("of tables that are half filled it is %s, behind: %t", got.State, got.Behind)
	}
	_, err := hasty.Event(t.Context(), testAccount, s.eventID(2))
	isFault(t, err, readmodel.ErrBehind)
	run = r.project(nil)
	r.awaitProjected()
	testkit.EventuallyNil(t, "the mark is taken away", func() error {
		if read(hasty).Behind {
			return readmodel.ErrBehind
		}
		return nil
	})
	patient := r.history(0)
	for _, h := range []*history.History{hasty, patient} {
		if got := read(h); got.State != domain.StateDelivered || len(got.Attempts) != 1 {
			t.Errorf("of full tables it is %s, with %d attempts", got.State, len(got.Attempts))
		}
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	if got := read(patient); got.Behind || len(got.Attempts) != 1 {
		t.Errorf("after a rebuild %d attempts, behind: %t", len(got.Attempts), got.Behind)
	}
	run.finish(t)
	r.exec("DROP TABLE events SYNC")
	_, err = hasty.Event(t.Context(), testAccount, s.eventID(1))
	isFault(t, err, readmodel.ErrBehind)
}

// A resend starts at the event's first endpoint. While tables are being refilled, a later
// delivery may appear before the first, so the endpoint must not be guessed.
func TestWhereAnEventWentFirstIsNotGuessed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := newStory(1), newStory(2)
	created := first.created(1)
	moved := created.Body.(domain.DeliveryCreated)
	moved.EndpointID, moved.Moved.Moves = second.endpointID, 1
	r.project(nil)
	reader := r.history(0)
	for _, c := range []struct {
		fact domain.Fact
		want string
	}{{second.fact(moved), ""}, {created, first.endpointID}} {
		r.append(c.fact)
		r.awaitProjected()
		record, err := reader.Recall(t.Context(), testAccount, first.eventID(1))
		must(t, err)
		if c.want == "" != (len(record.Deliveries) == 0) || record.EndpointID != second.endpointID {
			t.Fatalf("it has %d deliveries and is at %s; want the first one %q", len(record.Deliveries),
				record.EndpointID, c.want)
		}
		if c.want != "" && record.Deliveries[0].EndpointID != c.want {
			t.Errorf("it went to %s first, not %s", record.Deliveries[0].EndpointID, c.want)
		}
	}
}

// Recall returns an event with each of its deliveries, with the later endpoints as soon as their
// facts are projected, and with offsets up to which nothing is missing. An event without a body
// has expired.
func TestWhatIsRecalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := newStory(1), newStory(2)
	created, id := first.created(1), first.eventID(1)
	r.append(created, first.attempt(id, domain.StateWaiting, 500),
		first.fact(domain.DeliveryCancelled{EventID: id}),
		first.fact(domain.DeliveryMoved{EventID: id, ToEndpointID: second.endpointID, Moves: 1}))
	r.project(nil)
	r.awaitProjected()
	reader := r.history(0)
	want := []domain.Delivery{{
		EventID:         id,
		AccountID:       testAccount,
		EndpointID:      first.endpointID,
		State:           domain.StateCancelled,
		CreatedAtMillis: startMillis + 1,
		Sequence:        1,
		MovedTo:         second.endpointID,
		Attempts:        1,
		Run:             1,
	}}
	for range 2 {
		ends, err := r.journalEnds(t.Context())
		must(t, err)
		record, err := reader.Recall(t.Context(), testAccount, id)
		must(t, err)
		if !reflect.DeepEqual(record.Deliveries, want) {
			t.Errorf("recalled %+v, want %+v", record.Deliveries, want)
		}
		partitionOf := kafka.PartitionOf(len(ends))
		for _, endpoint := range []string{first.endpointID, second.endpointID} {
			if at := record.AsOf(endpoint); at != ends[partitionOf(endpoint)] {
				t.Errorf("recalled as of %d, want %d", at, ends[partitionOf(endpoint)])
			}
		}
		moved := created.Body.(domain.DeliveryCreated)
		moved.EndpointID, moved.Moved = second.endpointID, domain.Moved{Moves: 1, Attempts: 1, Runs: 1}
		moved.Sequence = 9
		r.append(second.fact(moved))
		r.awaitProjected()
		want = append(want, domain.Delivery{
			EventID:           id,
			AccountID:         testAccount,
			EndpointID:        second.endpointID,
			State:             domain.StateQueued,
			CreatedAtMillis:   startMillis + 1,
			Sequence:          9,
			Moves:             1,
			FormerEndpointIDs: []string{first.endpointID},
			Attempts:          1,
			Run:               2,
		})
	}
	r.exec("ALTER TABLE events DELETE WHERE event_id = '" + id + "' SETTINGS mutations_sync = 2")
	// In about one of ten runs the engine aborts because rows of a new table were deleted, and is
	// restarted.
	testkit.EventuallyNil(t, "an event without a body has expired", func() error {
		_, err := reader.Recall(t.Context(), testAccount, id)
		if errors.Is(err, readmodel.ErrExpired) && errors.Is(err, readmodel.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("recalled: %w", err)
	})
	testkit.EventuallyNil(t, "it is not found", func() error {
		_, err := reader.Event(t.Context(), testAccount, id)
		if errors.Is(err, readmodel.ErrNotFound) {
			return nil
		}
		return fmt.Errorf("read: %w", err)
	})
}
