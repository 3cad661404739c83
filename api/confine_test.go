package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// twoEndpoints has two endpoints of one account, each with a watch and an event, and the credential
// of a portal link that is confined to the first endpoint and has every permission.
type twoEndpoints struct {
	w          *world
	apiKey     string
	own, other shelf
	link       string
}

// shelf has the ids of an endpoint, its watch and its event.
type shelf struct{ endpoint, watch, event string }

func (s shelf) all() []string { return []string{s.endpoint, s.watch, s.event} }

const mayAll = `"permissions":["read","write","operate"]`

func newTwoEndpoints(t testing.TB) *twoEndpoints {
	t.Helper()
	w := newWorld(t, withLinks)
	two := &twoEndpoints{w: w, apiKey: w.newKey(account("a"), domain.Permissions()...)}
	fill := func(payment string) (s shelf) {
		s.endpoint = w.newEndpoint(two.apiKey)
		s.watch = in(t, w.call("POST", "/v1/watches", two.apiKey, watchBody(s.endpoint, "")).body,
			"id").(string)
		s.event = w.deliveredOf(payment, account("a"), s.endpoint, domain.StateFailed,
			domain.AttemptResult{StatusCode: 500}).ID
		return s
	}
	two.own, two.other = fill("221517461192705"), fill("221517461192706")
	two.link = w.credential(two.apiKey, two.linkBody())
	return two
}

func (two *twoEndpoints) linkBody() string {
	return fmt.Sprintf(`{%s,"endpointId":%q}`, mayAll, two.own.endpoint)
}

// of returns the ids of a shelf by the path segment that precedes them.
func (s shelf) of() map[string]string {
	return map[string]string{"endpoints": s.endpoint, "watches": s.watch, "events": s.event}
}

// For every operation, an object of another endpoint of the same account must look as if it didn't
// exist, even if the request may be a repeat. The request must have no effect.
func TestALinkOfOneEndpointReachesNoOther(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	facts, named := w.facts, 0
	for _, r := range w.api.Routes() {
		method, path, _ := strings.Cut(r, " ")
		parts := strings.Split(path, "/")
		if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/openapi.") {
			continue
		}
		other, names := two.other.of()[parts[2]]
		if !strings.Contains(path, "{id}") || !names {
			continue
		}
		named++
		body := `{"since":"2026-01-01T00:00:00Z"}`
		if strings.HasSuffix(path, "/resend") {
			body = "" // resend accepts no body and would refuse one first
		}
		for _, header := range [][]string{nil, {"Idempotency-Key", "i" + r}} {
			got := w.call(method, strings.Replace(path, "{id}", other, 1), two.link,
				body, header...)
			wantProblem(t, got, 404, "NOT_FOUND")
		}
	}
	if named < 18 {
		t.Errorf("only %d operations name something", named)
	}
	for _, r := range []string{
		"POST /v1/endpoints", "GET /v1/wallets/" + wallet + "/statement", "POST /v1/portal-links",
		"GET /v1/api-keys", "POST /v1/api-keys", "GET /v1/account",
	} {
		method, path, _ := strings.Cut(r, " ")
		wantProblem(t, w.call(method, path, two.link, `{}`), 403, "MISSING_PERMISSION")
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
}

