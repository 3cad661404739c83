package api_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

const sinceBefore = `"since":"2026-11-21T00:00:00Z"`

// A replay with a filter must queue the matching events of the history, report their number
// beforehand in a dry run, and choose no others when it is repeated.
func TestAReplayWithAFilter(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e, other := w.newEndpoint(k), w.newEndpoint(k)
	failed := domain.AttemptResult{SentAtMillis: 1, StatusCode: 500}
	event := w.delivered(account("a"), e, domain.StateFailed, failed)
	path := "/v1/endpoints/" + e + "/replay"
	ask := func(path, fields string, headers ...string) string {
		t.Helper()
		a := wantStatus(t, w.call("POST", path, k, `{`+sinceBefore+fields+`}`, headers...), 200)
		return string(a.body)
	}
	const none = `{"queued":0,"matched":0,"truncated":false`
	const one = `{"queued":0,"matched":1,"truncated":false`
	for fields, want := range map[string]string{
		`,"dryRun":true`: one + `,"dryRun":true}`,
		`,"dryRun":true,"asset":"XLM","minAmount":"12.5","maxAmount":"12.5"`: one + `,"dryRun":true}`,
		`,"dryRun":true,"minAmount":"12.6"`:                                  none + `,"dryRun":true}`,
		`,"minAmount":"12.6"`:                                                none + `}`,
		`,"dryRun":true,"until":"2026-11-21T00:00:01Z"`:                      none + `,"dryRun":true}`,
		`,"sender":"` + payer + `","type":"payment.received","dryRun":true`:  one + `,"dryRun":true}`,
		`,"type":"payment.rejected"`:                                         none + `}`,
	} {
		if got := ask(path, fields); got != want {
			t.Errorf("%s: %s, not %s", fields, got, want)
		}
	}
	if got := ask("/v1/endpoints/"+other+"/replay", `,"asset":"XLM"`); got != none+"}" {
		t.Errorf("another endpoint: %s", got)
	}
	if state := w.history[event.ID].record.State; state != domain.StateFailed {
		t.Fatalf("what asked for nothing has made it %s", state)
	}
	const queued = `{"queued":1,"matched":1,"truncated":false}`
	byHash := fmt.Sprintf(`,"txHash":%q`, strings.Repeat("Ab", 32))
	if got := ask(path, byHash, "Idempotency-Key", "k"); got != queued {
		t.Fatalf("%s", got)
	}
	r := w.history[event.ID]
	r.record.State = domain.StateFailed
	w.history[event.ID] = r // it failed again
	if got := ask(path, byHash, "Idempotency-Key", "k"); got != queued ||
		w.history[event.ID].record.State != domain.StateFailed {
		t.Errorf("a repeat: %s, and the event is %s", got, w.history[event.ID].record.State)
	}
}

func TestReplaysThatAreRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k) + "/replay"
	for fields, want := range map[string][]string{
		`,"dryRun":1`:                      {"/dryRun INVALID_TYPE"},
		`,"type":"test.ping"`:              {"/type INVALID_VALUE"},
		`,"type":"x"`:                      {"/type INVALID_VALUE"},
		`,"memo":""`:                       {"/memo EMPTY"},
		`,"minAmount":5`:                   {"/minAmount INVALID_TYPE"},
		`,"asset":"USD"`:                   {"/asset INVALID_VALUE"},
		`,"state":"DELIVERED"`:             {"/state UNKNOWN_FIELD"},
		`,"endpointId":"ep_1"`:             {"/endpointId UNKNOWN_FIELD"},
		`,"txHash":"x","memo":""`:          {"/memo EMPTY", "/txHash INVALID_VALUE"},
		`,"minAmount":"2","maxAmount":"1"`: {"/maxAmount RANGE_IS_EMPTY"},
	} {
		p := wantProblem(t, w.call("POST", path, k, `{`+sinceBefore+fields+`}`), 422,
			"VALIDATION_FAILED")
		got := pointers(p)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, not %v", fields, got, want)
		}
	}
	w.historyErr = readmodel.ErrBehind
	wantProblem(t, w.call("POST", path, k, `{`+sinceBefore+`,"memo":"1"}`), 503, "HISTORY_BEHIND")
	wantProblem(t, w.call("POST", path, k, `{`+sinceBefore+`,"dryRun":true}`), 503, "HISTORY_BEHIND")
	wantStatus(t, w.call("POST", path, k, `{`+sinceBefore+`}`), 200) // the engine knows these
}
