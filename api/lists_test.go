package api_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// walk reads a list to its end and returns the ids.
func (w *world) walk(path, apiKey string, limit int) (ids []string) {
	w.t.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	cursor := ""
	for range 1000 {
		got := wantStatus(w.t,
			w.call("GET", fmt.Sprintf("%s%slimit=%d&cursor=%s", path, separator, limit, cursor), apiKey, ""),
			200)
		page := in(w.t, got.body, "data").([]any)
		if len(page) > limit {
			w.t.Fatalf("%d on a page of %d", len(page), limit)
		}
		for _, one := range page {
			ids = append(ids, one.(map[string]any)["id"].(string))
		}
		next, more := in(w.t, got.body, "nextCursor").(string)
		if !more {
			return ids
		}
		cursor = url.QueryEscape(next)
	}
	w.t.Fatal("the list does not end")
	return nil
}

func TestLists(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	stranger := w.newKey(account("b"), domain.Permissions()...)
	var endpoints, watches []string
	for i := range 7 {
		w.now = w.now.Add(time.Duration(i%2) * time.Second) // some have the same time
		e := w.newEndpoint(k)
		endpoints = append(endpoints, e)
		wantStatus(t, w.call("POST", "/v1/endpoints", stranger, `{"url":"https://b.example"}`), 201)
		made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(endpoints[i/4*4], "")), 201)
		watches = append(watches, in(t, made.body, "id").(string))
	}
	wantStatus(t, w.call("POST", "/v1/endpoints/"+endpoints[2]+"/disable", k, ""), 200)
	for _, limit := range []int{1, 2, 7, 250} {
		got := w.walk("/v1/endpoints", k, limit)
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(endpoints)); !slices.Equal(got, want) {
			t.Errorf("limit %d: %v", limit, got)
		}
		if got := w.walk("/v1/watches?endpointId="+endpoints[0], k, limit); len(got) != 4 {
			t.Errorf("of one endpoint: %v", got)
		}
	}
	newest := w.walk("/v1/watches", k, 3)
	if len(newest) != 7 || newest[6] != watches[0] && newest[5] != watches[0] {
		t.Errorf("%v of %v", newest, watches)
	}
	for path, want := range map[string]int{
		"/v1/endpoints?status=disabled":       1,
		"/v1/endpoints?status=active":         6,
		"/v1/watches?walletAddress=" + wallet: 7, "/v1/watches?walletAddress=" + payer: 0,
		"/v1/watches?walletAddress=" + wallet + "&endpointId=" + endpoints[4]: 3, "/v1/api-keys": 1,
	} {
		if got := w.walk(path, k, 2); len(got) != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	empty := wantStatus(t, w.call("GET", "/v1/watches", stranger, ""), 200)
	if string(empty.body) != `{"data":[],"nextCursor":null}` {
		t.Errorf("%s", empty.body)
	}
}

// A page must end after 1 MiB, and its cursor must lead to the rest. The pages are lists of watches
// with 1,000 senders each, and the history of one.
func TestPagesAreBoundedByBytes(t *testing.T) {
	const pageBytesMax = 1<<20 + 1<<10
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	senders := make([]string, 1000)
	for i := range senders {
		sender, err := strkey.Encode(strkey.VersionByteAccountID, fmt.Appendf(nil, "%032d", i))
		if err != nil {
			t.Fatal(err)
		}
		senders[i] = sender
	}
	many := fmt.Sprintf(`,"senderAllowlist":["%s"]`, strings.Join(senders, `","`))
	e := w.newEndpoint(k)
	made := wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, many)), 201)
	id := in(t, made.body, "id").(string)
	for i := range 40 {
		at := "/v1/watches/" + id
		wantStatus(t, w.call("PATCH", at, k, fmt.Sprintf(`{"label":"%d"}`, i)), 200)
		x := w.watches[id]
		x.ID, x.CreatedAtMillis = domain.DeriveID(domain.WatchPrefix, fmt.Sprint(i)), int64(i/2)
		w.watches[x.ID] = x
	}
	for path, want := range map[string]int{
		"/v1/watches?": 41, "/v1/watches/" + id + "/history?": 41,
		"/v1/watches?endpointId=" + e + "&": 41, "/v1/watches?walletAddress=" + wallet + "&": 41,
	} {
		seen, pages, cursor := make(map[string]bool), 0, ""
		for more := true; more; pages++ {
			got := wantStatus(t, w.call("GET", path+"limit=50"+cursor, k, ""), 200)
			if len(got.body) > pageBytesMax {
				t.Errorf("%s: a page of %d bytes", path, len(got.body))
			}
			for _, one := range in(t, got.body, "data").([]any) {
				object := one.(map[string]any)
				seen[fmt.Sprint(object["id"], object["revision"], object["version"])] = true
			}
			cursor, more = in(t, got.body, "nextCursor").(string)
			cursor = "&cursor=" + url.QueryEscape(cursor)
		}
		if len(seen) != want || pages < 3 {
			t.Errorf("%s: %d objects on %d pages, want %d", path, len(seen), pages, want)
		}
	}
}

