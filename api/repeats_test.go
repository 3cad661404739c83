package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// repeatable has the bodies of every operation that accepts an Idempotency-Key, by operationId. The
// objects in a path are created by [newRepetition].
var repeatable = map[string]func(*repetition) string{
	"createEndpoint":   text(`{"url":"https://new.invalid","headers":{"X-A":"1"}}`),
	"updateEndpoint":   text(`{"url":"https://other.invalid"}`),
	"deleteEndpoint":   text(``),
	"enableEndpoint":   text(``),
	"disableEndpoint":  text(``),
	"rotateSecret":     text(``),
	"rotateSigningKey": text(``),
	"testEndpoint":     text(``),
	"replayEndpoint":   text(`{"since":"2026-11-21T00:00:00Z"}`),
	"createWatch":      func(r *repetition) string { return watchBody(r.endpoint, "") },
	"updateWatch":      text(`{"label":"other"}`),
	"deleteWatch":      text(``),
	"backfillWatch":    text(`{"from":1}`),
	"resendEvent":      text(``),
	"resendEvents":     text(`{"asset":"XLM"}`),
	"createKey":        text(`{"permissions":["read"],"expiresAt":"2026-11-21T10:30:00Z"}`),
	"rollKey":          text(`{"expiresAt":"2026-11-21T10:30:00Z"}`),
	"revokeKey":        text(``),
}

func text(body string) func(*repetition) string { return func(*repetition) string { return body } }

// repetition is a world with one object of each kind.
type repetition struct {
	*world
	key                            string
	endpoint, watch, event, apiKey string
}

func newRepetition(t *testing.T) *repetition {
	r := &repetition{world: newWorld(t)}
	r.key = r.newKey(account("a"), domain.Permissions()...)
	r.endpoint = r.newEndpoint(r.key)
	made := func(path, body string) string {
		return in(t, wantStatus(t, r.call("POST", path, r.key, body), 201).body, "id").(string)
	}
	r.watch = made("/v1/watches", watchBody(r.endpoint, ""))
	r.apiKey = made("/v1/api-keys", `{"permissions":["read"]}`)
	failed := domain.AttemptResult{SentAtMillis: 1, StatusCode: 500}
	r.event = r.delivered(account("a"), r.endpoint, domain.StateFailed, failed).ID
	return r
}

// path fills ids into a path of openapi.yaml.
func (r *repetition) path(template string) string {
	kind := strings.Split(template, "/")[2]
	ids := map[string]string{
		"endpoints": r.endpoint,
		"watches":   r.watch,
		"events":    r.event,
		"api-keys":  r.apiKey,
	}
	return strings.Replace(template, "{id}", ids[kind], 1)
}

// passages change everything that a response may depend on.
var passages = map[string]func(*repetition){
	"disabled": func(r *repetition) {
		for id := range r.endpoints {
			r.call("POST", "/v1/endpoints/"+id+"/disable", r.key, "")
		}
	},
	"deleted": func(r *repetition) {
		for id := range r.endpoints {
			r.call("DELETE", "/v1/endpoints/"+id, r.key, "")
		}
	},
	"all deleted": func(r *repetition) {
		for id := range r.endpoints {
			r.call("DELETE", "/v1/endpoints/"+id, r.key, "")
		}
		r.call("DELETE", "/v1/watches/"+r.watch, r.key, "")
		r.call("DELETE", "/v1/api-keys/"+r.apiKey, r.key, "")
	},
}

