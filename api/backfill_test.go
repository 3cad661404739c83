package api_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// fold applies facts to a watch, like the follower's reports.
func (w *world) fold(watchID string, bodies ...domain.FactBody) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := w.watches[watchID]
	for _, b := range bodies {
		state = domain.EvolveWatch(state,
			domain.Fact{
				Aggregate: watchID,
				Version:   state.Version + 1,
				AtMillis:  w.now.UnixMilli(),
				Body:      b,
			})
	}
	w.watches[watchID] = state
}

var counts = []string{"ledgersRead", "paymentsMatched", "alreadyDelivered", "eventsCreated"}

func TestBackfill(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	id := in(t, w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), "")).body, "id").(string)
	path := "/v1/watches/" + id
	shown := func(got answer, want string) {
		t.Helper()
		view := in(t, wantStatus(t, got, 200).body, "backfill")
		if fields, is := view.(map[string]any); is {
			maps.DeleteFunc(fields, func(name string, _ any) bool { return slices.Contains(counts, name) })
		}
		if have := fmt.Sprint(view); have != want {
			t.Errorf("shows %s, want %s", have, want)
		}
	}
	const at = " requestedAt:2026-11-21T10:15:30.123Z"
	shown(w.call("GET", path, k, ""), "<nil>")
	asked := w.call("POST", path+"/backfill", k, `{"from":1}`, "Idempotency-Key", "one")
	shown(asked, "map[done:false from:2 next:2 problem:<nil>"+at+" to:<nil>]")
	if asked.Header.Get("ETag") != `"1"` {
		t.Errorf("the revision is %s: a backfill configures nothing", asked.Header.Get("ETag"))
	}
	facts := w.facts
	again := w.call("POST", path+"/backfill", k, `{"from":1}`, "Idempotency-Key", "one")
	if again.Header.Get("Idempotent-Replayed") != "true" || string(again.body) != string(asked.body) ||
		w.facts != facts {
		t.Errorf("repeated: %s", again.body)
	}
	w.fold(id, domain.RangeCovered{
		Request: 2, From: 2, To: 40, Until: 99, LiveSince: 5000, Next: 41,
	})
	shown(w.call("GET", path, k, ""), "map[done:false from:2 next:41 problem:<nil>"+at+" to:99]")
	w.fold(id, domain.RangeCovered{Request: 2, From: 41, To: 99, Until: 99, Next: 100})
	shown(w.call("GET", path, k, ""), "map[done:true from:2 next:100 problem:<nil>"+at+" to:99]")
	shown(w.call("POST", path+"/backfill", k, `{"from":7,"to":7}`),
		"map[done:false from:7 next:7 problem:<nil>"+at+" to:7]")
	w.fold(id, domain.RangeCovered{Request: 5, Until: 7, Next: 7})
	w.fold(id, domain.BackfillStopped{Request: 5, Problem: "ledger 7 is gone", Next: 8})
	shown(w.call("GET", path, k, ""),
		"map[done:false from:7 next:8 problem:ledger 7 is gone"+at+" to:7]")

	for body, want := range map[string][]string{
		`{}`:                             {"/from REQUIRED"},
		`{"to":4}`:                       {"/from REQUIRED"},
		`{"from":null}`:                  {"/from REQUIRED"},
		`{"from":0}`:                     {"/from OUT_OF_RANGE"},
		`{"from":2.5,"to":2147483648}`:   {"/from OUT_OF_RANGE", "/to OUT_OF_RANGE"},
		`{"from":"2"}`:                   {"/from INVALID_TYPE"},
		`{"from":5,"to":4}`:              {"/to RANGE_IS_EMPTY"},
		`{"from":5,"until":9,"to":null}`: {"/until UNKNOWN_FIELD"},
		`[]`:                             {" INVALID_TYPE"},
	} {
		got := w.call("POST", path+"/backfill", k, body)
		if p := decode[problem.Problem](t, got.body); got.StatusCode != 422 ||
			!slices.Equal(pointers(p), want) {
			t.Errorf("%s: %d %v", body, got.StatusCode, pointers(p))
		}
	}
	for i := range uint32(domain.MaxCoveredRanges) {
		w.fold(id, domain.RangeCovered{From: 200 + 10*i, To: 200 + 10*i})
	}
	wantProblem(t, w.call("POST", path+"/backfill", k, `{"from":150,"to":150}`),
		409, "TOO_MANY_RANGES")
	wantStatus(t, w.call("DELETE", path, k, ""), 204)
	wantProblem(t, w.call("POST", path+"/backfill", k, `{"from":1}`), 404, "NOT_FOUND")
}

// The response must show the number of ledgers that were read and what became of the payments in
// them.
func TestBackfillCounts(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	id := in(t, w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k), "")).body, "id").(string)
	wantStatus(t, w.call("POST", "/v1/watches/"+id+"/backfill", k, `{"from":11,"to":40}`), 200)
	w.fold(id, domain.RangeCovered{LiveSince: 30})
	w.fold(id, domain.PartBegun{Request: 2, From: 11, To: 30})
	w.fold(id, domain.RangeCovered{
		Request: 2, From: 11, To: 30, Until: 40, Part: 4, Next: 31, Matched: 5, Created: 3,
	})
	got := wantStatus(t, w.call("GET", "/v1/watches/"+id, k, ""), 200)
	for i, want := range []float64{20, 5, 2, 3} {
		if have := in(t, got.body, "backfill", counts[i]); have != want {
			t.Errorf("%s is %v, want %v", counts[i], have, want)
		}
	}
}
