package api_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// fill posts a page's form with the given fields, which may have several values each.
func (d *desk) fill(page, action string, fields url.Values) sheet {
	d.t.Helper()
	form := d.get(page).form(d.t, action)
	for name, values := range fields {
		form[name] = values
	}
	return d.do("POST", action, form)
}

func (s sheet) shows(t testing.TB, status int, texts ...string) {
	t.Helper()
	page := html.UnescapeString(s.text)
	for _, text := range texts {
		if s.StatusCode != status || !strings.Contains(page, text) {
			_, main, _ := strings.Cut(page, "<main")
			t.Errorf("%d %s: %q is not in %s", s.StatusCode, s.Header.Get("Location"), text, main)
		}
	}
}

var shownSecret = regexp.MustCompile(`id="secret"[^>]*>(whsec_[^<]+)<`)

// Errors must appear next to their fields, no input may be lost, and a secret must be shown only on
// the page after its creation.
func TestConsoleMakesAndChangesEndpoints(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	const at = "/console/endpoints/new"
	wrong := url.Values{
		"url": {"http://a.example"}, "description": {`the "shop"`}, "headers": {"X-Shop: 42\nnonsense"},
		"rateLimitPerSecond": {"many"},
	}
	d.fill(at, at, wrong).shows(t, 422, `value="the "shop""`, "X-Shop: 42\nnonsense",
		"a name, a colon and a value", "must be a whole number")
	wrong.Set("headers", "Webhook-Id: mine")
	wrong.Set("rateLimitPerSecond", "70000")
	d.fill(at, at, wrong).shows(t, 422, `id="headers-fault"><p>Webhook-Id: `,
		`id="rateLimitPerSecond-fault"`, "Webhook-Id: mine</textarea>")
	if len(w.endpoints) != 0 {
		t.Fatal("a form with faults made an endpoint")
	}
	made := d.fill(at, at, url.Values{
		"url": {"https://a.example"}, "description": {"shop"}, "headers": {"X-Shop: not-shown"},
		"rateLimitPerSecond": {"5"}, "ordering": {"on"}, "signatures": {"standard-webhooks"},
	})
	secret := shownSecret.FindStringSubmatch(made.text)
	if made.StatusCode != http.StatusOK || secret == nil || len(w.endpoints) != 1 {
		t.Fatalf("%d %s", made.StatusCode, made.text)
	}
	var e domain.Endpoint
	for _, e = range w.endpoints {
	}
	if e.RateLimitPerSecond != 5 || e.Ordering != domain.OrderingWallet || len(e.Headers) != 1 ||
		e.Signatures != domain.StandardWebhooks || e.Description != "shop" {
		t.Errorf("%+v", e)
	}
	page := "/console/endpoints/" + e.ID
	edit := d.get(page + "/edit")
	edit.shows(t, 200, `value="https://a.example`, `value="5"`, "Remove <code>X-Shop")
	if strings.Contains(edit.text, "not-shown") || strings.Contains(d.open(page), secret[1]) {
		t.Error("a header's value or the secret is shown again")
	}
	s := d.fill(page+"/edit", page+"/edit", url.Values{
		"url": {"https://b.example"}, "remove": {"X-Shop"}, "headers": {"X-New: 1"},
	})
	now := w.endpoints[e.ID]
	if s.StatusCode != http.StatusSeeOther || !strings.HasPrefix(now.URL, "https://b.example") ||
		now.RateLimitPerSecond != 0 || now.Ordering != "" || now.Signatures != 0 ||
		len(now.Headers) != 1 || now.Headers[0].Name != "X-New" {
		t.Errorf("%d %+v\n%s", s.StatusCode, now, s.text)
	}
	stale := edit.form(t, page+"/edit")
	stale.Set("url", "https://c.example")
	d.do("POST", page+"/edit", stale).shows(t, 422, "in the meantime", `value="https://c.example"`)

	rotated := d.press(page+"/rotate", page+"/rotate")
	again := shownSecret.FindStringSubmatch(rotated.text)
	if again == nil || again[1] == secret[1] {
		t.Errorf("%d %s", rotated.StatusCode, rotated.text)
	}
	d.fill(page+"/delete", page+"/delete", url.Values{"name": {"https://a.example"}}).
		shows(t, 422, "The name does not match")
	s = d.fill(page+"/delete", page+"/delete", url.Values{"name": {w.endpoints[e.ID].URL}})
	if s.StatusCode != http.StatusSeeOther || w.endpoints[e.ID].Status != domain.StatusDeleted {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
}

// If a form moves the URL to another host, headers are removed, and the next page must say so.
func TestConsoleSaysWhichHeadersStay(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/endpoints", k,
		`{"url":"https://a.example/","headers":{"X-Shop":"not-shown"}}`), 201)
	page := "/console/endpoints/" + in(t, made.body, "id").(string)
	same := d.fill(page+"/edit", page+"/edit", url.Values{"url": {"https://a.example/hook"}})
	if at := same.Header.Get("Location"); !strings.HasSuffix(at, "?done=changed") {
		t.Errorf("another path leads to %s", at)
	}
	moved := d.fill(page+"/edit", page+"/edit", url.Values{"url": {"https://b.example/hook"}})
	d.get(moved.Header.Get("Location")).shows(t, 200, "The URL has a different host or port")
	if left := w.endpoints[in(t, made.body, "id").(string)].Headers; len(left) != 0 {
		t.Errorf("it still has %v", left)
	}
}

