package api_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/api/console"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// asPortal turns a console into the portal.
func asPortal(c *console.Config) { c.Portal = linkSigner() }

func (w *world) portalPath(apiKey, body string) string {
	w.t.Helper()
	made := wantStatus(w.t, w.call("POST", "/v1/portal-links", apiKey, body), 200)
	return in(w.t, made.body, "path").(string)
}

// atThePortal returns a browser that has opened a link of a new key of account a.
func atThePortal(t testing.TB, w *world, body string) (d *desk, apiKey string) {
	t.Helper()
	k := w.newKey(account("a"), domain.Permissions()...)
	d = newDesk(t, w, asPortal)
	s := d.get(w.portalPath(k, body))
	if to := s.Header.Get("Location"); s.StatusCode != http.StatusSeeOther || to != "/portal" {
		t.Fatalf("%d %s %s", s.StatusCode, to, s.text)
	}
	return d, k
}

func portalCookie(t testing.TB, s sheet) *http.Cookie {
	t.Helper()
	for _, c := range s.Cookies() {
		if strings.HasSuffix(c.Name, "lumenhook-portal") {
			return c
		}
	}
	t.Fatalf("no session in %d %v", s.StatusCode, s.Header)
	return nil
}

// The portal must show the console's pages for one account under its own path, with the buttons
// that the link permits.
func TestPortalShowsWhatItsLinkGives(t *testing.T) {
	w := newWorld(t, withLinks)
	d, k := atThePortal(t, w, `{"permissions":["read","operate"]}`)
	e := w.newEndpoint(k)
	theirs := w.newEndpoint(w.newKey(account("b"), domain.PermissionWrite))
	event := w.delivered(account("a"), e, domain.StateFailed, domain.AttemptResult{StatusCode: 500})
	watch := in(t, w.call("POST", "/v1/watches", k, watchBody(e, "")).body, "id").(string)
	elsewhere := regexp.MustCompile(`(href|src|action|data-live)="/(console|v1)`)
	for _, path := range []string{
		"", "/endpoints", "/endpoints/" + e, "/endpoints/" + e + "/replay", "/events",
		"/events/" + event.ID, "/watches", "/watches/" + watch,
	} {
		if found := elsewhere.FindString(d.open("/portal" + path)); found != "" {
			t.Errorf("%s leads to %s", path, found)
		}
	}
	text := d.open("/portal/endpoints/" + e)
	if !strings.Contains(text, "/disable") || strings.Contains(text, "/edit") ||
		!strings.Contains(text, "until 2026-11-21 11:15 UTC") {
		t.Errorf("%s", text)
	}
	if s := d.get("/portal/endpoints/" + theirs); s.StatusCode != http.StatusNotFound {
		t.Errorf("another account's endpoint: %d", s.StatusCode)
	}
	for _, none := range []string{"/portal/sign-in", "/portal/api-keys"} {
		if s := d.get(none); s.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %d", none, s.StatusCode)
		}
	}
	page := "/portal/endpoints/" + e
	if s := d.press(page, page+"/disable"); s.StatusCode != http.StatusSeeOther ||
		s.Header.Get("Location") != page+"?done=disabled" ||
		w.endpoints[e].Status != domain.StatusDisabled {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
	// The API rejects actions without a button.
	form := d.get(page).form(t, page+"/enable")
	form.Set("confirm", "https://shop.example")
	if s := d.do("POST", page+"/delete", form); s.StatusCode == http.StatusSeeOther {
		t.Errorf("%d", s.StatusCode)
	}
	if _, there := w.endpoints[e]; !there {
		t.Error("a link that may not write deleted an endpoint")
	}
	if s := d.press("/portal", "/portal/sign-out"); s.StatusCode != http.StatusSeeOther {
		t.Errorf("closing: %d", s.StatusCode)
	}
	if s := d.get("/portal"); s.StatusCode != http.StatusForbidden {
		t.Errorf("closed, it is %d", s.StatusCode)
	}
}

// The portal and the console must not accept each other's sessions, and the console must not accept
// a portal link as a key.
func TestPortalIsNoConsole(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.Permissions()...)
	portal, desk := newDesk(t, w, asPortal), newDesk(t, w)
	opened := portalCookie(t, portal.get(w.portalPath(k, `{"permissions":["read"]}`)))
	signed := sessionCookie(t, desk.signIn(k))
	if s := newDesk(t, w).do("GET", "/console", nil, "Cookie",
		"lumenhook-console="+opened.Value); s.StatusCode != http.StatusSeeOther {
		t.Errorf("the console takes the portal's session: %d", s.StatusCode)
	}
	if s := newDesk(t, w, asPortal).do("GET", "/portal", nil, "Cookie",
		"lumenhook-portal="+signed.Value); s.StatusCode != http.StatusForbidden {
		t.Errorf("the portal takes the console's session: %d", s.StatusCode)
	}
	if s := newDesk(t, w).signIn(w.credential(k, `{"permissions":["read"]}`)); s.StatusCode != 401 {
		t.Errorf("the console signs in with a portal link: %d", s.StatusCode)
	}
}

