package api_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/console"
	"github.com/lumenhook/lumenhook/api/receipt"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// desk is a browser that uses a world's console.
type desk struct {
	t       testing.TB
	world   *world
	console *console.Console
	address string
	browser *http.Client
}

func newConsole(
	t testing.TB, w *world, change ...func(*console.Config),
) *console.Console {
	config := console.Config{
		API:          w.api,
		Keys:         w,
		Sessions:     w,
		Entropy:      rand.Reader,
		Now:          w.config.Now,
		Log:          w.api.Log,
		DeriveKey:    w.config.DeriveKey,
		DisableAfter: 3,
		Schedule:     domain.DefaultSchedule(),
		LookEvery:    time.Millisecond,
	}
	for _, c := range change {
		c(&config)
	}
	c, err := console.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newDesk opens a browser that doesn't follow redirects.
func newDesk(t testing.TB, w *world, change ...func(*console.Config)) *desk {
	c := newConsole(t, w, change...)
	server := httptest.NewServer(c.Mount(w.api))
	t.Cleanup(server.Close)
	return &desk{t: t, world: w, console: c, address: server.URL, browser: newBrowser(t)}
}

func newBrowser(t testing.TB) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{
		Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
}

type sheet struct {
	*http.Response
	text string
}

func (d *desk) do(method, path string, form url.Values, header ...string) sheet {
	d.t.Helper()
	r, err := http.NewRequest(method, d.address+path, strings.NewReader(form.Encode()))
	if err != nil {
		d.t.Fatal(err)
	}
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := d.browser.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return sheet{response, string(text)}
}

func (d *desk) get(path string) sheet { d.t.Helper(); return d.do("GET", path, nil) }

func (d *desk) open(path string) string {
	d.t.Helper()
	s := d.get(path)
	if s.StatusCode != http.StatusOK {
		d.t.Fatalf("%s: %d %s\n%s", path, s.StatusCode, s.Header.Get("Location"), s.text)
	}
	return s.text
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// form returns the hidden fields of the form that posts to an action.
func (s sheet) form(t testing.TB, action string) url.Values {
	t.Helper()
	_, rest, found := strings.Cut(s.text, ` method="post" action="`+action+`">`)
	if !found {
		t.Fatalf("no form posts to %s:\n%s", action, s.text)
	}
	rest, _, _ = strings.Cut(rest, "</form>")
	form := url.Values{}
	for _, field := range hiddenField.FindAllStringSubmatch(rest, -1) {
		form.Set(field[1], html.UnescapeString(field[2]))
	}
	return form
}

// press posts a page's form with additional fields.
func (d *desk) press(page, action string, fields ...string) sheet {
	d.t.Helper()
	form := d.get(page).form(d.t, action)
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	return d.do("POST", action, form)
}

func (d *desk) signIn(apiKey string) sheet {
	d.t.Helper()
	return d.press("/console/sign-in", "/console/sign-in", "key", apiKey)
}

// signedIn returns a browser that is signed in with a new key of account a.
func signedIn(
	t testing.TB, w *world, permissions ...domain.Permission,
) (d *desk, apiKey string) {
	t.Helper()
	k := w.newKey(account("a"), permissions...)
	d = newDesk(t, w)
	if s := d.signIn(k); s.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	return d, k
}

func TestConsoleSignsInAndOut(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.Permissions()...)
	d := newDesk(t, w)
	s := d.get("/console/events?state=FAILED")
	if to := s.Header.Get("Location"); s.StatusCode != http.StatusSeeOther ||
		to != "/console/sign-in?next=%2Fconsole%2Fevents%3Fstate%3DFAILED" {
		t.Fatalf("%d %s", s.StatusCode, to)
	}
	s = d.press(s.Header.Get("Location"), "/console/sign-in", "key", k+" ")
	if to := s.Header.Get("Location"); to != "/console/events?state=FAILED" {
		t.Errorf("went on to %q", to)
	}
	cookie := sessionCookie(t, s)
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Secure ||
		cookie.MaxAge != 0 || !cookie.Expires.IsZero() {
		t.Errorf("%+v", cookie)
	}
	if strings.Contains(cookie.Value, k) {
		t.Error("the cookie shows the key")
	}
	d.open("/console")
	if s = d.press("/console", "/console/sign-out"); s.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	if s = d.get("/console"); s.StatusCode != http.StatusSeeOther {
		t.Errorf("signed out, the overview is %d", s.StatusCode)
	}
	if strings.Contains(w.log.String(), k) {
		t.Error("the log shows the key")
	}
}

func sessionCookie(t testing.TB, s sheet) *http.Cookie {
	t.Helper()
	for _, c := range s.Cookies() {
		if strings.HasSuffix(c.Name, "lumenhook-console") {
			return c
		}
	}
	t.Fatalf("no session in %v", s.Header)
	return nil
}

// A proxy that terminates TLS reports that in a header. The cookie must then be one that only this
// host can set.
func TestConsoleCookiesBehindTLS(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	d := newDesk(t, w)
	tls := []string{"X-Forwarded-Proto", "https"}
	s := d.do("GET", "/console/sign-in", nil, tls...)
	form := s.form(t, "/console/sign-in")
	form.Set("key", k)
	// The browser doesn't send cookies for TLS to this test's plain server, so the test sends them
	// itself.
	s = d.do("POST", "/console/sign-in", form, append(tls, "Cookie", s.Header.Get("Set-Cookie"))...)
	if s.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	if c := sessionCookie(t, s); c.Name != "__Host-lumenhook-console" || !c.Secure || c.Path != "/" {
		t.Errorf("%+v", c)
	}
}

func TestConsoleRefusesWrongKeysOnly(t *testing.T) {
	w := newWorld(t)
	d := newDesk(t, w)
	for _, k := range []string{
		"", "whk_test_x", "<script>alert(1)</script>", strings.Repeat("k", 9000),
	} {
		s := d.signIn(k)
		if s.StatusCode != http.StatusUnauthorized || !strings.Contains(s.text, "This key is invalid") {
			t.Errorf("%.20q: %d %s", k, s.StatusCode, s.text)
		}
		if k != "" && strings.Contains(s.text, k) {
			t.Errorf("the page shows %.20q", k)
		}
	}
	for range 20 {
		d.signIn("whk_test_x")
	}
	k := w.newKey(account("a"), domain.PermissionRead)
	if s := d.signIn(k); s.StatusCode != http.StatusSeeOther {
		t.Errorf("after many keys that were refused, a good one from the same address is: %d", s.StatusCode)
	}
}

func TestConsoleSessionsEnd(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	d.open("/console/endpoints")
	t.Run("with their key", func(t *testing.T) {
		w.mu.Lock()
		held := w.accounts[account("a")]
		w.accounts[account("a")] = domain.Account{ID: held.ID, Version: held.Version}
		w.mu.Unlock()
		s := d.get("/console/endpoints")
		if to := s.Header.Get("Location"); !strings.Contains(to, "ended") {
			t.Errorf("%d %s", s.StatusCode, to)
		}
		if c := sessionCookie(t, s); c.MaxAge >= 0 {
			t.Errorf("the cookie is kept: %+v", c)
		}
	})
	t.Run("by time", func(t *testing.T) {
		d, _ := signedIn(t, w, domain.PermissionRead)
		for range 8*4 - 1 { // a page every quarter of an hour, all day
			w.now = w.now.Add(15*time.Minute - time.Second)
			d.open("/console")
		}
		w.now = w.now.Add(10 * time.Minute)
		d.open("/console")
		w.now = w.now.Add(5*time.Minute + 32*time.Second)
		if s := d.get("/console"); s.StatusCode != http.StatusSeeOther {
			t.Errorf("%d", s.StatusCode)
		}
	})
}

// After a sign-out, when the session is idle and when the key is rolled, a copy of the cookie must
// also stop working, at every node.
func TestConsoleSessionsEndForACopyToo(t *testing.T) {
	copied := func(w *world) (d, thief, elsewhere *desk, k string) {
		d, k = signedIn(t, w, domain.Permissions()...)
		elsewhere, thief = newDesk(t, w), &desk{}
		*thief = *d
		thief.browser = newBrowser(t)
		at, err := url.Parse(d.address)
		if err != nil {
			t.Fatal(err)
		}
		there, err := url.Parse(elsewhere.address)
		if err != nil {
			t.Fatal(err)
		}
		thief.browser.Jar.SetCookies(at, d.browser.Jar.Cookies(at))
		elsewhere.browser.Jar.SetCookies(there, d.browser.Jar.Cookies(at))
		thief.open("/console/endpoints")
		elsewhere.open("/console/endpoints")
		return d, thief, elsewhere, k
	}
	isOut := func(d *desk) {
		t.Helper()
		if s := d.get("/console/endpoints"); s.StatusCode != http.StatusSeeOther {
			t.Errorf("%d %s", s.StatusCode, s.text)
		}
	}
	t.Run("signed out", func(t *testing.T) {
		w := newWorld(t)
		d, thief, elsewhere, k := copied(w)
		w.Used("ses_before", w.now.UnixMilli())
		d.press("/console", "/console/sign-out")
		if at, _ := w.KeyUsedAt("ses_before"); at != 0 {
			t.Error("the record of an expired session is kept")
		}
		isOut(thief)
		isOut(elsewhere)
		d.signIn(k) // the key is still valid, and this is a new session
		d.open("/console")
	})
	t.Run("signed out, and the others do not know", func(t *testing.T) {
		w := newWorld(t)
		d, thief, elsewhere, _ := copied(w)
		w.endErr = io.ErrUnexpectedEOF
		s := d.press("/console", "/console/sign-out")
		if s.StatusCode != http.StatusServiceUnavailable || !strings.Contains(s.text, "other nodes") {
			t.Errorf("%d %s", s.StatusCode, s.text)
		}
		isOut(d)
		isOut(thief)
		elsewhere.open("/console")
	})
	t.Run("idle", func(t *testing.T) {
		w := newWorld(t)
		d, thief, elsewhere, _ := copied(w)
		w.now = w.now.Add(10 * time.Minute)
		d.open("/console")
		s := thief.do("GET", "/console", nil, "Sec-Fetch-Mode", "cors") // a script on an open page
		if s.StatusCode != http.StatusOK || len(s.Cookies()) > 0 {
			t.Errorf("%d %v", s.StatusCode, s.Cookies())
		}
		w.now = w.now.Add(5 * time.Minute)
		isOut(thief)
		isOut(elsewhere)
		d.open("/console")
	})
	t.Run("rolled", func(t *testing.T) {
		w := newWorld(t)
		d, thief, elsewhere, k := copied(w)
		path := "/v1/api-keys/" + domain.DeriveID(domain.KeyPrefix, k) + "/roll"
		wantStatus(t, w.call("POST", path, k, `{"graceSeconds":3600}`), 201)
		isOut(d)
		isOut(thief)
		isOut(elsewhere)
		if s := d.signIn(k); s.StatusCode != http.StatusUnauthorized ||
			!strings.Contains(s.text, "rolled") {
			t.Errorf("%d %s", s.StatusCode, s.text)
		}
		wantStatus(t, w.call("GET", "/v1/endpoints", k, ""), 200) // valid until its grace period is over
	})
	t.Run("what is remembered ends", func(t *testing.T) {
		w := newWorld(t)
		d, _, _, k := copied(w)
		d.press("/console", "/console/sign-out")
		if len(w.used) != 2 { // including the use of the key itself
			t.Errorf("%v", w.used)
		}
		w.now = w.now.Add(9 * time.Hour)
		d.signIn(k)
		d.press("/console", "/console/sign-out")
		if len(w.used) != 2 {
			t.Errorf("%v", w.used)
		}
	})
}

// Another node must accept the session, and another deployment must not. A text that was sealed for
// another purpose must not be accepted as a session.
func TestConsoleNodesShareSessions(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.PermissionRead)
	at, err := url.Parse(d.address)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(c *console.Console, value string) int {
		r := httptest.NewRequest("GET", "/console", nil)
		r.AddCookie(&http.Cookie{Name: "lumenhook-console", Value: value})
		out := httptest.NewRecorder()
		c.ServeHTTP(out, r)
		return out.Code
	}
	value := d.browser.Jar.Cookies(at)[0].Value
	if got := ask(newConsole(t, w), value); got != http.StatusOK {
		t.Errorf("another node: %d", got)
	}
	link, err := d.console.SignInLink(k)
	if err != nil {
		t.Fatal(err)
	}
	_, sealed, _ := strings.Cut(link, "to=")
	changed := "A" + value[1:]
	if changed == value {
		changed = "B" + value[1:]
	}
	for name, wrong := range map[string]string{
		"changed": changed, "cut": value[:20], "a link": sealed,
		"no base64": "%%%", "long": strings.Repeat("A", 4000),
	} {
		if got := ask(d.console, wrong); got != http.StatusSeeOther {
			t.Errorf("%s: %d", name, got)
		}
	}
	w.config.DeriveKey = nil
	if got := ask(newConsole(t, w), value); got != http.StatusSeeOther {
		t.Errorf("another deployment: %d", got)
	}
}

