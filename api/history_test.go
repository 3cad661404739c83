package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

type happened struct {
	Data []struct {
		Version uint64
		Fact    string
		Changes []struct {
			Field         string
			Before, After any
		}
		State map[string]any
	}
	NextCursor *string
}

func (w *world) happenedTo(path, apiKey string) happened {
	w.t.Helper()
	return decode[happened](w.t, wantStatus(w.t, w.call("GET", path, apiKey, ""), 200).body)
}

// changed returns the changes of each fact in a short form.
func (h happened) changed() (facts []string) {
	for _, f := range h.Data {
		text := f.Fact
		for _, c := range f.Changes {
			if c.Field != "updatedAt" {
				text += fmt.Sprintf(" %s:%v→%v", c.Field, c.Before, c.After)
			}
		}
		facts = append(facts, text)
	}
	return facts
}

func TestAWatchsHistory(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(w.newEndpoint(k), `,"amountRule":{"kind":"min","amount":"1"}`)), 201)
	watch := decode[struct{ ID string }](t, made.body).ID
	path := "/v1/watches/" + watch
	wantStatus(t, w.call("PATCH", path, k,
		`{"label":"<script>","amountRule":{"amount":"2"},"senderAllowlist":["`+payer+`"]}`), 200)
	wantStatus(t, w.call("DELETE", path, k, ""), 204)
	all := w.happenedTo(path+"/history", k)
	if len(all.Data) != 3 || all.NextCursor != nil {
		t.Fatalf("the history is %+v", all)
	}
	got := all.changed()
	if !strings.HasPrefix(got[0], "WatchDeleted deletedAt:<nil>→2") ||
		got[1] != "WatchUpdated amountRule.amount:1.0000000→2.0000000 label:→<script> "+
			"senderAllowlist:[]→["+payer+"]" || !strings.Contains(got[2], "label:<nil>→ ") {
		t.Errorf("the changes are %q", got)
	}
	was := all.Data[2].State
	if was["label"] != "" || was["id"] != watch || was["deletedAt"] != nil {
		t.Errorf("it was made as %v", was)
	}
	if status, has := was["status"]; has {
		t.Errorf("its status is %v", status)
	}
	var paged []string
	for query := "?limit=1"; ; {
		page := w.happenedTo(path+"/history"+query, k)
		paged = append(paged, page.changed()...)
		if page.NextCursor == nil {
			break
		}
		query = "?limit=1&cursor=" + *page.NextCursor
	}
	if fmt.Sprint(paged) != fmt.Sprint(got) {
		t.Errorf("by one: %q, want %q", paged, got)
	}
	wantProblem(t, w.call("GET", path+"/history?limit=51", k, ""), 400, "INVALID_PARAMETER")
}

func TestAnEndpointsHistoryHasNoSecret(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/endpoints", k,
		`{"url":"https://example.com/","headers":{"Authorization":"Bearer letmein"}}`), 201)
	path := "/v1/endpoints/" + decode[struct{ ID string }](t, made.body).ID
	wantStatus(t, w.call("POST", path+"/disable", k, ""), 200)
	wantStatus(t, w.call("POST", path+"/rotate-secret", k, ""), 200)
	wantStatus(t, w.call("PATCH", path, k,
		`{"headers":{"Authorization":"Bearer other","X-A":"b"}}`), 200)
	page := w.happenedTo(path+"/history", k)
	got := page.changed()
	if len(got) != 4 || got[0] != "EndpointUpdated headers.X-A:<nil>→[redacted]" ||
		!strings.HasPrefix(got[1], "SecretRotated secrets:") ||
		!strings.Contains(got[2], "disabledReason:<nil>→manual status:active→disabled") {
		t.Errorf("the changes are %q", got)
	}
	// The history must not show a value that changed, as openapi.yaml says.
	wantStatus(t, w.call("PATCH", path, k,
		`{"headers":{"Authorization":"Bearer third","X-A":"b"}}`), 200)
	page = w.happenedTo(path+"/history", k)
	if got := page.changed()[0]; got != "EndpointUpdated" {
		t.Errorf("of a changed value the changes are %q", got)
	}
	text := fmt.Sprint(page)
	for _, secret := range []string{"letmein", "other", "third", "whsec_"} {
		if strings.Contains(text, secret) {
			t.Errorf("the history has %q: %s", secret, text)
		}
	}
	if _, has := page.Data[0].State["consecutiveFailures"]; has {
		t.Error("the history tells of failures in a row, which it does not fold")
	}
}