// One merchant's pages, in any number of browsers, must leave room for other merchants who share
// the account.
func TestPortalFollowsFewPagesOfOneEndpoint(t *testing.T) {
	two := newTwoEndpoints(t)
	d := newDesk(t, two.w, asPortal)
	opened := func(endpoint string) *desk {
		browser := *d
		browser.browser = newBrowser(t)
		browser.get(two.w.portalPath(two.apiKey, fmt.Sprintf(`{%s,"endpointId":%q}`, mayAll, endpoint)))
		return &browser
	}
	one, again, other := opened(two.own.endpoint), opened(two.own.endpoint), opened(two.other.endpoint)
	for range 2 {
		one.follow("/portal/events")
		again.follow("/portal/events")
	}
	if s := one.get("/portal/events/live"); s.StatusCode != http.StatusNoContent {
		t.Errorf("the fifth is %d", s.StatusCode)
	}
	other.follow("/portal/events")
	d.console.EndStreams()
	testkit.Eventually(t, "room for another", func() bool {
		return one.get("/portal/events/live").StatusCode == http.StatusOK
	})
}

// As in the console, a session must end after 15 minutes without user activity. Pages that a user
// opens must keep it open until the link expires.
func TestPortalEndsWhenIdle(t *testing.T) {
	w := newWorld(t, withLinks)
	d, _ := atThePortal(t, w, `{"permissions":["read"]}`)
	for range 3 {
		w.now = w.now.Add(15*time.Minute - time.Second)
		d.open("/portal/events")
	}
	d, _ = atThePortal(t, w, `{"permissions":["read"]}`)
	w.now = w.now.Add(15 * time.Minute)
	if s := d.get("/portal/events"); s.StatusCode != http.StatusForbidden ||
		portalCookie(t, s).MaxAge >= 0 {
		t.Errorf("%d %v", s.StatusCode, s.Cookies())
	}
}

// The portal must close when its link expires and when the link's key ends, immediately even for a
// page that follows changes. A link can be opened any number of times within ten minutes. No
// response may be a 401, which the server treats as a guessed key and delays by address: behind a
// proxy, all merchants share one address.
func TestPortalEnds(t *testing.T) {
	var clock atomic.Int64 // streams read it concurrently
	start := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	clock.Store(start.UnixNano())
	w := newWorld(t, withLinks, func(c *api.Config) {
		c.Now = func() time.Time { return time.Unix(0, clock.Load()) }
	})
	w.now = start
	pass := func(d time.Duration) { clock.Add(int64(d)) }

	d, k := atThePortal(t, w, `{"permissions":["read"],"expiresInSeconds":1200}`)
	path := w.portalPath(k, `{"permissions":["read"],"expiresInSeconds":1200}`)
	pass(10*time.Minute - time.Second)
	d.open("/portal/events") // so that it isn't idle when it ends
	for range 2 {
		portalCookie(t, newDesk(t, w, asPortal).get(path))
	}
	pass(time.Second)
	late := newDesk(t, w, asPortal).get(path)
	if late.StatusCode != 403 || len(late.Cookies()) > 0 ||
		!strings.Contains(late.text, "This link has expired") {
		t.Errorf("%d %v %s", late.StatusCode, late.Cookies(), late.text)
	}
	stream := d.follow("/portal/events")
	pass(10 * time.Minute)
	if rest, err := io.ReadAll(stream); err != nil || string(rest) != "retry: 1000\n\n" {
		t.Errorf("the stream goes on: %q %v", rest, err)
	}
	for _, path := range []string{"/portal", "/portal/events", "/portal/events/live"} {
		s := d.do("GET", path, nil, "Sec-Fetch-Site", "cross-site")
		// This must not be a page that reloads itself, which would never stop.
		if s.StatusCode != http.StatusForbidden || strings.Contains(s.text, "http-equiv") {
			t.Errorf("%s: %d %s", path, s.StatusCode, s.text)
		}
	}

	d, k = atThePortal(t, w, `{"permissions":["read"]}`)
	path = w.portalPath(k, `{"permissions":["read"]}`)
	stream = d.follow("/portal/events")
	wantStatus(t, w.call("DELETE", "/v1/api-keys/"+domain.DeriveID(domain.KeyPrefix, k), k, ""), 204)
	if rest, err := io.ReadAll(stream); err != nil || string(rest) != "retry: 1000\n\n" {
		t.Errorf("the stream goes on: %q %v", rest, err)
	}
	if s := d.get("/portal/events"); s.StatusCode != http.StatusForbidden ||
		portalCookie(t, s).MaxAge >= 0 {
		t.Errorf("%d %v", s.StatusCode, s.Cookies())
	}
	if s := newDesk(t, w, asPortal).get(path); s.StatusCode != 403 || len(s.Cookies()) > 0 {
		t.Errorf("its link: %d %v", s.StatusCode, s.Cookies())
	}
}