func TestConsoleLinkSignsInOnce(t *testing.T) {
	w := newWorld(t)
	k := w.newKey(account("a"), domain.PermissionRead)
	d := newDesk(t, w)
	link, err := d.console.SignInLink(k)
	if err != nil {
		t.Fatal(err)
	}
	w.freshErr = io.ErrUnexpectedEOF
	if s := d.get(link); s.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while the node is behind: %d", s.StatusCode)
	}
	w.freshErr = nil
	if s := d.get(link); s.Header.Get("Location") != "/console" {
		t.Fatalf("%d %s", s.StatusCode, s.text)
	}
	d.open("/console")
	if s := newDesk(t, w).get(link); s.StatusCode != http.StatusForbidden {
		t.Errorf("at another console: %d", s.StatusCode)
	}
	if s := d.get(link); s.StatusCode != http.StatusForbidden {
		t.Errorf("again: %d", s.StatusCode)
	}
	late, err := d.console.SignInLink(k)
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(10 * time.Minute)
	if s := d.get(late); s.StatusCode != http.StatusForbidden {
		t.Errorf("late: %d", s.StatusCode)
	}
}

// A form without a token, or with another session's token, must have no effect.
func TestConsoleRefusesForgedForms(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	other, _ := signedIn(t, w, domain.Permissions()...)
	page, action := "/console/endpoints/"+e, "/console/endpoints/"+e+"/disable"
	stolen := other.get(page).form(t, action).Get("token")
	for _, token := range []string{"", "x", stolen} {
		s := d.do("POST", action, url.Values{"token": {token}})
		if s.StatusCode != http.StatusForbidden {
			t.Errorf("%q: %d", token, s.StatusCode)
		}
	}
	if s := d.do("POST", "/console/sign-in", url.Values{"key": {k}}); s.StatusCode != 403 {
		t.Errorf("signing in: %d", s.StatusCode)
	}
	if w.endpoints[e].Status != domain.StatusActive {
		t.Error("the endpoint was disabled")
	}
	if s := d.press(page, action); s.StatusCode != http.StatusSeeOther ||
		w.endpoints[e].Status != domain.StatusDisabled {
		t.Errorf("the form itself: %d, %s", s.StatusCode, w.endpoints[e].Status)
	}
}