// Every list must contain what belongs to the link's endpoint, and nothing else. A new list shows
// nothing until it is confined, because confine refuses it.
func TestALinkOfOneEndpointListsItsOwn(t *testing.T) {
	two := newTwoEndpoints(t)
	w, lists := two.w, 0
	for _, r := range w.api.Routes() {
		method, path, _ := strings.Cut(r, " ")
		if method != "GET" || !strings.HasPrefix(path, "/v1/") || strings.Contains(path, "{") ||
			strings.HasPrefix(path, "/v1/openapi.") || path == "/v1/api-keys" ||
			path == "/v1/account" { // for keys only
			continue
		}
		lists++
		text := string(wantStatus(t, w.call("GET", path, two.link, ""), 200).body)
		for _, id := range two.other.all() {
			if strings.Contains(text, id) {
				t.Errorf("%s shows %s", path, id)
			}
		}
		if own, is := two.own.of()[strings.TrimPrefix(path, "/v1/")]; is && !strings.Contains(text, own) {
			t.Errorf("%s leaves out %s: %s", path, own, text)
		}
	}
	if lists != 5 {
		t.Errorf("%d lists", lists)
	}
	for _, path := range []string{"/v1/watches", "/v1/events", "/v1/attempts/rates"} {
		wantProblem(t, w.call("GET", path+"?endpointId="+two.other.endpoint, two.link, ""), 400,
			"INVALID_PARAMETER")
		wantStatus(t, w.call("GET", path+"?endpointId="+two.own.endpoint, two.link, ""), 200)
	}
	for _, query := range []string{
		"/v1/endpoints?status=disabled", "/v1/watches?walletAddress=" + payer,
		"/v1/events?watchId=" + two.other.watch,
	} {
		got := w.call("GET", query, two.link, "")
		if string(got.body) != `{"data":[],"nextCursor":null}` {
			t.Errorf("%s: %s", query, got.body)
		}
	}
}