// pass advances the clock by an hour. In that time hosts and wallets appear, keys are used,
// deliveries are made, and the node restarts.
func (r *repetition) pass(what func(*repetition)) {
	what(r)
	r.now = r.now.Add(time.Hour)
	r.wallets[wallet] = nil
	for _, a := range r.accounts {
		for _, k := range a.Keys {
			r.used[k.ID] = r.now.UnixMilli()
		}
	}
	for id, e := range r.history {
		e.record.State, e.record.NextAttemptAtMillis = domain.StateDelivered, 0
		r.history[id] = e
	}
	r.attempt = domain.AttemptResult{SentAtMillis: 2, DurationMillis: 99, StatusCode: 418}
	r.restart(func(c *api.Config) { c.URLs = resolving{r.world} })
	if err := r.Confirm(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

type resolving struct{ api.URLPolicy }

func (p resolving) Check(ctx context.Context, raw string) (string, []string, []api.URLFault) {
	url, _, faults := p.URLPolicy.Check(ctx, raw)
	return url, nil, faults
}

// TestARepeatIsTheFirstAnswer repeats every operation that accepts an Idempotency-Key after
// everything has changed. Fields that differ must be listed as x-live-in-repeats in openapi.yaml,
// and no others. A new operation must be added to the table.
func TestARepeatIsTheFirstAnswer(t *testing.T) {
	document, err := loadOpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for path, item := range document.Paths.Map() {
		for method, o := range item.Operations() {
			if !takesIdempotencyKey(o) {
				// A portal link isn't stored, so a repeat has no effect.
				if method == http.MethodPost && o.OperationID != "createPortalLink" {
					t.Errorf("%s takes no Idempotency-Key", o.OperationID)
				}
				continue
			}
			known[o.OperationID] = true
			t.Run(o.OperationID, func(t *testing.T) { repeat(t, method, path, o) })
		}
	}
	for _, id := range slices.Sorted(maps.Keys(repeatable)) {
		if !known[id] {
			t.Errorf("openapi.yaml describes no %s", id)
		}
	}
}

func takesIdempotencyKey(o *openapi3.Operation) bool {
	return slices.ContainsFunc(o.Parameters, func(p *openapi3.ParameterRef) bool {
		return p.Value.Name == "Idempotency-Key"
	})
}

func repeat(t *testing.T, method, path string, o *openapi3.Operation) {
	body, joined := repeatable[o.OperationID]
	if !joined {
		t.Fatal("add a body for it to the table of this test")
	}
	live := liveInRepeats(o)
	differing := make(map[string]bool)
	for what, change := range passages {
		r := newRepetition(t)
		ask := func() answer {
			return r.call(method, r.path(path), r.key, body(r), "Idempotency-Key", "once")
		}
		first := ask()
		if first.StatusCode/100 != 2 || first.Header.Get("Idempotent-Replayed") != "" {
			t.Fatalf("%d %s", first.StatusCode, first.body)
		}
		r.pass(change)
		again := ask()
		if again.StatusCode != first.StatusCode || again.Header.Get("Idempotent-Replayed") != "true" {
			t.Fatalf("%s: %d %s", what, again.StatusCode, again.body)
		}
		for _, name := range []string{"Location", "ETag", "Content-Type"} {
			if again.Header.Get(name) != first.Header.Get(name) {
				t.Errorf("%s: %s is %q, first %q", what, name, again.Header.Get(name), first.Header.Get(name))
			}
		}
		for at, now := range differences(t, first.body, again.body) {
			if differing[at] = true; !slices.Contains(live, at) {
				t.Errorf("%s: %s is %s, and not named in x-live-in-repeats", what, at, now)
			}
		}
	}
	for _, at := range live {
		if !differing[at] {
			t.Errorf("%s is named in x-live-in-repeats and is the first answer's", at)
		}
	}
}

// liveInRepeats returns the fields of an operation that a repeat shows as they are now, as JSON
// pointers: its x-live-in-repeats.
func liveInRepeats(o *openapi3.Operation) (pointers []string) {
	list, _ := o.Extensions["x-live-in-repeats"].([]any)
	for _, at := range list {
		pointers = append(pointers, fmt.Sprint(at))
	}
	return pointers
}

// differences returns the fields that differ between two objects, with both values. A list is one
// field.
func differences(t *testing.T, first, again []byte) map[string]string {
	one, other := fieldsOf(t, first), fieldsOf(t, again)
	found := make(map[string]string)
	all := slices.Concat(slices.Collect(maps.Keys(one)), slices.Collect(maps.Keys(other)))
	for _, at := range all {
		a, isOne := one[at]
		b, isOther := other[at]
		if isOne != isOther || !reflect.DeepEqual(a, b) {
			found[at] = fmt.Sprintf("%v, first %v", b, a)
		}
	}
	return found
}

func fieldsOf(t *testing.T, body []byte) map[string]any {
	fields := make(map[string]any)
	if len(body) == 0 {
		return fields
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		object, is := v.(map[string]any)
		if !is {
			fields[at] = v
			return
		}
		for name, value := range object {
			walk(at+"/"+name, value)
		}
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	walk("", v)
	return fields
}

// The engine leaves a watch's senders out of its answer to a change of the label. The client must
// get them anyway, even in a repeat after they were changed, and never those of another time.
func TestARepeatHasTheSendersOfItsFirstAnswer(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	var senders []string
	for i := range 20 {
		sender, err := strkey.Encode(strkey.VersionByteAccountID, bytes.Repeat([]byte{byte(i)}, 32))
		if err != nil {
			t.Fatal(err)
		}
		senders = append(senders, fmt.Sprintf("%q", sender))
	}
	list := strings.Join(senders, ",")
	made := wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(w.newEndpoint(k), `,"senderAllowlist":[`+list+`]`)), 201)
	path := "/v1/watches/" + in(t, made.body, "id").(string)
	for _, ask := range []struct{ method, path, body string }{
		{"PATCH", path, `{"label":"other"}`}, {"POST", path + "/backfill", `{"from":1}`},
	} {
		call := func(status int) answer {
			return wantStatus(t, w.call(ask.method, ask.path, k, ask.body,
				"Idempotency-Key", "of "+ask.body), status)
		}
		first := call(200)
		if !strings.Contains(string(first.body), `"senderAllowlist":[`+list+`]`) {
			t.Fatalf("%s lacks the senders: %s", ask.path, first.body)
		}
		change := func(list string) {
			wantStatus(t, w.call("PATCH", path, k, `{"senderAllowlist":[`+list+`]}`), 200)
		}
		change(senders[0])
		if again := call(200); !bytes.Equal(again.body, first.body) ||
			again.Header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s is repeated as %s, first %s", ask.path, again.body, first.body)
		}
		w.historyErr = readmodel.ErrUnavailable
		wantProblem(t, call(503), 503, "HISTORY_BEHIND")
		w.historyErr = nil
		change(list)
	}
}