// When another site's page links to the console, browsers don't send the session's cookie. The
// browser must then load the page again, without losing the session.
func TestConsoleComesAgainFromItself(t *testing.T) {
	d := newDesk(t, newWorld(t))
	s := d.do("GET", "/console/events?memo=%22%3E%3Cscript%3E", nil, "Sec-Fetch-Site", "cross-site")
	if s.StatusCode != http.StatusOK || len(s.Cookies()) != 0 ||
		!strings.Contains(s.text, `http-equiv="refresh"`) || strings.Contains(s.text, "<script>") {
		t.Errorf("%d %v\n%s", s.StatusCode, s.Cookies(), s.text)
	}
}

func TestConsoleGoesOnToItsOwnPagesOnly(t *testing.T) {
	w := newWorld(t)
	for _, next := range []string{
		"https://evil.example/console", "//evil.example/console", `/\evil.example`, "/v1/events",
		"/console/../v1", "/console\r\nX: y", "javascript:alert(1)", "/consolex",
	} {
		d := newDesk(t, w)
		k := w.newKey(account("a"), domain.PermissionRead)
		s := d.press("/console/sign-in?next="+url.QueryEscape(next), "/console/sign-in", "key", k)
		if to := s.Header.Get("Location"); to != "/console" {
			t.Errorf("%q leads to %q", next, to)
		}
	}
}

