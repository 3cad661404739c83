package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections"
)

// TestListsOfTablesThatAreBeingFilled: a history that was lost and is filled anew
// is behind, and says so. No list is a part of what was there before.
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
	delivered := projections.EventFilter{AccountID: testAccount, State: domain.StateDelivered}
	before := r.history(2 * time.Second)
	complete := func(h *projections.History) (bool, error) {
		all, after := 0, projections.EventPosition{}
		for {
			page, err := h.Events(t.Context(), delivered, 250, after)
			if err != nil {
				return false, err
			}
			all += len(page.Events)
			if after = page.Next; after == (projections.EventPosition{}) {
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
	// Nobody fills them, whether or not this process knew them.
	for _, h := range []*projections.History{before, r.history(time.Millisecond)} {
		if _, err := h.Events(t.Context(), delivered, 10, projections.EventPosition{}); !errors.Is(err, projections.ErrBehind) {
			t.Errorf("without tables a list ends with %v", err)
		}
	}
	// While they are filled, in small blocks.
	r.project(func(c *projections.ProjectorConfig) { c.BlockRows, c.BlockWait = 20, time.Millisecond })
	patient, hasty := r.history(eventualMax), r.history(time.Millisecond)
	for full := false; !full; {
		var err error
		if full, err = complete(hasty); err != nil && !errors.Is(err, projections.ErrBehind) {
			t.Fatal(err)
		}
	}
	for _, h := range []*projections.History{before, patient} {
		if _, err := complete(h); err != nil {
			t.Error(err)
		}
	}
	// A table that a rebuild exchanges is full when it comes.
	must(t, projections.Rebuild(t.Context(), r.refold(nil)))
	if _, err := complete(patient); err != nil {
		t.Error(err)
	}
	// Who cannot know what there should be, says so too.
	blind := projections.NewHistory(projections.HistoryConfig{DB: r.db, Ends: func(context.Context) (map[int32]int64, error) { return nil, errors.New("no broker") }})
	if _, err := blind.Events(t.Context(), delivered, 10, projections.EventPosition{}); !errors.Is(err, projections.ErrBehind) {
		t.Errorf("without a broker a list ends with %v", err)
	}
}