func TestAHistoryThatCannotBeFolded(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	path := "/v1/endpoints/" + w.newEndpoint(k) + "/history"
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{readmodel.ErrFactsMissing, 410, "FACTS_NOT_KEPT"},
		{readmodel.ErrManyFacts, 409, "TOO_MANY_FACTS"},
		{readmodel.ErrBehind, 503, "HISTORY_BEHIND"},
		{readmodel.ErrUnavailable, 503, "HISTORY_UNAVAILABLE"},
	} {
		w.historyErr = c.err
		wantProblem(t, w.call("GET", path, k, ""), c.status, c.code)
	}
}

// If the first facts of an object were not stored, its own account must be told so, even if there
// were facts since then. For other accounts, the object must look as if it didn't exist.
func TestAHistoryFromBeforeTheRecordIsTheOwnersAlone(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	strange := w.newKey(account("b"), domain.Permissions()...)
	endpoint := w.newEndpoint(k)
	made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(endpoint, "")), 201)
	for _, path := range []string{
		"/v1/endpoints/" + endpoint, "/v1/watches/" + decode[struct{ ID string }](t, made.body).ID,
	} {
		other := path[:len(path)-1] + "0"
		if other == path {
			other = path[:len(path)-1] + "1"
		}
		for _, err := range []error{readmodel.ErrNotFound, readmodel.ErrFactsMissing} {
			w.historyErr = err
			wantProblem(t, w.call("GET", path+"/history", k, ""), 410, "FACTS_NOT_KEPT")
			wantProblem(t, w.call("GET", path+"/history", strange, ""), 404, "NOT_FOUND")
			wantProblem(t, w.call("GET", other+"/history", k, ""), 404, "NOT_FOUND")
		}
	}
}