// A page must load and run only the console's own files, and these must exist.
func TestConsolePagesAreClosed(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateFailed, domain.AttemptResult{StatusCode: 500})
	watch := in(t, w.call("POST", "/v1/watches", k, watchBody(e, "")).body, "id").(string)
	inline := regexp.MustCompile(`(?i)<script>|<style| style=| on\w+=|javascript:|https?://`)
	loaded := regexp.MustCompile(`(?:src|rel="stylesheet" href|rel="icon" href)="([^"]+)"`)
	for _, path := range []string{
		"", "/endpoints", "/endpoints/" + e, "/endpoints/" + e + "/replay", "/events",
		"/events/" + event.ID, "/watches", "/sign-in", "/none", "/endpoints/new",
		"/endpoints/" + e + "/edit",
		"/endpoints/" + e + "/rotate", "/endpoints/" + e + "/delete", "/watches/new", "/watches/" + watch,
		"/watches/" + watch + "/edit", "/watches/" + watch + "/delete", "/wallets/" + wallet,
	} {
		s := d.get("/console" + path)
		policy := s.Header.Get("Content-Security-Policy")
		if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") ||
			!strings.Contains(policy, "frame-ancestors 'none'") ||
			s.Header.Get("Cache-Control") != "no-store" ||
			s.Header.Get("Referrer-Policy") != "same-origin" || // or forms have Origin: null
			s.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", path, s.Header)
		}
		text := strings.ReplaceAll(s.text, "https://a.example", "")
		text = strings.ReplaceAll(text, "https://shop.example", "")
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s holds %q", path, found)
		}
		files := loaded.FindAllStringSubmatch(s.text, -1)
		if len(files) < 3 {
			t.Errorf("%s loads %v", path, files)
		}
		for _, file := range files {
			if got := d.get(file[1]); got.StatusCode != 200 || len(got.text) == 0 {
				t.Errorf("%s loads %s: %d", path, file[1], got.StatusCode)
			}
		}
	}
}