// A body must not refer to another endpoint either.
func TestALinkOfOneEndpointSendsNothingElsewhere(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	// Repeating a creation that used the account's own key must not get around this.
	made := w.call("POST", "/v1/watches", two.apiKey, watchBody(two.other.endpoint, ""),
		"Idempotency-Key", "made")
	wantStatus(t, made, 201)
	facts := w.facts
	for _, c := range [][3]string{
		{"POST", "/v1/watches", watchBody(two.other.endpoint, "")},
		{"PATCH", "/v1/watches/" + two.own.watch, fmt.Sprintf(`{"endpointId":%q}`, two.other.endpoint)},
	} {
		p := wantProblem(t, w.call(c[0], c[1], two.link, c[2], "Idempotency-Key", "made"), 422,
			"VALIDATION_FAILED")
		if !slices.Equal(pointers(p), []string{"/endpointId ENDPOINT_NOT_FOUND"}) {
			t.Errorf("%v", pointers(p))
		}
	}
	p := wantProblem(t, w.call("PATCH", "/v1/endpoints/"+two.own.endpoint, two.link,
		fmt.Sprintf(`{"noticesTo":%q}`, two.other.endpoint)), 422, "VALIDATION_FAILED")
	if !slices.Equal(pointers(p), []string{"/noticesTo ENDPOINT_NOT_FOUND"}) {
		t.Errorf("%v", pointers(p))
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
	all := wantStatus(t, w.call("POST", "/v1/events/resend", two.link,
		`{"since":"2026-01-01T00:00:00Z"}`), 200)
	if in(t, all.body, "queued") != 1.0 || in(t, all.body, "matched") != 1.0 {
		t.Errorf("%s", all.body)
	}
	if state := w.history[two.other.event].record.State; state != domain.StateFailed {
		t.Errorf("the other endpoint's event is %s", state)
	}
}

// If an event came from another endpoint, the attempts that were made there must not be shown.
func TestALinkOfOneEndpointShowsItsOwnAttempts(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	w.mu.Lock()
	r := w.history[two.own.event]
	r.record.Attempts = append([]readmodel.Attempt{{
		EndpointID: two.other.endpoint, Number: 1, Run: 1,
		Result: domain.AttemptResult{StatusCode: 418, ResponseBody: []byte("theirs")},
	}}, r.record.Attempts...)
	w.history[two.own.event] = r
	w.mu.Unlock()
	path := "/v1/events/" + two.own.event
	if n := len(in(t, w.call("GET", path, two.apiKey, "").body, "attempts").([]any)); n != 2 {
		t.Fatalf("%d attempts", n)
	}
	got := wantStatus(t, w.call("GET", path, two.link, ""), 200)
	if n := len(in(t, got.body, "attempts").([]any)); n != 1 ||
		strings.Contains(string(got.body), "theirs") ||
		strings.Contains(string(got.body), two.other.endpoint) {
		t.Errorf("%s", got.body)
	}
}

// A link must be for an existing endpoint of the account, and an empty id must not stand for the
// whole account.
func TestALinkIsOfAnEndpointThatIsThere(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	theirs := w.newEndpoint(w.newKey(account("b"), domain.PermissionWrite))
	for id, want := range map[string]string{
		theirs: "/endpointId ENDPOINT_NOT_FOUND",
		domain.DeriveID(domain.EndpointPrefix, "n"): "/endpointId ENDPOINT_NOT_FOUND",
		"":        "/endpointId INVALID_VALUE",
		"ep_1":    "/endpointId INVALID_VALUE",
		"\u2028x": "/endpointId INVALID_VALUE",
	} {
		body := fmt.Sprintf(`{"permissions":["read"],"endpointId":%q}`, id)
		p := wantProblem(t, w.call("POST", "/v1/portal-links", two.apiKey, body), 422,
			"VALIDATION_FAILED")
		if !slices.Equal(pointers(p), []string{want}) {
			t.Errorf("%q: %v", id, pointers(p))
		}
	}
	made := w.call("POST", "/v1/portal-links", two.apiKey, two.linkBody())
	if in(t, made.body, "endpointId") != two.own.endpoint {
		t.Errorf("%s", made.body)
	}
	// Once the endpoint is deleted, the link shows nothing.
	wantStatus(t, w.call("DELETE", "/v1/endpoints/"+two.own.endpoint, two.apiKey, ""), 200)
	got := wantStatus(t, w.call("GET", "/v1/endpoints", two.link, ""), 200)
	if string(got.body) != `{"data":[],"nextCursor":null}` {
		t.Errorf("%s", got.body)
	}
	wantProblem(t, w.call("GET", "/v1/endpoints/"+two.own.endpoint, two.link, ""), 404, "NOT_FOUND")
}

// TestPortalOfOneEndpoint opens every page and presses every button of the portal with objects of
// another endpoint.
func TestPortalOfOneEndpoint(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	d := newDesk(t, w, asPortal)
	if s := d.get(w.portalPath(two.apiKey, two.linkBody())); s.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	pages := func(s shelf) []string {
		return []string{
			"/endpoints/" + s.endpoint, "/endpoints/" + s.endpoint + "/edit",
			"/endpoints/" + s.endpoint + "/delete", "/endpoints/" + s.endpoint + "/rotate",
			"/endpoints/" + s.endpoint + "/replay", "/endpoints/" + s.endpoint + "/history",
			"/events/" + s.event, "/watches/" + s.watch, "/watches/" + s.watch + "/edit",
			"/watches/" + s.watch + "/delete", "/watches/" + s.watch + "/history",
		}
	}
	for _, path := range append(pages(two.own), "", "/endpoints", "/events", "/watches",
		"/watches/new", "/events?watchId="+two.other.watch) {
		text := d.open("/portal" + path)
		asked, found := strings.CutPrefix(path, "/events?watchId=")
		for _, id := range two.other.all() {
			if !(found && id == asked) && strings.Contains(text, id) {
				t.Errorf("%s shows %s", path, id)
			}
		}
		for _, none := range []string{`"/portal/endpoints/new"`, `"/portal/wallets/`} {
			if strings.Contains(text, none) {
				t.Errorf("%s leads to %s", path, none)
			}
		}
	}
	for _, path := range append(pages(two.other), "/events/"+two.other.event+"/receipt") {
		if s := d.get("/portal" + path); s.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, s.StatusCode)
		}
	}
	for path, status := range map[string]int{
		"/wallets/" + wallet:                              http.StatusForbidden,
		"/wallets/" + wallet + "/statement.csv?asset=XLM": http.StatusForbidden,
	} {
		if s := d.get("/portal" + path); s.StatusCode != status {
			t.Errorf("%s: %d", path, s.StatusCode)
		}
	}
	token, facts := d.get("/portal").form(t, "/portal/sign-out"), w.facts
	token.Set("confirm", "https://a.example")
	token.Set("since", "2026-01-01T00:00:00Z")
	token.Set("from", "2")
	for _, path := range []string{
		"/endpoints/" + two.other.endpoint + "/test", "/endpoints/" + two.other.endpoint + "/enable",
		"/endpoints/" + two.other.endpoint + "/disable", "/endpoints/" + two.other.endpoint + "/replay",
		"/endpoints/" + two.other.endpoint + "/edit", "/endpoints/" + two.other.endpoint + "/rotate",
		"/endpoints/" + two.other.endpoint + "/delete", "/events/" + two.other.event + "/resend",
		"/watches/" + two.other.watch + "/edit", "/watches/" + two.other.watch + "/delete",
		"/watches/" + two.other.watch + "/backfill", "/endpoints/new", "/watches/new",
	} {
		form := url.Values{
			"url": {"https://a.example"}, "walletAddress": {wallet}, "endpointId": {two.other.endpoint},
		}
		for name, values := range token {
			form[name] = values
		}
		if s := d.do("POST", "/portal"+path, form); s.StatusCode < 400 {
			t.Errorf("%s: %d %s", path, s.StatusCode, s.Header.Get("Location"))
		}
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
	page := "/portal/endpoints/" + two.own.endpoint
	if s := d.press(page, page+"/disable"); s.StatusCode != http.StatusSeeOther ||
		w.endpoints[two.own.endpoint].Status != domain.StatusDisabled {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
	// A link with a wider scope shows something else, so the user is asked first.
	s := d.get(w.portalPath(two.apiKey, `{"permissions":["read"]}`))
	if s.StatusCode != http.StatusConflict || !strings.Contains(s.text, two.own.endpoint) ||
		!strings.Contains(s.text, "Another part of the account is open") {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
}

// For a link that is confined to an endpoint, the history of an event that was handed over must
// begin with its creation there, and not show where it was before.
func TestALinkOfOneEndpointSeesItsOwnHistory(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	w.happens(account("a"), two.own.event, two.own.endpoint)
	path := "/v1/events/" + two.own.event + "/history"
	if all := w.happenedTo(path, two.apiKey); len(all.Data) != 8 {
		t.Fatalf("the account sees %q", all.changed())
	}
	for _, query := range []string{"", "?limit=1"} {
		got := wantStatus(t, w.call("GET", path+query, two.link, ""), 200).body
		page := decode[happened](t, got)
		if len(page.Data) != 1 || page.Data[0].Fact != "DeliveryCreated" || page.NextCursor != nil ||
			strings.Contains(string(got), eventFrom) || strings.Contains(string(got), "CANCELLED") {
			t.Errorf("the link sees %s", got)
		}
	}
}

// While the history lags, it may still have an event at an endpoint that has handed it over. To a
// link of that endpoint, the event's history must show that it left, but not for which endpoint.
func TestALinkOfOneEndpointIsNotToldWhereAnEventGoesOn(t *testing.T) {
	two := newTwoEndpoints(t)
	w, own, event := two.w, two.own.endpoint, two.own.event
	w.happens(account("a"), event, own)
	w.mu.Lock()
	for i, body := range []domain.FactBody{
		domain.EndpointDeleted{},
		domain.DeliveryCancelled{EventID: event},
		domain.DeliveryMoved{EventID: event, ToEndpointID: two.other.endpoint, Moves: 2},
	} {
		w.happened[event] = append(w.happened[event], domain.Fact{
			Aggregate: own,
			Version:   uint64(3 + i),
			AtMillis:  int64(3+i) * 1_000,
			Body:      body,
		})
	}
	w.mu.Unlock()
	got := wantStatus(t, w.call("GET", "/v1/events/"+event+"/history", two.link, ""), 200).body
	page := decode[happened](t, got)
	if strings.Contains(string(got), two.other.endpoint) || len(page.Data) != 4 ||
		page.changed()[0] != "DeliveryMoved" {
		t.Errorf("the link sees %s", got)
	}
}

// Such a link must not resend the event where it is now. Only the link's own endpoint is asked,
// which knows that it handed the event over.
func TestALinkOfOneEndpointFollowsNoEventElsewhere(t *testing.T) {
	two := newTwoEndpoints(t)
	w, path := two.w, "/v1/events/"+two.own.event+"/resend"
	w.mu.Lock()
	w.left = map[string][]domain.Delivery{two.own.endpoint: {{
		EventID:    two.own.event,
		AccountID:  account("a"),
		EndpointID: two.own.endpoint,
		State:      domain.StateCancelled,
		MovedTo:    two.other.endpoint,
	}}}
	w.mu.Unlock()
	facts := w.facts
	wantProblem(t, w.call("POST", path, two.link, ""), 404, "NOT_FOUND")
	many := wantStatus(t, w.call("POST", "/v1/events/resend", two.link,
		fmt.Sprintf(`{"endpointId":%q}`, two.own.endpoint)), 200)
	if in(t, many.body, "queued") != 0.0 || strings.Contains(string(many.body), two.other.endpoint) {
		t.Errorf("%s", many.body)
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
	got := w.call("POST", path, two.apiKey, "")
	if !strings.Contains(string(got.body), two.other.endpoint) {
		t.Errorf("the account's key does not follow it: %s", got.body)
	}
}

// An event that passed through other endpoints must be resent by a link of its current endpoint,
// without asking the earlier ones.
func TestALinkOfOneEndpointResendsWhatCameToIt(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	further := w.newEndpoint(two.apiKey)
	w.mu.Lock()
	leaves := func(from, to string) []domain.Delivery {
		return []domain.Delivery{{
			EventID:    two.own.event,
			AccountID:  account("a"),
			EndpointID: from,
			State:      domain.StateCancelled,
			MovedTo:    to,
		}}
	}
	w.left = map[string][]domain.Delivery{
		two.other.endpoint: leaves(two.other.endpoint, further),
		further:            leaves(further, two.own.endpoint),
	}
	w.went = []string{two.other.endpoint, further}
	w.mu.Unlock()
	got := wantStatus(t, w.call("POST", "/v1/events/"+two.own.event+"/resend", two.link, ""), 200)
	if strings.Contains(string(got.body), two.other.endpoint) ||
		w.history[two.own.event].record.State != domain.StateQueued {
		t.Errorf("%s", got.body)
	}
}

// For a link that is confined to an endpoint, the history of a watch that came from another
// endpoint must begin with the change that brought it, and not show what it was before.
func TestALinkOfOneEndpointSeesItsOwnHistoryOfAWatch(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	path := "/v1/watches/" + two.other.watch
	for _, change := range []string{
		`{"label":"theirs"}`,
		fmt.Sprintf(`{"endpointId":%q,"label":"came"}`, two.own.endpoint),
		`{"label":"own"}`,
	} {
		wantStatus(t, w.call("PATCH", path, two.apiKey, change), 200)
	}
	if all := w.happenedTo(path+"/history", two.apiKey); len(all.Data) != 4 {
		t.Fatalf("the account sees %q", all.changed())
	}
	sees := func(query string) (page happened) {
		t.Helper()
		got := wantStatus(t, w.call("GET", path+"/history"+query, two.link, ""), 200).body
		for _, none := range []string{two.other.endpoint, "theirs"} {
			if strings.Contains(string(got), none) {
				t.Errorf("%s shows %q: %s", query, none, got)
			}
		}
		return decode[happened](t, got)
	}
	page := sees("")
	if got := page.changed(); len(got) != 2 || got[0] != "WatchUpdated label:came→own" ||
		!strings.Contains(got[1], "label:<nil>→came") || page.NextCursor != nil {
		t.Errorf("the link sees %q", got)
	}
	page = sees("?limit=1")
	if len(page.Data) != 1 || page.NextCursor == nil {
		t.Fatalf("the first page is %q", page.changed())
	}
	page = sees("?limit=1&cursor=" + *page.NextCursor)
	if len(page.Data) != 1 || page.NextCursor != nil {
		t.Errorf("the last page is %q", page.changed())
	}
}

// The payment that fulfilled a watch may have been reported to the watch's previous endpoint.
func TestALinkOfOneEndpointIsNotToldWhatAWatchTook(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	w.mu.Lock()
	watch := w.watches[two.own.watch]
	watch.Fulfilled = domain.Fulfilment{PaymentID: "1-2", Ledger: 9, ClosedAtMillis: 1000}
	w.watches[two.own.watch] = watch
	w.mu.Unlock()
	path := "/v1/watches/" + two.own.watch
	for _, c := range [][3]string{
		{"GET", path}, {"GET", "/v1/watches"}, {"PATCH", path, `{"label":"x"}`},
	} {
		text := string(wantStatus(t, w.call(c[0], c[1], two.link, c[2]), 200).body)
		if !strings.Contains(text, `"status":"fulfilled"`) ||
			!strings.Contains(text, `"fulfilled":null`) {
			t.Errorf("%s %s: %s", c[0], c[1], text)
		}
	}
	if all := wantStatus(t, w.call("GET", path, two.apiKey, ""), 200).body; !strings.Contains(
		string(all), `"paymentId":"1-2"`) {
		t.Errorf("the account sees %s", all)
	}
}

// formerWatch is a directory that has not yet read the latest change of a watch.
type formerWatch struct {
	*world
	was domain.Watch
}

func (f formerWatch) Watch(id string) (domain.Watch, bool, error) {
	if id == f.was.ID {
		return f.was, true, nil
	}
	return f.world.Watch(id)
}

// A link of a watch's previous endpoint must not change the watch, even at a node that has not yet
// read that the watch moved.
func TestALinkOfOneEndpointChangesNoWatchThatLeft(t *testing.T) {
	two := newTwoEndpoints(t)
	w, path := two.w, "/v1/watches/"+two.own.watch
	was := w.watches[two.own.watch]
	wantStatus(t, w.call("PATCH", path, two.apiKey,
		fmt.Sprintf(`{"endpointId":%q}`, two.other.endpoint)), 200)
	node := newWorld(t, withLinks, func(c *api.Config) {
		c.Commands, c.Directory, c.History = w, formerWatch{w, was}, w
	})
	node.now = w.now
	facts := w.facts
	for method, body := range map[string]string{"PATCH": `{"label":"x"}`, "DELETE": ""} {
		got := wantProblem(t, node.call(method, path, two.link, body), 412, "PRECONDITION_FAILED")
		if strings.Contains(fmt.Sprint(got), two.other.endpoint) {
			t.Errorf("%s: %v", method, got)
		}
	}
	wantProblem(t, node.call("POST", path+"/backfill", two.link, `{"from":1,"to":2}`), 404,
		"NOT_FOUND")
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
	wantStatus(t, node.call("PATCH", path, two.apiKey, `{"label":"x"}`), 200)
}

// Upcoming attempts of an event that was handed over must be numbered after all earlier ones,
// although a link shows only the attempts of its own endpoint.
func TestPortalNumbersOnWhatIsToCome(t *testing.T) {
	two := newTwoEndpoints(t)
	w := two.w
	w.mu.Lock()
	r := w.history[two.own.event]
	r.record.State = domain.StateWaiting
	r.record.Attempts = nil
	for n, at := range []string{two.other.endpoint, two.other.endpoint, two.own.endpoint} {
		r.record.Attempts = append(r.record.Attempts, readmodel.Attempt{
			EndpointID: at,
			Number:     n + 1,
			Run:        n + 1,
			Result:     domain.AttemptResult{StatusCode: 500},
		})
	}
	w.history[two.own.event] = r
	w.mu.Unlock()
	d := newDesk(t, w, asPortal)
	d.get(w.portalPath(two.apiKey, two.linkBody()))
	_, coming, _ := strings.Cut(d.get("/portal/events/"+two.own.event).text, "Upcoming")
	_, next, _ := strings.Cut(coming, "<strong>")
	if !strings.HasPrefix(next, "4<") {
		t.Errorf("the attempt after number 3 is %.10q", next)
	}
}