func TestConsoleMakesAndChangesWatches(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	const at = "/console/watches/new"
	d.get(at).shows(t, 200, "No endpoints yet")
	e := w.newEndpoint(k)
	given := url.Values{
		"walletAddress": {w.secretSeed()}, "endpointId": {e}, "label": {"Invoice <1042>"},
		"forOne": {"on"}, "assets": {"XLM\nUSDC"}, "amountKind": {"range"},
		"amount": {"20"}, "amountTo": {"10"},
		"memoKind": {"id"}, "memo": {"x"}, "senders": {"nobody"},
		"eventTypes": {"payment.received", "payment.rejected"}, "expiresAt": {"soon"},
	}
	d.fill(at, at, given).shows(t, 422, `id="expiresAt-fault"`)
	given.Set("expiresAt", "2030-01-01T10:00")
	s := d.fill(at, at, given)
	s.shows(t, 422, `id="walletAddress-fault"`, `name="forOne" value="on" checked`,
		`id="eventTypes-fault"`, `id="assets-fault"><p>1, issuer: is required`,
		`id="amount-fault"`, `id="memo-fault"`, `id="senders-fault"><p>0: `,
		`value="Invoice <1042>"`, "XLM\nUSDC</textarea>")
	if strings.Contains(w.log.String(), w.secretSeed()) {
		t.Error("the log shows the secret key")
	}
	given["walletAddress"], given["amountTo"] = []string{wallet}, []string{"30"}
	given["assets"], given["memo"] = []string{"XLM\nUSDC:" + issuer}, []string{"1042"}
	given.Del("forOne")
	if page := d.fill(at, at, given); strings.Contains(page.text, `name="forOne" value="on" checked`) {
		t.Error("a box that was not ticked is")
	}
	given["senders"] = []string{payer + "\n" + contract}
	s = d.fill(at, at, given)
	to := s.Header.Get("Location")
	if s.StatusCode != http.StatusSeeOther || len(w.watches) != 1 {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	d.get(to).shows(t, 200, "Watch created", "between 20.0000000 and 30.0000000", "Senders (2)")
	var watch domain.Watch
	for _, watch = range w.watches {
	}
	page := "/console/watches/" + watch.ID
	edit := d.get(page + "/edit")
	edit.shows(t, 200, `value="20.0000000"`, "USDC:"+issuer, `value="2030-01-01T10:00:00"`, contract,
		`<option value="id" selected>`, `<option value="range" selected>`)
	d.fill(page+"/edit", page+"/edit", url.Values{"assets": {"XLM"}, "endpointId": {e}}).
		shows(t, 422, "choose at least one")
	s = d.fill(page+"/edit", page+"/edit", url.Values{
		"assets": {"XLM"}, "endpointId": {e}, "label": {"other"}, "amountKind": {"min"}, "amount": {"1"},
		"memoKind": {"any"}, "eventTypes": {"payment.received"},
	})
	now := w.watches[watch.ID]
	if s.StatusCode != http.StatusSeeOther || now.Label != "other" || now.ExpiresAtMillis != 0 ||
		now.Rules.Amount.Kind != domain.AmountMin || len(now.Rules.SenderAllowlist) != 0 ||
		now.Rules.Memo.Kind != domain.MemoAny || len(now.EventTypes) != 1 {
		t.Errorf("%d %+v\n%s", s.StatusCode, now, s.text)
	}
	s = d.fill(page, page+"/backfill", url.Values{"from": {"x"}, "to": {"7"}})
	s.shows(t, 422, `id="from-fault"`, `value="7"`)
	d.fill(page, page+"/backfill", url.Values{"from": {"9"}, "to": {"7"}}).
		shows(t, 422, `id="to-fault"`)
	s = d.fill(page, page+"/backfill", url.Values{"from": {"5"}, "to": {"7"}})
	if s.StatusCode != http.StatusSeeOther || w.watches[watch.ID].Backfill.From != 5 {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
	s = d.fill(page+"/delete", page+"/delete", url.Values{"name": {"other"}})
	if s.StatusCode != http.StatusSeeOther || !w.watches[watch.ID].Deleted() {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
}

func TestConsoleFormsAreForThoseWhoMayWrite(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	d, _ := signedIn(t, w, domain.PermissionRead)
	for _, path := range []string{
		"/endpoints/new", "/endpoints/" + e + "/edit", "/endpoints/" + e + "/rotate",
		"/endpoints/" + e + "/delete", "/watches/new",
	} {
		s := d.get("/console" + path)
		s.shows(t, 200, "</code> permission")
		if strings.Contains(s.text, `action="/console`+path) {
			t.Errorf("%s has the form", path)
		}
		token := s.form(t, "/console/sign-out")
		token.Set("name", w.endpoints[e].URL)
		token.Set("url", "https://b.example/")
		token.Set("eventTypes", "payment.received")
		if s := d.do("POST", "/console"+path, token); s.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, s.StatusCode, s.text)
		}
	}
}

func TestConsoleSaysWhetherAPaymentWouldMatch(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	watch := in(t, w.call("POST", "/v1/watches", k, watchBody(w.newEndpoint(k),
		`,"amountRule":{"kind":"min","amount":"10"}`)).body, "id").(string)
	page := "/console/watches/" + watch
	d.get(page+"?amount=12&asset=XLM&memoType=text&memo=&sender=").shows(t, 200, ">Match<",
		"The payment matches all rules.")
	d.get(page+"?amount=2&asset=XLM").shows(t, 200, ">Not reported<", "The amount is below the watch",
		"report this type of event")
	d.get(page+"?amount=x&asset=").shows(t, 200, `id="amount-fault"`, `id="asset-fault"`, `value="x"`)
}

// Unexplained changes must be shown first.
func TestConsoleShowsAStatement(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	w.watching(k, w.newEndpoint(k), 5, "")
	w.followed.MovesSince, w.followed.Ledger = 5, 700
	w.statement = readmodel.Statement{
		Balances: []readmodel.Balance{{Balance: "XLM", Moves: 2, ClosingStroops: 30_000_000}},
		Moves:    []readmodel.Move{moved(7, 0, 10_000_000), moved(8, 10_000_000, 30_000_000)},
	}
	page := "/console/wallets/" + wallet
	d.get(page).shows(t, 200, "All balance changes are explained", "3.0000000", "ledger 8", "Paid in")
	w.statement.Balances[0].UnexplainedStroops = 5_000_000
	w.statement.Moves[1].UnexplainedStroops = 5_000_000
	d.get(page).shows(t, 200, "Some changes are unexplained", "0.5000000 XLM is unexplained here")
	d.get(page+"?from=x&asset=nonsense").shows(t, 422, `id="from-fault"`, `value="nonsense"`)
	d.get(page+"?asset=nonsense").shows(t, 422, `id="asset-fault"`)
	for n := range uint32(600) { // three pages of the API
		w.statement.Moves = append(w.statement.Moves, moved(9+n, 1, 2))
	}
	s := d.get(page + "/statement.csv?asset=&from=&to=")
	lines := strings.Split(strings.TrimSpace(s.text), "\n")
	if s.StatusCode != 200 || len(lines) != 603 || strings.Count(s.text, "ledgerClosedAt") != 1 ||
		!strings.HasPrefix(lines[602], fmt.Sprint(608, ",")) {
		t.Errorf("%d, %d lines: %s", s.StatusCode, len(lines), lines[len(lines)-1])
	}
	d.get(page+"/statement.csv?from=x").shows(t, 422, `id="from-fault"`)
	d.get(page+"/statement.csv?asset=nonsense").shows(t, 400, "asset")
	w.historyErr = readmodel.ErrUnavailable
	d.get(page+"/statement.csv").shows(t, 503, ">Try again<")
}