// Labels, descriptions, memos and responses must be escaped.
func TestConsoleShowsWhatOthersWroteAsText(t *testing.T) {
	const hostile = `</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>"'`
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	made := w.call("POST", "/v1/endpoints", k,
		`{"url":"https://a.example/?q=%3Cscript%3E","description":"<script>alert(3)</script>"}`)
	e := decode[endpointAnswer](t, made.body).ID
	label := `,"label":"\"><script>alert(4)</script>","memoRule":{"kind":"equals","type":"text",` +
		`"value":"<script>x</script>"}`
	watch := decode[struct{ ID string }](t, w.call("POST", "/v1/watches", k, watchBody(e, label)).body)
	event := w.delivered(account("a"), e, domain.StateFailed,
		domain.AttemptResult{StatusCode: 500, ResponseBody: []byte(hostile)})
	asked := url.QueryEscape(hostile)
	for path, want := range map[string]string{
		"/watches/" + watch.ID + "?amount=" + asked:               "&lt;script&gt;alert(1)",
		"/watches/" + watch.ID + "?warning=NO_TRUSTLINE:" + asked: "",
		"/wallets/" + wallet + "?asset=" + asked:                  "&lt;script&gt;alert(1)",

		"/endpoints":                                       "&lt;script&gt;alert(3)",
		"/endpoints/" + e:                                  "&lt;script&gt;alert(3)",
		"/watches":                                         "&lt;script&gt;alert(4)",
		"/watches/" + watch.ID:                             "&lt;script&gt;x",
		"/events":                                          "a &lt;b&gt; &amp;",
		"/endpoints/" + e + "/edit":                        "&lt;script&gt;alert(3)",
		"/watches/" + watch.ID + "/edit":                   "&lt;script&gt;alert(4)",
		"/watches/" + watch.ID + "/delete":                 "&lt;script&gt;alert(4)",
		"/endpoints/" + e + "/delete":                      "alert(4)&lt;/script&gt; " + watch.ID,
		"/events/" + event.ID:                              "&lt;/pre&gt;&lt;/script&gt;&lt;script&gt;",
		"/events?memo=" + url.QueryEscape(`"><script>`):    "&#34;&gt;&lt;script&gt;",
		"/watches?endpointId=" + url.QueryEscape(`"><b>x`): "",

		"/watches/" + watch.ID + "/history":                       "&lt;script&gt;alert(4)",
		"/watches/" + watch.ID + "/history?version=" + asked:      "&lt;script&gt;alert(4)",
		"/watches/" + watch.ID + "/history?cursor=" + asked + "x": "",
	} {
		text := d.get("/console" + path).text
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img src=x") ||
			strings.Contains(text, "<b>") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// Characters that reverse or hide text must be shown as escapes. Forms keep them, so that saving
// another field doesn't change them.
func TestConsoleShowsInvisibleCharacters(t *testing.T) {
	const hidden = "\u009b2J\u202egpj\u2066\u200b\U000e0041\u2028"
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	made := wantStatus(t, w.call("POST", "/v1/endpoints", k,
		`{"url":"https://a.example","description":"d\u202egpj\u200b"}`), 201)
	e := decode[endpointAnswer](t, made.body).ID
	watch := decode[struct{ ID string }](t, wantStatus(t, w.call("POST", "/v1/watches", k,
		watchBody(e, `,"label":"l\u202egpj\u200b"`)), 201).body)
	event := w.delivered(account("a"), e, domain.StateFailed,
		domain.AttemptResult{StatusCode: 500, ResponseBody: []byte("b" + hidden)})
	for path, want := range map[string]string{
		"/endpoints":                        `d\u202egpj\u200b`,
		"/endpoints/" + e:                   `d\u202egpj\u200b`,
		"/watches":                          `l\u202egpj\u200b`,
		"/watches/" + watch.ID:              `l\u202egpj\u200b`,
		"/watches/" + watch.ID + "/delete":  `l\u202egpj\u200b`,
		"/watches/" + watch.ID + "/history": `l\u202egpj\u200b`,
		"/events":                           `\u2028`,
		"/events/" + event.ID:               `b\u009b2J\u202egpj\u2066\u200b\udb40\udc41\u2028`,
		"/watches/" + watch.ID + "/edit":    `value="l` + "\u202egpj\u200b",
		"/endpoints/" + e + "/edit":         `value="d` + "\u202egpj\u200b",
	} {
		text := d.get("/console" + path).text
		raw := strings.ContainsAny(text, "\u009b\u202e\u2066\u200b\u2028")
		if !strings.Contains(text, want) || raw != strings.HasSuffix(path, "/edit") {
			t.Errorf("%s: %q is missing in %q", path, want, text)
		}
	}
	at := "/console/watches/" + watch.ID + "/delete"
	token := d.get(at).form(t, at)
	token.Set("name", `l\u202egpj\u200b`)
	if s := d.do("POST", at, token); s.StatusCode != http.StatusSeeOther {
		t.Errorf("the name as it is shown: %d %s", s.StatusCode, s.text)
	}
}

// TestConsoleSaysHowManyOneReplayQueues has more failed deliveries than one replay queues.
func TestConsoleSaysHowManyOneReplayQueues(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateFailed)
	for i := range domain.MaxReplay {
		w.history[fmt.Sprint(event.ID, i)] = w.history[event.ID]
	}
	w.now = w.now.Add(time.Minute)
	text := d.open("/console/endpoints/" + e + "/replay?hours=1")
	for _, s := range []string{"<strong>1001 or more</strong>", "Replay the oldest 1000<"} {
		if !strings.Contains(text, s) {
			t.Errorf("%q is missing in %s", s, text)
		}
	}
}

// Buttons must be shown only for keys that may use them, and the API must reject the request
// anyway.
func TestConsoleLeavesOutWhatAKeyMayNot(t *testing.T) {
	w := newWorld(t)
	e := w.newEndpoint(w.newKey(account("a"), domain.Permissions()...))
	d, _ := signedIn(t, w, domain.PermissionRead)
	s := d.get("/console/endpoints/" + e)
	if strings.Contains(s.text, "/disable") || !strings.Contains(s.text, "permission") {
		t.Errorf("%s", s.text)
	}
	if text := d.open("/console/endpoints/" + e + "/replay"); !strings.Contains(text, "permission") ||
		strings.Contains(text, "<form method=\"post\" action=\"/console/endpoints/") {
		t.Errorf("the replay: %s", text)
	}
	token := s.form(t, "/console/sign-out")
	s = d.do("POST", "/console/endpoints/"+e+"/disable", token)
	if s.StatusCode != http.StatusForbidden || !strings.Contains(s.text, "does not have permission") ||
		w.endpoints[e].Status != domain.StatusActive {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
	writer, _ := signedIn(t, w, domain.PermissionWrite)
	for _, path := range []string{"", "/endpoints", "/events", "/watches"} {
		if s := writer.get("/console" + path); s.StatusCode != http.StatusForbidden {
			t.Errorf("%s is %d for a key that may not read", path, s.StatusCode)
		}
	}
}

func TestConsoleShowsNothingOfOtherAccounts(t *testing.T) {
	w := newWorld(t)
	theirs := w.newKey(account("b"), domain.Permissions()...)
	e := w.newEndpoint(theirs)
	made := w.call("POST", "/v1/watches", theirs, watchBody(e, ""))
	watch := decode[struct{ ID string }](t, made.body)
	event := w.delivered(account("b"), e, domain.StateFailed)
	d, _ := signedIn(t, w, domain.Permissions()...)
	token := d.get("/console").form(t, "/console/sign-out")
	for _, path := range []string{"/endpoints/" + e, "/watches/" + watch.ID, "/events/" + event.ID} {
		if s := d.get("/console" + path); s.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, s.StatusCode)
		}
	}
	for _, path := range []string{
		"/endpoints/" + e + "/disable", "/endpoints/" + e + "/test", "/events/" + event.ID + "/resend",
	} {
		if s := d.do("POST", "/console"+path, token); s.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", path, s.StatusCode)
		}
	}
	if text := d.open("/console/events"); strings.Contains(text, event.ID) {
		t.Error("the list shows their event")
	}
}