// unreadable is a directory that cannot read when one of the keys was used.
type unreadable struct {
	api.Directory
	key string
}

func (u *unreadable) KeyUsedAt(id string) (int64, error) {
	if id == u.key {
		return 0, errors.New("the disk is broken")
	}
	return u.Directory.KeyUsedAt(id)
}

// The API sends a list while it encodes it. A failure at the beginning must become a problem, and a
// later one must break the connection, so that no client takes a part for the whole list.
func TestAListThatFailsIsCutOff(t *testing.T) {
	u := &unreadable{}
	w := newWorld(t, func(c *api.Config) { u.Directory, c.Directory = c.Directory, u })
	key := w.newKey(account("a"), domain.Permissions()...)
	made := wantStatus(t, w.call("GET", "/v1/api-keys", key, ""), 200)
	if made.Header.Get("Content-Length") != fmt.Sprint(len(made.body)) {
		t.Errorf("a short list has the header %v", made.Header)
	}
	for n := range 98 {
		w.now = w.now.Add(time.Millisecond)
		w.addKey(account("a"), domain.Key{
			ID: domain.DeriveID(domain.KeyPrefix, fmt.Sprint(n)), CreatedAtMillis: w.now.UnixMilli(),
			Name: strings.Repeat("€", 128), Permissions: domain.Permissions(),
		})
	}
	whole := wantStatus(t, w.call("GET", "/v1/api-keys?limit=250", key, ""), 200)
	if n := len(in(t, whole.body, "data").([]any)); n != 99 || len(whole.body) < 40<<10 {
		t.Fatalf("%d keys in %d bytes", n, len(whole.body))
	}
	id := func(n int) string {
		return in(t, whole.body, "data").([]any)[n].(map[string]any)["id"].(string)
	}
	u.key = id(0)
	wantProblem(t, w.call("GET", "/v1/api-keys?limit=250", key, ""), 500, "INTERNAL")
	u.key = id(98)
	request, err := http.NewRequest("GET", w.server.URL+"/v1/api-keys?limit=250", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	part, err := io.ReadAll(response.Body)
	if response.StatusCode != 200 || err == nil || len(part) == 0 {
		t.Errorf("a list that fails got %d and %d bytes, %v", response.StatusCode, len(part), err)
	}
	if !strings.Contains(w.log.String(), "an answer was cut off") {
		t.Error("the log does not say that an answer was cut off")
	}
}

func TestListEvents(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	e := w.newEndpoint(k)
	payment := w.delivered(account("a"), e, domain.StateQueued)
	w.now = w.now.Add(time.Second)
	test := in(t, w.call("POST", "/v1/endpoints/"+e+"/test", k, "").body, "eventId").(string)
	if got := w.walk("/v1/events", k, 1); !slices.Equal(got, []string{test, payment.ID}) {
		t.Errorf("%v", got)
	}
	watch := domain.DeriveID(domain.WatchPrefix, "1")
	for query, want := range map[string][]string{
		"type=test.ping":        {test},
		"type=payment.received": {payment.ID}, "state=QUEUED": {payment.ID}, "state=FAILED": nil,
		"endpointId=" + e: {test, payment.ID},
		"endpointId=" + domain.DeriveID(domain.EndpointPrefix, "x"): nil,
		"watchId=" + watch:          {payment.ID},
		"walletAddress=" + wallet:   {payment.ID},
		"paymentId=221517461192705": {payment.ID}, "paymentId=221517461192705-0": nil,
		"txHash=" + strings.Repeat("ab", 32): {payment.ID},
		"txHash=" + strings.Repeat("AB", 32): {payment.ID},
		"txHash=" + strings.Repeat("ac", 32): nil,
		"sender=" + payer:                    {payment.ID}, "sender=" + wallet: nil,
		"memo=order%EF%BF%BD": {payment.ID}, "memo=order": nil,
		"asset=XLM": {payment.ID}, "asset=USD:" + wallet: nil,
		"minAmount=12.5": {payment.ID}, "minAmount=12.5000001": nil,
		"maxAmount=12.5000000": {payment.ID}, "maxAmount=12.4999999": nil,
		"minAmount=0&maxAmount=922337203685.4775807": {payment.ID},
		"since=2026-11-21T10:15:31Z":                 {test}, "until=2026-11-21T10:15:31Z": {payment.ID},
	} {
		if got := w.walk("/v1/events?"+query, k, 50); !slices.Equal(got, want) {
			t.Errorf("%s: %v", query, got)
		}
	}
	got := w.call("GET", "/v1/events?type=payment.received", k, "")
	want := `{"data":[` + string(payment.Body[:len(payment.Body)-1]) + fmt.Sprintf(`,"delivery":{"state":"QUEUED","held":false,"endpointId":%q,"sequence":12,"nextAttemptAt":"2026-11-21T10:15:31.123Z","attempts":0,"lastStatusCode":null,"lastError":null}}],"nextCursor":null}`, e)
	if string(got.body) != want {
		t.Errorf("%s\n%s", got.body, want)
	}
	wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/disable", k, ""), 200)
	if got := w.call("GET", "/v1/events", k, ""); strings.Count(string(got.body), `"held":true`) != 1 {
		t.Errorf("%s", got.body)
	}
	w.historyErr = readmodel.ErrUnavailable
	wantProblem(t, w.call("GET", "/v1/events", k, ""), 503, "HISTORY_UNAVAILABLE")
}

func TestQueriesThatAreRefused(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	for query, want := range map[string]string{
		"limit=0":   "limit OUT_OF_RANGE",
		"limit=251": "limit OUT_OF_RANGE",
		"limit=x":   "limit OUT_OF_RANGE",
		"limit=":    "limit OUT_OF_RANGE", "limit=1&limit=2": "limit DUPLICATE",
		"limt=5":       "limt UNKNOWN_PARAMETER",
		"%zz":          " SYNTAX",
		"a;b":          " SYNTAX",
		"endpointId=x": "endpointId INVALID_VALUE", "watchId=ep_1": "watchId INVALID_VALUE",
		"walletAddress=G":                "walletAddress INVALID_ADDRESS",
		"walletAddress=" + muxed(wallet): "walletAddress MUXED_ADDRESS_REFUSED",
		"type=payment":                   "type INVALID_VALUE",
		"state=queued":                   "state INVALID_VALUE",
		"since=now":                      "since INVALID_TIME", "limit=%2B5": "limit OUT_OF_RANGE",
		"paymentId=0": "paymentId INVALID_VALUE", "paymentId=1-": "paymentId INVALID_VALUE",
		"paymentId=12345678901234567890":    "paymentId INVALID_VALUE",
		"txHash=" + strings.Repeat("a", 63): "txHash INVALID_VALUE",
		"txHash=" + strings.Repeat("g", 64): "txHash INVALID_VALUE",
		"sender=G":                          "sender INVALID_ADDRESS",
		"sender=" + muxed(wallet):           "sender MUXED_ADDRESS_REFUSED",
		"memo=":                             "memo EMPTY",
		"memo=" + strings.Repeat("x", 85):   "memo TOO_LONG",
		"asset=USD":                         "asset INVALID_VALUE",
		"asset=U-D:" + wallet:               "asset INVALID_VALUE",
		"asset=USD:G":                       "asset INVALID_ADDRESS",
		"minAmount=-1":                      "minAmount INVALID_AMOUNT",
		"minAmount=1e3":                     "minAmount INVALID_AMOUNT",
		"minAmount=0.00000001":              "minAmount INVALID_AMOUNT",
		"maxAmount=922337203685.4775808":    "maxAmount INVALID_AMOUNT",
		"minAmount=2&maxAmount=1.9999999":   "maxAmount RANGE_IS_EMPTY",
		"since=2026-11-21T10:15:30Z&until=2026-11-21T10:15:30Z": "until RANGE_IS_EMPTY",
		"until=2026-11-21T10:15:30%2B02:00":                     "until INVALID_TIME",
	} {
		p := wantProblem(t, w.call("GET", "/v1/events?"+query, k, ""), 400, "INVALID_PARAMETER")
		if got := p.Errors[0].Parameter + " " + p.Errors[0].Code; len(p.Errors) != 1 || got != want ||
			strings.Contains(p.Errors[0].Detail, "[") {
			t.Errorf("%s: %+v", query, p.Errors)
		}
	}
	got := w.call("GET", "/v1/events?walletAddress="+w.secretSeed(), k, "")
	wantProblem(t, got, 422, "SECRET_KEY_REFUSED")
	wantProblem(t,
		w.call("GET", "/v1/watches?walletAddress="+w.secretSeed()+"&"+w.secretSeed()+"=1", k, ""), 422,
		"SECRET_KEY_REFUSED")
	if strings.Contains(w.log.String(), w.secretSeed()) ||
		strings.Contains(string(got.body), w.secretSeed()) {
		t.Error("the secret key came back")
	}
}

func TestACursorBelongsToItsList(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	stranger := w.newKey(account("b"), domain.Permissions()...)
	e := w.newEndpoint(k)
	w.newEndpoint(k)
	for range 3 {
		wantStatus(t, w.call("POST", "/v1/watches", k, watchBody(e, "")), 201)
	}
	got := w.call("GET", "/v1/watches?limit=1&endpointId="+e, k, "")
	cursor := in(t, got.body, "nextCursor").(string)
	wantStatus(t, w.call("GET", "/v1/watches?limit=2&endpointId="+e+"&cursor="+cursor, k, ""), 200)
	raw, _ := base64.RawURLEncoding.DecodeString(cursor)
	raw[len(raw)-1] ^= 1
	for _, c := range []struct{ path, cursor, key string }{
		{"/v1/watches?", cursor, k}, {"/v1/watches?walletAddress=" + wallet + "&", cursor, k},
		{"/v1/watches?endpointId=" + domain.DeriveID(domain.EndpointPrefix, "x") + "&", cursor, k},
		{"/v1/endpoints?", cursor, k}, {"/v1/events?", cursor, k}, {"/v1/api-keys?", cursor, k},
		{"/v1/watches?endpointId=" + e + "&", cursor, stranger},
		{"/v1/watches?endpointId=" + e + "&", base64.RawURLEncoding.EncodeToString(raw), k},
		{"/v1/watches?endpointId=" + e + "&", "x", k}, {"/v1/watches?endpointId=" + e + "&", "AAAA", k},
	} {
		wantProblem(t, w.call("GET", c.path+"cursor="+c.cursor, c.key, ""), 400, "INVALID_CURSOR")
	}
}

// On every route that names an object, another account's object must look as if it didn't exist,
// and must not change.
func TestAccountsAreIsolatedOnEveryRoute(t *testing.T) {
	w := newWorld(t)
	owner, stranger := w.newKey(account("a"), domain.Permissions()...),
		w.newKey(account("b"), domain.Permissions()...)
	e := w.newEndpoint(owner)
	watch := in(t, w.call("POST", "/v1/watches", owner, watchBody(e, "")).body, "id").(string)
	event := w.delivered(account("a"), e, domain.StateFailed).ID
	key := domain.DeriveID(domain.KeyPrefix, owner)
	facts := w.facts
	theirs := map[string]string{"endpoints": e, "watches": watch, "events": event, "api-keys": key}
	nobodys := map[string]string{
		"endpoints": domain.DeriveID(domain.EndpointPrefix, "n"),
		"watches":   domain.DeriveID(domain.WatchPrefix, "n"),
		"events":    domain.DeriveID(domain.EventPrefix, "n"),
		"api-keys":  domain.DeriveID(domain.KeyPrefix, "n"),
	}
	bodies := map[string]string{
		"replay":   `{"since":"2026-01-01T00:00:00Z"}`,
		"backfill": `{"from":2}`,
		"PATCH":    `{}`,
	}
	routes := w.api.Routes()
	named, lists := 0, 0
	for _, r := range routes {
		method, path, _ := strings.Cut(r, " ")
		parts := strings.Split(path, "/")
		if strings.HasPrefix(path, "/.well-known/") {
			continue // public keys, which anyone may read
		}
		if !strings.Contains(path, "{id}") {
			if method == "GET" && strings.HasPrefix(path, "/v1/") && len(parts) == 3 &&
				!strings.HasPrefix(parts[2], "openapi.") {
				lists++
				got := wantStatus(t, w.call("GET", path, stranger, ""), 200)
				for _, id := range theirs {
					if strings.Contains(string(got.body), id) {
						t.Errorf("%s shows %s", r, id)
					}
				}
			}
			continue
		}
		named++
		body := bodies[method]
		if b, special := bodies[parts[len(parts)-1]]; special {
			body = b
		}
		for _, header := range [][]string{
			{"X-Request-Id", "r"}, {"X-Request-Id", "r", "Idempotency-Key", "i" + r},
		} {
			denied := w.call(method, strings.Replace(path, "{id}", theirs[parts[2]], 1), stranger, body,
				header...)
			absent := w.call(method, strings.Replace(path, "{id}", nobodys[parts[2]], 1), stranger, body,
				header...)
			wantProblem(t, denied, 404, "NOT_FOUND")
			if string(denied.body) != string(absent.body) {
				t.Errorf("%s: %s differs from %s", r, denied.body, absent.body)
			}
		}
	}
	if named < 15 || lists != 6 {
		t.Errorf("%d routes with an id, %d lists of %v", named, lists, routes)
	}
	for _, query := range []string{
		"/v1/watches?endpointId=" + e, "/v1/watches?walletAddress=" + wallet,
		"/v1/events?endpointId=" + e, "/v1/events?watchId=" + watch,
		"/v1/events?walletAddress=" + wallet,
	} {
		got := w.call("GET", query, stranger, "")
		if string(got.body) != `{"data":[],"nextCursor":null}` {
			t.Errorf("%s: %s", query, got.body)
		}
	}
	p := wantProblem(t, w.call("POST", "/v1/watches", stranger, watchBody(e, "")), 422,
		"VALIDATION_FAILED")
	if !slices.Equal(pointers(p), []string{"/endpointId ENDPOINT_NOT_FOUND"}) {
		t.Errorf("%v", pointers(p))
	}
	if w.facts != facts {
		t.Errorf("%d facts were made", w.facts-facts)
	}
}

func TestPermissions(t *testing.T) {
	w := newWorld(t)
	keys := map[domain.Permission]string{}
	for _, p := range domain.Permissions() {
		keys[p] = w.newKey(account("a"), p)
	}
	operate := []string{"/enable", "/disable", "/test", "/replay", "/resend", "/backfill"}
	for _, r := range w.api.Routes() {
		method, path, _ := strings.Cut(r, " ")
		if !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, "/v1/openapi.") {
			continue
		}
		needed := domain.PermissionWrite
		switch {
		case method == "GET" && path == "/v1/endpoints/{id}/events": // contains signatures
			needed = domain.PermissionOperate
		case method == "GET", path == "/v1/portal-links": // is not stored
			needed = domain.PermissionRead
		case slices.ContainsFunc(operate, func(end string) bool { return strings.HasSuffix(path, end) }):
			needed = domain.PermissionOperate
		}
		for p, k := range keys {
			got := w.call(method, strings.Replace(path, "{id}", "x", 1), k, `{}`)
			if (got.StatusCode == 403) != (p != needed) {
				t.Errorf("%s with %s: %d %s", r, p, got.StatusCode, got.body)
			}
		}
	}
}
