package projections_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/schemas"
)

func (r *rig) list(f readmodel.EventFilter, limit int) (ids []string) {
	r.t.Helper()
	var after *readmodel.Position
	for range 1000 {
		page, next, err := r.history(0).Events(r.t.Context(), f, after, limit)
		must(r.t, err)
		if len(page) > limit {
			r.t.Fatalf("a page has %d events, not at most %d", len(page), limit)
		}
		for _, e := range page {
			if len(e.Body) == 0 || e.State == "" {
				r.t.Fatalf("a list has %+v", e)
			}
			ids = append(ids, e.ID)
		}
		if after = next; after == nil {
			return ids
		}
	}
	r.t.Fatal("the list does not end")
	return nil
}

func TestListsNewestFirst(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	r.project(nil)
	if ids := r.list(readmodel.EventFilter{AccountID: testAccount}, 10); len(ids) != 0 {
		t.Fatalf("an empty history lists %v", ids)
	}
	one, two := newStory(1), newStory(2)
	var newest []string
	for n := range 300 {
		r.append(one.created(n), one.delivered(n, 1))
		newest = append(newest, one.eventID(n))
		if n%50 == 7 {
			r.append(two.created(n), two.refused(n, 1)) // in the same millisecond
		}
	}
	slices.Reverse(newest)
	r.awaitProjected()
	// Copy rows, as after a crash.
	for _, table := range []string{"events", "deliveries"} {
		r.exec("SYSTEM STOP MERGES " + table)
	}
	r.exec("TRUNCATE TABLE projection_progress")
	r.append(domain.Fact{
		Aggregate: one.endpointID,
		Version:   1000,
		Body:      domain.CommandHandled{CommandID: "cmd_x"},
	},
		domain.Fact{
			Aggregate: two.endpointID,
			Version:   1000,
			Body:      domain.CommandHandled{CommandID: "cmd_x"},
		})
	r.awaitProjected()
	if copies := r.count("SELECT count() FROM events"); copies < 600 {
		t.Fatalf("there are only %d rows in events: no copies to be tested", copies)
	}

	for _, limit := range []int{39, 250} {
		if ids := r.list(readmodel.EventFilter{AccountID: testAccount, EndpointID: one.endpointID},
			limit); !slices.Equal(ids, newest) {
			t.Errorf("with limit %d one's events are %d: %v…", limit, len(ids), ids[:min(len(ids), 3)])
		}
		if ids := r.list(readmodel.EventFilter{AccountID: testAccount}, limit); len(ids) != 306 {
			t.Errorf("with limit %d there are %d events, not 306", limit, len(ids))
		}
	}
	from, to := int64(startMillis+100), int64(startMillis+110)
	for name, c := range map[string]struct {
		filter readmodel.EventFilter
		want   int
	}{
		"another account": {readmodel.EventFilter{AccountID: otherAccount}, 0},
		"a state": {
			readmodel.EventFilter{AccountID: testAccount, State: domain.StateWaiting}, 6,
		},
		"another state": {
			readmodel.EventFilter{AccountID: testAccount, State: domain.StateDelivered}, 300,
		},
		"no such state": {
			readmodel.EventFilter{AccountID: testAccount, State: domain.StateFailed}, 0,
		},
		"a time": {
			readmodel.EventFilter{AccountID: testAccount, SinceMillis: from, UntilMillis: to},
			11,
		},
		"endpoint, time": {
			readmodel.EventFilter{
				AccountID:   testAccount,
				EndpointID:  two.endpointID,
				SinceMillis: from,
				UntilMillis: to,
			},
			1,
		},
		"wallet and watch": {
			readmodel.EventFilter{
				AccountID:     testAccount,
				WalletAddress: "GWALLET",
				WatchID:       "wat_00000000000000000000000001",
			},
			306,
		},
		"another wallet": {readmodel.EventFilter{AccountID: testAccount, WalletAddress: "GOTHER"}, 0},
		"a type":         {readmodel.EventFilter{AccountID: testAccount, Type: domain.TestPing}, 0},
		"another type": {
			readmodel.EventFilter{AccountID: testAccount, Type: domain.PaymentReceived}, 306,
		},
	} {
		ids := r.list(c.filter, 40)
		unique := slices.Compact(slices.Sorted(slices.Values(ids)))
		if len(ids) != c.want || len(unique) != c.want {
			t.Errorf("%s: %d events, %d of them different, not %d", name, len(ids), len(unique), c.want)
		}
	}
	page, next, err := r.history(0).Events(t.Context(),
		readmodel.EventFilter{AccountID: testAccount, EndpointID: one.endpointID}, nil, 1)
	must(t, err)
	if e := page[0]; e.State != domain.StateDelivered || e.CreatedAtMillis != startMillis+299 ||
		!bytes.HasPrefix(e.Body, []byte(`{"id":"`+e.ID)) || e.EndpointID != one.endpointID ||
		next == nil || *next != (readmodel.Position{CreatedAtMillis: e.CreatedAtMillis, ID: e.ID}) {
		t.Errorf("the newest is %+v, and then comes %+v", e, next)
	}
	if _, _, err := r.history(0).Events(t.Context(), readmodel.EventFilter{AccountID: testAccount},
		nil, 251); err == nil {
		t.Error("a page of 251 is not refused")
	}
	must(t, r.engine.Stop())
	_, _, err = r.history(0).Events(t.Context(), readmodel.EventFilter{AccountID: testAccount}, nil, 1)
	isFault(t, err, readmodel.ErrUnavailable)
}