// A button must take effect once, even if its form is submitted several times.
func TestConsoleDoesWhatItsButtonsSay(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	page := "/console/endpoints/" + e
	form := d.get(page).form(t, page+"/test")
	first, again := d.do("POST", page+"/test", form), d.do("POST", page+"/test", form)
	to := first.Header.Get("Location")
	if to == "" || to != again.Header.Get("Location") || len(w.history) != 1 {
		t.Fatalf("%q, then %q: %d events", to, again.Header.Get("Location"), len(w.history))
	}
	if text := d.open(to); !strings.Contains(text, "HTTP 204") {
		t.Errorf("the test's event: %s", text)
	}
	for id, test := range w.history { // a replay doesn't include tests, so it doesn't count them
		test.record.State = domain.StateFailed
		w.history[id] = test
	}
	event := w.delivered(account("a"), e, domain.StateFailed)
	w.now = w.now.Add(time.Minute)
	text := d.open(page + "/replay?hours=1")
	if !strings.Contains(text, "<strong>1</strong> failed delivery") {
		t.Errorf("the count: %s", text)
	}
	if s := d.press(page+"/replay?hours=1", page+"/replay"); s.StatusCode != http.StatusSeeOther ||
		w.history[event.ID].record.State != domain.StateQueued {
		t.Errorf("replayed: %d, %s", s.StatusCode, w.history[event.ID].record.State)
	}
	if text := d.open(page + "/replay?hours=1"); !strings.Contains(text, "nothing to replay") {
		t.Errorf("the count after it: %s", text)
	}
	event = w.delivered(account("a"), e, domain.StateDelivered)
	at := "/console/events/" + event.ID
	if s := d.press(at, at+"/resend"); s.StatusCode != http.StatusSeeOther ||
		w.history[event.ID].record.State != domain.StateQueued {
		t.Errorf("resent: %d %s", s.StatusCode, s.text)
	}
	d.press(page, page+"/disable")
	if text := d.open(page); !strings.Contains(text, "it was disabled manually") {
		t.Errorf("disabled: %s", text)
	}
	if text := d.open(at); !strings.Contains(text, "Held") {
		t.Errorf("the event of a disabled endpoint: %s", text)
	}
	d.press(page, page+"/enable")
	if w.endpoints[e].Status != domain.StatusActive {
		t.Error("not enabled")
	}
}

