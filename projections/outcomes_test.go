package projections_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Lists show the number of attempts and the last status and error of the current delivery,
// whatever copies and earlier attempts there are.
func TestListsSayWhatTheLastAttemptMet(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	met := func(at int64, status int, fault domain.AttemptError) domain.AttemptResult {
		return domain.AttemptResult{SentAtMillis: startMillis + at, StatusCode: status, Error: fault}
	}
	r.append(
		s.created(0), s.created(1), s.created(2), s.created(3),
		s.attempted(1, 1, domain.StateWaiting, met(5, 0, domain.AttemptTimeout)),
		s.attempted(1, 2, domain.StateWaiting, met(6, 503, "")),
		s.attempted(2, 1, domain.StateWaiting, met(6, 500, "")),
		s.attempted(2, 2, domain.StateFailed, met(7, 0, domain.AttemptDNS)),
		s.attempted(3, 1, domain.StateDelivered, met(8, 204, "")))
	r.project(nil).finish2(r)
	r.exec("TRUNCATE TABLE projection_progress") // all rows are written again
	r.project(nil).finish2(r)
	for _, state := range []domain.DeliveryState{"", domain.StateWaiting} {
		page, _, err := r.history(0).Events(t.Context(), readmodel.EventFilter{
			AccountID: testAccount, State: state,
		}, nil, 10)
		must(t, err)
		type last struct {
			attempts, status int
			fault            domain.AttemptError
		}
		got := make(map[string]last)
		for _, e := range page {
			got[e.ID] = last{e.AttemptsMade, e.LastStatusCode, e.LastError}
		}
		for n, want := range []last{{}, {2, 503, ""}, {2, 0, domain.AttemptDNS}, {1, 204, ""}} {
			id := s.eventID(n)
			if _, listed := got[id]; (state == "" || n == 1) && (!listed || got[id] != want) {
				t.Errorf("the list of state %q has %+v for event %d, not %+v", state, got[id], n, want)
			}
		}
	}
}