// Signing out at one node must sign out at all of them.
func TestPortalSignsOutACopyToo(t *testing.T) {
	w := newWorld(t, withLinks)
	d, _ := atThePortal(t, w, `{"permissions":["read"]}`)
	elsewhere := newDesk(t, w, asPortal)
	at, err := url.Parse(d.address)
	if err != nil {
		t.Fatal(err)
	}
	there, err := url.Parse(elsewhere.address)
	if err != nil {
		t.Fatal(err)
	}
	at.Path, there.Path = "/portal", "/portal"
	elsewhere.browser.Jar.SetCookies(there, d.browser.Jar.Cookies(at))
	elsewhere.open("/portal/events")
	d.press("/portal", "/portal/sign-out")
	if s := elsewhere.get("/portal/events"); s.StatusCode != http.StatusForbidden {
		t.Errorf("%d %s", s.StatusCode, s.text)
	}
}

// The operator configures who may frame the portal, and by default nobody may. Nobody may ever
// frame the console. Frames on other sites get the cookie only if framing is allowed.
func TestPortalFrames(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.PermissionRead)
	framed := func(c *console.Config) {
		c.Portal = linkSigner()
		c.FrameAncestors = []string{"https://shop.example", "https://b.example:8443"}
	}
	for _, c := range []struct {
		what   string
		change func(*console.Config)
		host   string // 127.0.0.1 if empty
		tls    bool

		ancestors string
		cookie    http.Cookie
	}{
		{
			"no frames", asPortal, "", false, "'none'",
			http.Cookie{Name: "lumenhook-portal", Path: "/portal", SameSite: http.SameSiteLaxMode},
		},
		{
			"no frames, with TLS", asPortal, "", true, "'none'",
			http.Cookie{
				Name: "__Host-lumenhook-portal", Path: "/", Secure: true, SameSite: http.SameSiteLaxMode,
			},
		},
		{
			"frames, with TLS", framed, "hooks.example", true,
			"https://shop.example https://b.example:8443",
			http.Cookie{
				Name: "__Host-lumenhook-portal", Path: "/", Secure: true, Partitioned: true,
				SameSite: http.SameSiteNoneMode,
			},
		},
		{
			"frames on this machine", framed, "", false, "https://shop.example https://b.example:8443",
			http.Cookie{
				Name: "lumenhook-portal", Path: "/portal", Secure: true, Partitioned: true,
				SameSite: http.SameSiteNoneMode,
			},
		},
		{
			"frames without TLS", framed, "hooks.example", false,
			"https://shop.example https://b.example:8443",
			http.Cookie{Name: "lumenhook-portal", Path: "/portal", SameSite: http.SameSiteLaxMode},
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			d := newDesk(t, w, c.change)
			r, err := http.NewRequest(http.MethodGet,
				d.address+w.portalPath(k, `{"permissions":["read"]}`), http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			if c.tls {
				r.Header.Set("X-Forwarded-Proto", "https")
			}
			response, err := d.browser.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			s := sheet{Response: response}
			got := portalCookie(t, s)
			if !got.HttpOnly || got.Name != c.cookie.Name || got.Path != c.cookie.Path ||
				got.Secure != c.cookie.Secure || got.Partitioned != c.cookie.Partitioned ||
				got.SameSite != c.cookie.SameSite {
				t.Errorf("%s", got)
			}
			policy := s.Header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") ||
				!strings.HasSuffix(policy, "; frame-ancestors "+c.ancestors) {
				t.Errorf("%s", policy)
			}
			// Nothing may pass on the link's URL.
			if s.Header.Get("Referrer-Policy") != "no-referrer" ||
				s.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%v", s.Header)
			}
		})
	}
	policy := newDesk(t, w).get("/console").Header.Get("Content-Security-Policy")
	if !strings.HasSuffix(policy, "frame-ancestors 'none'") {
		t.Errorf("the console: %s", policy)
	}
}

// A forged form must be refused even if another site's request includes the cookie.
func TestPortalRefusesForgedForms(t *testing.T) {
	w := newWorld(t, withLinks)
	d, k := atThePortal(t, w, `{"permissions":["read","operate"]}`)
	e := w.newEndpoint(k)
	action := "/portal/endpoints/" + e + "/disable"
	other, _ := atThePortal(t, w, `{"permissions":["read","operate"]}`)
	stolen := other.get("/portal/endpoints/"+e).form(t, action).Get("token")
	for _, token := range []string{"", "x", stolen} {
		if s := d.do("POST", action, url.Values{"token": {token}}); s.StatusCode != http.StatusForbidden {
			t.Errorf("%q: %d", token, s.StatusCode)
		}
	}
	if w.endpoints[e].Status != domain.StatusActive {
		t.Error("the endpoint was disabled")
	}
}