// The page must show the body byte for byte, and the signed headers.
func TestConsoleShowsAnEventAsItIsSent(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateWaiting,
		domain.AttemptResult{Error: domain.AttemptTimeout, ErrorDetail: "connect: timed out <b>"})
	w.number(e, readmodel.NumberedEvent{
		ID: event.ID, Sequence: 12, CreatedAtMillis: w.now.UnixMilli(), Body: event.Body,
	})
	text := d.open("/console/events/" + event.ID)
	for _, want := range []string{
		string(event.Body), "Webhook-Id: " + event.ID, "Webhook-Sequence: 12", "v1=",
		"no complete response arrived in time", "connect: timed out <b>", "12.5000000 XLM",
		`--data-raw '` + string(event.Body) + `'`,
		// Of ten attempts, one was made and nine are left.
		"about 24 h later, if the previous attempt fails", "<strong>10</strong>",
		// How the signature is verified.
		signedDigest(w, event.Body), "the newest secret",
	} {
		if !strings.Contains(html.UnescapeString(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

// The console must return the receipt byte for byte as the API does, or explain why there is none.
func TestConsoleGivesTheReceipt(t *testing.T) {
	keys := newSigningKeys(t)
	w := newWorld(t, func(c *api.Config) { c.SigningKeys = keys })
	d, k := signedIn(t, w, domain.PermissionRead, domain.PermissionWrite)
	event := w.delivered(account("a"), w.newEndpoint(k), domain.StateDelivered,
		domain.AttemptResult{SentAtMillis: 9, StatusCode: 200})
	path := "/console/events/" + event.ID + "/receipt"
	if text := d.open("/console/events/" + event.ID); !strings.Contains(text, `href="`+path+`"`) {
		t.Errorf("no link to the receipt in %s", text)
	}
	none := d.get(path) // attempts from before there was a log
	if none.StatusCode != http.StatusNotFound || !strings.Contains(none.text, "is in a log") ||
		!strings.Contains(none.Header.Get("Content-Type"), "text/html") {
		t.Errorf("without a log: %d %s", none.StatusCode, none.text)
	}

	w.logAttempts(event.ID)
	got := d.get(path)
	if want := string(w.call("GET", "/v1/events/"+event.ID+"/receipt", k, "").body); got.text != want {
		t.Errorf("the API gives %s, the console %s", want, got.text)
	}
	if name := got.Header.Get("Content-Disposition"); !strings.Contains(name,
		"attachment") || !strings.Contains(name, event.ID) {
		t.Errorf("it is not offered as a file: %q", name)
	}
	published, err := receipt.ParseKeys(w.call("GET", "/.well-known/jwks.json", "", "").body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := receipt.Verify([]byte(got.text), published); err != nil {
		t.Errorf("it cannot be verified: %v", err)
	}
	d.press("/console", "/console/sign-out")
	if s := d.get(path); s.StatusCode != http.StatusSeeOther || strings.Contains(s.text, "proof") {
		t.Errorf("signed out: %d %s", s.StatusCode, s.text)
	}
}

func TestConsoleShowsHowFarTheServiceIs(t *testing.T) {
	w := newWorld(t, func(c *api.Config) {
		c.Checks = []api.Check{
			{
				Name:   "history",
				Run:    func(context.Context) error { return nil },
				Detail: func(context.Context) string { return "1250 records behind" },
			},
			{
				Name: "follower",
				Run:  func(context.Context) error { return errors.New("the network <b>is</b> away") },
			},
		}
	})
	d, _ := signedIn(t, w, domain.PermissionRead)
	text := d.open("/console")
	for _, want := range []string{
		`<th scope="row">History</th>` +
			`<td data-of="Status"><span class="state delivered">OK</span></td>` +
			`<td data-of="Details">1250 records behind</td>`,
		`<th scope="row">Ledgers</th>` +
			`<td data-of="Status"><span class="state failed">Failing</span></td>` +
			`<td data-of="Details">the network &lt;b&gt;is&lt;/b&gt; away</td>`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

func signedDigest(w *world, body []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%d.%s", w.now.Unix(), body)))
}

// TestConsoleNamesEntriesOfASignature uses Standard Webhooks while two secrets are valid.
func TestConsoleNamesEntriesOfASignature(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	wantStatus(t, w.call("PATCH", "/v1/endpoints/"+e, k, `{"signatures":["standard-webhooks"]}`), 200)
	secret := decode[endpointAnswer](t,
		wantStatus(t, w.call("POST", "/v1/endpoints/"+e+"/rotate-secret", k, ""), 200).body).Secret
	event := w.delivered(account("a"), e, domain.StateDelivered)
	w.number(e, readmodel.NumberedEvent{
		ID: event.ID, Sequence: 12, CreatedAtMillis: w.now.UnixMilli(), Body: event.Body,
	})
	text := html.UnescapeString(d.open("/console/events/" + event.ID))
	for want, times := range map[string]int{
		"<th scope=\"row\"><code>v1=": 2, "<th scope=\"row\"><code>v1,": 2,
		`<td data-of="Key">the newest secret`:   2,
		`<td data-of="Key">the previous secret`: 2,
	} {
		if got := strings.Count(text, want); got != times {
			t.Errorf("%q is there %d times, not %d", want, got, times)
		}
	}
	if secret == "" || strings.Contains(text, secret) {
		t.Error("the page shows the secret")
	}
}

func TestConsoleSaysWhatStandsInItsWay(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	if text := d.open("/console"); !strings.Contains(text, "No endpoints yet") {
		t.Errorf("empty: %s", text)
	}
	e := w.newEndpoint(k)
	w.historyErr = readmodel.ErrBehind
	for path, status := range map[string]int{"": 200, "/endpoints/" + e: 200, "/events": 503} {
		s := d.get("/console" + path)
		if s.StatusCode != status || !strings.Contains(s.text, "Still catching up") {
			t.Errorf("behind, %s: %d %s", path, s.StatusCode, s.text)
		}
	}
	w.historyErr = nil
	w.freshErr = io.ErrUnexpectedEOF
	if s := d.get("/console/endpoints"); s.StatusCode != http.StatusServiceUnavailable ||
		s.Header.Get("Retry-After") == "" || strings.Contains(s.text, "EOF") {
		t.Errorf("the directory: %d %s", s.StatusCode, s.text)
	}
}

// An invalid filter must be reported next to its field, which keeps the input.
func TestConsoleSaysWhichFilterIsNotValid(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.Permissions()...)
	for path, wants := range map[string][]string{
		"/events?state=NONSENSE&minAmount=x": {
			`<select id="state" name="state" aria-invalid="true" aria-describedby="state-fault">`,
			`<div class="faults" id="state-fault"><p>must be one of QUEUED,`,
			`value="x" inputmode="decimal" aria-invalid="true"`,
			`id="minAmount-fault"`, "<details open>",
		},
		"/events?since=yesterday": {`id="since-fault"><p>must be a time like`, `value="yesterday"`},
		"/events?cursor=x":        {"cursor"},
		"/endpoints?status=BOGUS": {"status must be", ">Active</a>"},
		"/watches?walletAddress=GXXX&endpointId=x": {
			`id="walletAddress-fault"`, `value="GXXX"`, `id="endpointId-fault"`,
		},
	} {
		s := d.get("/console" + path)
		if s.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", path, s.StatusCode)
		}
		for _, want := range append(wants, `role="alert"><p>Some filters are invalid.`) {
			if !strings.Contains(s.text, want) {
				t.Errorf("%s: %s is not in %s", path, want, s.text)
			}
		}
		if strings.Contains(s.text, "<h2>No ") || strings.Contains(s.text, "data-live") {
			t.Errorf("%s: there is a list: %s", path, s.text)
		}
	}
	if s := d.get("/console/events/live?since=yesterday"); strings.Contains(s.text, "changed") {
		t.Errorf("an open page is told of all events: %s", s.text)
	}
}

var liveAddress = regexp.MustCompile(`data-live="([^"]+)"`)

func (d *desk) follow(page string) *bufio.Reader {
	d.t.Helper()
	found := liveAddress.FindStringSubmatch(d.open(page))
	if found == nil {
		d.t.Fatalf("%s names no stream", page)
	}
	stream, err := d.browser.Get(d.address + html.UnescapeString(found[1]))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = stream.Body.Close() })
	if stream.StatusCode != http.StatusOK ||
		stream.Header.Get("Content-Type") != "text/event-stream" {
		d.t.Fatalf("%s is answered %s", found[1], stream.Status)
	}
	return bufio.NewReader(stream.Body)
}

// A stream must send nothing while its page is up to date, and then report once that the page has
// changed, without details. It must end with the server.
func TestConsolePagesFollowChanges(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	event := w.delivered(account("a"), e, domain.StateFailed)
	list, one := d.follow("/console/events?state=FAILED"), d.follow("/console/events/"+event.ID)
	d.press("/console/events/"+event.ID, "/console/events/"+event.ID+"/resend")
	for name, stream := range map[string]*bufio.Reader{"list": list, "event": one} {
		said := ""
		for !strings.HasSuffix(said, "\n\ndata: changed\n\n") && len(said) < 200 {
			line, err := stream.ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %q: %v", name, said, err)
			}
			if said += line; strings.HasPrefix(line, "id: ") {
				said = strings.TrimSuffix(said, line)
			}
		}
		if said != "retry: 1000\n\ndata: changed\n\n" {
			t.Errorf("%s: %q", name, said)
		}
	}
	d.console.EndStreams()
	if rest, err := io.ReadAll(list); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q %v", rest, err)
	}
	if rest, err := io.ReadAll(d.follow("/console/events")); err != nil ||
		string(rest) != "retry: 1000\n\n" {
		t.Errorf("of a server that ends: %q %v", rest, err)
	}
}