// Enabling an endpoint makes its pending deliveries due at once, without a fact for each
// delivery. Later attempts follow the schedule again.
func TestEnablingIsCountedIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	r.append(
		s.fact(domain.EndpointCreated{EndpointID: s.endpointID, AccountID: testAccount}),
		s.created(1), s.refused(1, 1),
		s.created(2), s.delivered(2, 1),
		s.fact(domain.EndpointDisabled{Reason: domain.DisabledGone}),
		s.created(3),
	)
	row := domain.Endpoint{
		ID:               s.endpointID,
		AccountID:        testAccount,
		Version:          s.version,
		Status:           domain.StatusDisabled,
		DisabledReason:   domain.DisabledGone,
		DisabledAtMillis: startMillis,
	}
	r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(row))
	r.project(nil)
	r.awaitProjected()
	due := func(n int) int64 {
		t.Helper()
		record, err := r.history(0).Event(t.Context(), testAccount, s.eventID(n))
		must(t, err)
		page, _, err := r.history(0).Events(t.Context(), readmodel.EventFilter{
			AccountID:   testAccount,
			SinceMillis: startMillis + int64(n),
			UntilMillis: startMillis + int64(n) + 1,
		}, nil, 1)
		must(t, err)
		if listed := page[0]; listed.ID != record.ID ||
			listed.NextAttemptAtMillis != record.NextAttemptAtMillis || listed.State != record.State {
			t.Errorf("the list has %+v, and the event is %+v", listed, record)
		}
		view := int64(r.count("SELECT toUInt64(toUnixTimestamp64Milli(ifNull(next_attempt_at, toDateTime64(0, 3)))) FROM current_deliveries WHERE event_id = ?", record.ID))
		if view != record.NextAttemptAtMillis {
			t.Errorf("the view says that event %d is due at %d, not %d", n, view, record.NextAttemptAtMillis)
		}
		return view
	}
	scheduled := int64(startMillis + 7 + 30_000)
	if at := due(1); at != scheduled {
		t.Errorf("while it is disabled the waiting delivery is due at %d, not %d", at, scheduled)
	}
	if held := r.count("SELECT countIf(held) FROM current_deliveries"); held != 2 {
		t.Errorf("%d deliveries are held, not 2", held)
	}
	enabled := s.fact(domain.EndpointEnabled{})
	r.append(enabled)
	row.Status, row.DisabledReason, row.DisabledAtMillis = domain.StatusActive, "", 0
	r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(row))
	r.awaitProjected()
	if at := due(1); at != enabled.AtMillis {
		t.Errorf("the waiting delivery is due at %d, not when the endpoint was enabled, %d", at,
			enabled.AtMillis)
	}
	if at := due(2); at != 0 {
		t.Errorf("the delivered one is due at %d", at)
	}
	if held := r.count("SELECT countIf(held) FROM current_deliveries"); held != 0 {
		t.Errorf("%d deliveries are held, not none", held)
	}
	r.append(s.attempted(1, 2, domain.StateWaiting,
		domain.AttemptResult{SentAtMillis: startMillis + 500, StatusCode: 500}))
	r.awaitProjected()
	if at := due(1); at != startMillis+500+30_000 {
		t.Errorf("after another attempt it is due at %d", at)
	}
	r.append(
		s.fact(domain.DeliveryRequeued{
			EventID:             s.eventID(2),
			Run:                 2,
			NextAttemptAtMillis: startMillis + 99_000,
		}),
		s.fact(domain.EndpointDeleted{}),
		s.fact(domain.DeliveryCancelled{EventID: s.eventID(1)}),
	)
	row.Status, row.DeletedAtMillis = domain.StatusDeleted, startMillis+100_000
	r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(row))
	r.awaitProjected()
	record, err := r.history(time.Second).Recall(t.Context(), testAccount, s.eventID(2))
	must(t, err)
	if record.State != domain.StateQueued || len(record.Deliveries) != 1 ||
		record.Deliveries[0].Run != 2 || record.AttemptsMade != 1 ||
		record.NextAttemptAtMillis != startMillis+99_000 {
		t.Errorf("the requeued record is %+v", record)
	}
	n := r.count("SELECT count() FROM endpoints FINAL WHERE deleted AND status = 'deleted'")
	if n != 1 {
		t.Errorf("%d endpoints are deleted, not 1", n)
	}
	var changes []string
	must(t,
		r.sql.QueryRow(t.Context(),
			"SELECT groupArray(concat(change, reason)) FROM (SELECT * FROM endpoint_changes FINAL ORDER BY version)").Scan(
			&changes,
		))
	if got := fmt.Sprint(changes); got != "[created disabledgone enabled deleted]" {
		t.Errorf("the endpoint's history is %s", got)
	}
}
