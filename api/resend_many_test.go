package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// A resend with a filter must send the matching events in any state, report their number beforehand
// in a dry run, and send no event twice when it is repeated.
func TestAResendWithAFilter(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e, other := w.newEndpoint(k), w.newEndpoint(k)
	var events []string
	for i, state := range []domain.DeliveryState{domain.StateFailed, domain.StateDelivered} {
		events = append(events, w.deliveredOf(fmt.Sprint(i+1), account("a"), e, state,
			domain.AttemptResult{SentAtMillis: 1, StatusCode: 500}).ID)
	}
	wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/test", k, ""), 200)
	ask := func(fields string, headers ...string) string {
		t.Helper()
		a := wantStatus(t, w.call("POST", "/v1/events/resend", k, `{`+fields+`}`, headers...), 200)
		return string(a.body)
	}
	count := func(n int) string {
		return fmt.Sprintf(`{"queued":0,"matched":%d,"refused":[],"truncated":false,"nextCursor":null,"dryRun":true}`, n)
	}
	for fields, want := range map[string]string{
		`"dryRun":true,"endpointId":"` + e + `"`:                      count(2),
		`"dryRun":true,"endpointId":"` + other + `"`:                  count(0),
		`"dryRun":true,"state":"DELIVERED"`:                           count(1),
		`"dryRun":true,"type":"test.ping"`:                            count(1),
		`"dryRun":true,"asset":"XLM","minAmount":"12.6"`:              count(0),
		`"dryRun":true,"asset":"XLM","until":"2026-11-21T00:00:00Z"`:  count(0),
		`"dryRun":true,"since":"2026-11-21T00:00:00Z","watchId":null`: count(2),
	} {
		if got := ask(fields); got != want {
			t.Errorf("%s: %s, not %s", fields, got, want)
		}
	}
	states := func() (both string) {
		for _, id := range events {
			both += string(w.history[id].record.State) + ";"
		}
		return both
	}
	if got := states(); got != "FAILED;DELIVERED;" {
		t.Fatalf("what asked for nothing has made them %s", got)
	}
	const queued = `{"queued":2,"matched":2,"refused":[],"truncated":false,"nextCursor":null}`
	byAsset := `"asset":"XLM"`
	if got := ask(byAsset, "Idempotency-Key", "k"); got != queued {
		t.Fatalf("%s", got)
	}
	if got := states(); got != "QUEUED;QUEUED;" {
		t.Fatalf("the events are %s", got)
	}
	for _, id := range events { // they are settled again
		r := w.history[id]
		r.record.State = domain.StateFailed
		w.history[id] = r
	}
	again := wantStatus(t, w.call("POST", "/v1/events/resend", k, `{`+byAsset+`}`, "Idempotency-Key",
		"k"), 200)
	if string(again.body) != queued || again.Header.Get("Idempotent-Replayed") != "true" ||
		states() != "FAILED;FAILED;" {
		t.Errorf("a repeat: %s, and the events are %s", again.body, states())
	}
	anew := w.call("POST", "/v1/events/resend", k, `{"state":"FAILED"}`, "Idempotency-Key", "k")
	wantProblem(t, anew, 422, "IDEMPOTENCY_KEY_REUSED")
}

// A request must send at most 1,000 events, and the next one must continue after them.
func TestAResendOfManyGoesOn(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	const events = 1003
	for i := range events {
		e := domain.DeriveID(domain.EndpointPrefix, fmt.Sprint(i))
		w.deliveredOf(fmt.Sprint(i+1), account("a"), e, domain.StateFailed,
			domain.AttemptResult{SentAtMillis: 1})
	}
	ask := func(fields string) []byte {
		t.Helper()
		body := `{"asset":"XLM"` + fields + `}`
		return wantStatus(t, w.call("POST", "/v1/events/resend", k, body), 200).body
	}
	queued := func() (n int) {
		for _, r := range w.history {
			if r.record.State == domain.StateQueued {
				n++
			}
		}
		return n
	}
	counted := ask(`,"dryRun":true`)
	if in(t, counted, "matched") != float64(events) || in(t, counted, "truncated") != true {
		t.Errorf("%s", counted)
	}
	first := ask("")
	cursor, is := in(t, first, "nextCursor").(string)
	if !is || queued() != 1000 || in(t, first, "queued") != 1000.0 ||
		in(t, first, "truncated") != true {
		t.Fatalf("%d are queued: %s", queued(), first)
	}
	if rest := ask(`,"cursor":"` + cursor + `"`); in(t, rest, "queued") != 3.0 ||
		in(t, rest, "nextCursor") != nil || queued() != events {
		t.Errorf("%d are queued: %s", queued(), rest)
	}
	p := w.call("POST", "/v1/events/resend", k, `{"state":"FAILED","cursor":"`+cursor+`"}`)
	wantProblem(t, p, 400, "INVALID_CURSOR")
}

// The refusal of one event must not stop the others. An error that affects all of them must.
func TestEventsThatAreNotResent(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e, gone := w.newEndpoint(k), w.newEndpoint(k)
	sent := domain.AttemptResult{SentAtMillis: 1, StatusCode: 200}
	w.deliveredOf("1", account("a"), e, domain.StateDelivered, sent)
	lost := w.deliveredOf("2", account("a"), gone, domain.StateDelivered, sent).ID
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+gone, k, ""), 200)
	got := wantStatus(t, w.call("POST", "/v1/events/resend", k, `{"asset":"XLM"}`), 200)
	want := fmt.Sprintf(`{"queued":1,"matched":2,"refused":[{"eventId":%q,"code":"ENDPOINT_DELETED"}],`+
		`"truncated":false,"nextCursor":null}`, lost)
	if string(got.body) != want {
		t.Errorf("%s, not %s", got.body, want)
	}
	for fields, want := range map[string][]string{
		``:                                {" REQUIRED"},
		`"dryRun":true`:                   {" REQUIRED"},
		`"state":null`:                    {" REQUIRED"},
		`"state":"x"`:                     {"/state INVALID_VALUE"},
		`"cursor":7,"memo":"1"`:           {"/cursor INVALID_TYPE"},
		`"minAmount":"2","maxAmount":"1"`: {"/maxAmount RANGE_IS_EMPTY"},
		`"since":"2026-11-21T10:15:30Z","until":"2026-11-21T10:15:30Z"`: {"/until RANGE_IS_EMPTY"},
	} {
		p := wantProblem(t, w.call("POST", "/v1/events/resend", k, `{`+fields+`}`), 422,
			"VALIDATION_FAILED")
		if got := pointers(p); !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", fields, got, want)
		}
	}
	reader := w.newKey(account("a"), domain.PermissionRead, domain.PermissionWrite)
	wantProblem(t, w.call("POST", "/v1/events/resend", reader, `{"asset":"XLM"}`), 403,
		"MISSING_PERMISSION")
	stranger := w.newKey(account("b"), domain.Permissions()...)
	of := wantStatus(t, w.call("POST", "/v1/events/resend", stranger, `{"asset":"XLM"}`), 200)
	if !strings.Contains(string(of.body), `"matched":0`) {
		t.Errorf("another account: %s", of.body)
	}
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("POST", "/v1/events/resend", k, `{"asset":"XLM"}`), 503, "HISTORY_BEHIND")
}