// A stream must end with its session, and without a session none may be opened.
func TestConsoleStreamsEndWithTheirSession(t *testing.T) {
	w := newWorld(t)
	if s := newDesk(t, w).get("/console/events/live"); s.StatusCode != http.StatusSeeOther {
		t.Errorf("without a session: %d", s.StatusCode)
	}
	d, _ := signedIn(t, w, domain.PermissionRead)
	stream := d.follow("/console/events")
	w.mu.Lock()
	held := w.accounts[account("a")]
	w.accounts[account("a")] = domain.Account{ID: held.ID, Version: held.Version}
	w.mu.Unlock()
	if rest, err := io.ReadAll(stream); err != nil || string(rest) != "retry: 1000\n\n" {
		t.Errorf("%q %v", rest, err)
	}
}

// A page over the limit must be told not to reconnect, and an ended stream must make room.
func TestConsoleFollowsSoManyPagesAtOnce(t *testing.T) {
	w := newWorld(t)
	d, _ := signedIn(t, w, domain.PermissionRead)
	for range 16 {
		d.follow("/console/events")
	}
	if s := d.get("/console/events/live"); s.StatusCode != http.StatusNoContent {
		t.Errorf("the seventeenth is %d", s.StatusCode)
	}
	d.console.EndStreams()
	testkit.Eventually(t, "room for another", func() bool {
		return d.get("/console/events/live").StatusCode == http.StatusOK
	})
}

// Expired and fulfilled watches must be marked in the list and on their pages, with their expiry
// and the payment that fulfilled them.
func TestConsoleShowsWatchesThatAreOver(t *testing.T) {
	w := newWorld(t)
	d, k := signedIn(t, w, domain.Permissions()...)
	e := w.newEndpoint(k)
	ends := `,"once":true,"expiresAt":"2026-11-21T10:15:31Z"`
	id := decode[struct{ ID string }](t, w.call("POST", "/v1/watches", k, watchBody(e, ends)).body).ID
	shows := func(word string, more ...string) {
		t.Helper()
		list, page := d.get("/console/watches").text, d.get("/console/watches/"+id).text
		more = append(more, ">"+word+"<", "Only the first such payment", "21 Nov 2026 10:15:31")
		for _, text := range more {
			if !strings.Contains(page, text) {
				t.Errorf("the page lacks %q: %s", text, page)
			}
		}
		if !strings.Contains(list, ">"+word+"<") || !strings.Contains(list, "21 Nov 2026 10:15:31") {
			t.Errorf("the list does not say %s: %s", word, list)
		}
	}
	shows("Active")
	w.now = w.now.Add(time.Second)
	shows("Expired")
	w.mu.Lock()
	watch := w.watches[id]
	watch.Fulfilled = domain.Fulfilment{PaymentID: "1-2", Ledger: 9, ClosedAtMillis: 1000}
	w.watches[id] = watch
	w.mu.Unlock()
	shows("Fulfilled", domain.EventID(id, "1-2"), "in ledger 9")
}