// Another site's page can send a browser to a link of its own account, but that must not replace an
// open session. The user must end that session first.
func TestPortalKeepsTheAccountThatIsOpen(t *testing.T) {
	w := newWorld(t, withLinks)
	const may = `{"permissions":["read","write"]}`
	d, k := atThePortal(t, w, may)
	path := w.portalPath(w.newKey(account("b"), domain.Permissions()...), may)
	_, link, _ := strings.Cut(path, "=")
	s := d.do("GET", path, nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	if s.StatusCode != http.StatusConflict || len(s.Cookies()) > 0 ||
		!strings.Contains(s.text, account("a")) || !strings.Contains(s.text, account("b")) {
		t.Errorf("%d %v %s", s.StatusCode, s.Cookies(), s.text)
	}
	// The form is sent with an Origin, and neither the form nor the page passes on the link.
	if s.Header.Get("Referrer-Policy") != "strict-origin" || strings.Contains(s.text, link[:24]) {
		t.Errorf("%v %s", s.Header, s.text)
	}
	if text := d.open("/portal"); !strings.Contains(text, account("a")) {
		t.Errorf("the portal is another account's: %s", text)
	}
	// A new link for the same account is followed, with its permissions.
	if s := d.get(w.portalPath(k, may)); s.StatusCode != http.StatusSeeOther {
		t.Errorf("another link of the account: %d", s.StatusCode)
	}
	if s := d.press(path, "/portal/sign-out"); s.StatusCode != http.StatusSeeOther ||
		portalCookie(t, s).MaxAge >= 0 {
		t.Errorf("closing: %d %s", s.StatusCode, s.text)
	}
	portalCookie(t, d.get(path))
	if text := d.open("/portal"); !strings.Contains(text, account("b")) {
		t.Errorf("closed, the link does not open: %s", text)
	}
	// A session that is no longer valid, because its key was revoked, doesn't block a link.
	w.mu.Lock()
	b := w.accounts[account("b")]
	b.Keys = nil
	w.accounts[account("b")] = b
	w.mu.Unlock()
	portalCookie(t, d.get(w.portalPath(k, may)))
}

// If the API is temporarily unavailable, the link must stay valid. The page must say when and how
// to try the same URL again, without containing the link.
func TestPortalOpensALittleLater(t *testing.T) {
	w := newWorld(t, withLinks, func(c *api.Config) {
		c.RateLimit = api.RateLimit{PerSecond: 1, Burst: 1}
	})
	path := w.portalPath(w.newKey(account("a"), domain.PermissionRead), `{"permissions":["read"]}`)
	_, link, _ := strings.Cut(path, "=")
	d := newDesk(t, w, asPortal)
	credential, _, _ := linkSigner().Open(link, w.now.UnixMilli())
	wantStatus(t, w.call("GET", "/v1/endpoints", credential, ""), 200) // uses up the links' limit
	check := func(status int) {
		t.Helper()
		s := d.get(path)
		if s.StatusCode != status || s.Header.Get("Retry-After") != "1" || len(s.Cookies()) > 0 ||
			!strings.Contains(s.text, `<a class="button" href="">Try again</a>`) ||
			strings.Contains(s.text, "any more") || strings.Contains(s.text, "overview") ||
			strings.Contains(s.text, link[:24]) {
			t.Errorf("%d %v %s", s.StatusCode, s.Header, s.text)
		}
	}
	check(http.StatusTooManyRequests)
	w.freshErr = io.ErrUnexpectedEOF
	check(http.StatusServiceUnavailable)
	w.freshErr = nil
	w.now = w.now.Add(time.Second)
	portalCookie(t, d.get(path))
}

// Neither a page nor the log may contain a link or its credential.
func TestPortalSaysNoLink(t *testing.T) {
	w := newWorld(t, withLinks)
	k := w.newKey(account("a"), domain.PermissionRead)
	d := newDesk(t, w, asPortal)
	path := w.portalPath(k, `{"permissions":["read"]}`)
	_, link, _ := strings.Cut(path, "=")
	credential, _, _ := linkSigner().Open(link, w.now.UnixMilli())
	said := d.get(path).text + d.open("/portal") + d.open("/portal/events")
	said += d.get(path+"A").text + w.log.String()
	for _, secret := range []string{link, credential} {
		if secret == "" || strings.Contains(said, secret[:24]) {
			t.Errorf("%.10s… is said", secret)
		}
	}
}