// happens stores the facts of an event that an endpoint of the account had and then handed over.
func (w *world) happens(accountID, eventID, to string) {
	const from = eventFrom
	created := domain.DeliveryCreated{
		AccountID:  accountID,
		EndpointID: from,
		WatchID:    "wat_00000000000000000000000001",
		Sequence:   1,
		Event:      domain.Event{ID: eventID, Type: domain.PaymentReceived, CreatedAtMillis: 1_000},
	}
	further := created
	further.EndpointID, further.Moved = to, domain.Moved{Moves: 1, Attempts: 1, Runs: 2}
	of := func(endpointID string, version uint64, body domain.FactBody) domain.Fact {
		return domain.Fact{
			Aggregate: endpointID,
			Version:   version,
			AtMillis:  int64(version) * 1_000,
			Body:      body,
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happened[eventID] = []domain.Fact{
		of(from, 1, domain.EndpointCreated{EndpointID: from, AccountID: accountID}),
		of(from, 2, created),
		of(from, 3, domain.AttemptMade{
			EventID:             eventID,
			Number:              1,
			Run:                 1,
			Result:              domain.AttemptResult{SentAtMillis: 2_500, StatusCode: 503},
			State:               domain.StateWaiting,
			NextAttemptAtMillis: 33_000,
		}),
		of(from, 4, domain.EndpointDisabled{Reason: domain.DisabledManual}),
		of(from, 5, domain.DeliveryRequeued{
			EventID:             eventID,
			Run:                 2,
			NextAttemptAtMillis: 5_000,
			Reason:              domain.RequeueResend,
		}),
		of(from, 6, domain.EndpointDeleted{}),
		of(from, 7, domain.DeliveryCancelled{EventID: eventID}),
		of(from, 8, domain.DeliveryMoved{EventID: eventID, ToEndpointID: to, Moves: 1}),
		of(to, 2, further),
	}
}

const (
	anEvent   = "evt_00000000000000000000000001"
	wentOnAt  = "ep_00000000000000000000000002"
	eventFrom = "ep_00000000000000000000000001"
)

func TestAnEventsHistory(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	w.happens(account("a"), anEvent, wentOnAt)
	path := "/v1/events/" + anEvent + "/history"
	all := w.happenedTo(path, k)
	got := all.changed()
	if len(got) != 8 || all.NextCursor != nil {
		t.Fatalf("the changes are %q", got)
	}
	for i, want := range map[int]string{
		1: "DeliveryMoved movedTo:<nil>→ep_00000000000000000000000002",
		2: "DeliveryCancelled state:QUEUED→CANCELLED",
		3: "EndpointDeleted held:true→false",
		4: "DeliveryRequeued run:1→2 runReason:<nil>→resend state:WAITING→QUEUED",
		5: "EndpointDisabled held:false→true nextAttemptAt:1970-01-01T00:00:33.000Z→<nil>",
		6: "AttemptMade attempts:0→1 lastAttempt:<nil>→map[error:<nil> errorDetail:<nil> number:1 " +
			"sentAt:1970-01-01T00:00:02.500Z statusCode:503] " +
			"nextAttemptAt:1970-01-01T00:00:02.000Z→1970-01-01T00:00:33.000Z state:QUEUED→WAITING",
	} {
		if got[i] != want {
			t.Errorf("fact %d changed %q, want %q", i, got[i], want)
		}
	}
	if last := all.Data[0].State; last["endpointId"] != "ep_00000000000000000000000002" ||
		last["run"] != 3.0 || last["attempts"] != 1.0 || last["state"] != "QUEUED" ||
		last["runReason"] != nil || last["movedTo"] != nil {
		t.Errorf("it is %v", last)
	}
	var paged []string
	for query := "?limit=2"; ; {
		page := w.happenedTo(path+query, k)
		paged = append(paged, page.changed()...)
		if page.NextCursor == nil {
			break
		}
		query = "?limit=2&cursor=" + *page.NextCursor
	}
	if fmt.Sprint(paged) != fmt.Sprint(got) {
		t.Errorf("by two: %q, want %q", paged, got)
	}
	strange := w.newKey(account("b"), domain.Permissions()...)
	wantProblem(t, w.call("GET", path, strange, ""), 404, "NOT_FOUND")
	wantProblem(t, w.call("GET", "/v1/events/evt_x/history", k, ""), 404, "NOT_FOUND")
	w.historyErr = readmodel.ErrFactsMissing
	problem := wantProblem(t, w.call("GET", path, k, ""), 410, "FACTS_NOT_KEPT")
	if !strings.Contains(problem.Detail, "--table delivery_facts") {
		t.Errorf("it says %q", problem.Detail)
	}
}

// A history that is read after a change at the same node must show the change, whatever it was.
// Lists of events don't wait for other changes.
func TestAHistoryShowsWhatWasJustChanged(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	h := &lagging{world: w}
	node := newWorld(t, func(c *api.Config) { c.Commands, c.Directory, c.History = w, w, h })
	node.now = w.now
	endpointID := w.newEndpoint(k)
	endpoint := "/v1/endpoints/" + endpointID
	watch := "/v1/watches/" + w.watching(k, endpointID, 40, "")
	w.happens(account("a"), anEvent, wentOnAt)
	event := "/v1/events/" + anEvent
	for _, c := range []struct{ method, path, body, shows string }{
		{"POST", endpoint + "/disable", "", event},
		{"PATCH", endpoint, `{"description":"x"}`, endpoint},
		{"POST", endpoint + "/rotate-secret", "", endpoint},
		{"PATCH", watch, `{"label":"x"}`, watch},
		{"DELETE", watch, "", watch},
	} {
		t.Run(c.method+" "+c.path, func(t *testing.T) {
			h.waits = 0
			if got := node.call(c.method, c.path, k, c.body); got.StatusCode/100 != 2 {
				t.Fatalf("it answers %s: %s", got.Status, got.body)
			}
			wantStatus(t, node.call("GET", "/v1/events", k, ""), 200)
			if h.waits != 0 {
				t.Error("a list of events waited")
			}
			for range 2 {
				wantStatus(t, node.call("GET", c.shows+"/history", k, ""), 200)
			}
			if h.waits != 1 {
				t.Errorf("the history waited %d times", h.waits)
			}
		})
	}
}
