package console

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// The portal is the console for users without a key: the same pages at another path, opened by a
// link (domain.PortalSigner). The operator may allow other sites to frame its pages; the console's
// pages can never be framed.

func (x *Console) isPortal() bool { return x.Portal != nil }

func (x *Console) framed() bool { return x.isPortal() && len(x.FrameAncestors) > 0 }

func policyOf(ancestors []string) string {
	if len(ancestors) == 0 {
		ancestors = []string{"'none'"}
	}
	return policy + "; frame-ancestors " + strings.Join(ancestors, " ")
}

// reach is the scope of a session or a link.
type reach struct {
	AccountID  string
	EndpointID string // empty for the whole account
}

// holderOf returns the key of a session, reduced to the session's permissions, and the session's
// scope. there is false if the session or its key has ended.
func (x *Console) holderOf(s session) (key domain.Key, of reach, there bool, err error) {
	if ended, err := x.hasEnded(s); ended || err != nil {
		return key, of, false, err
	}
	if !x.isPortal() {
		key, of.AccountID, there, err = x.Keys.KeyByHash(domain.APIKeyHash(s.Key))
		return key, of, there && key.RolledTo == "", err
	}
	grant, ok := x.Portal.Read(s.Key, x.Now().UnixMilli())
	if !ok {
		return key, of, false, nil
	}
	account, _, err := x.Keys.Account(grant.AccountID)
	key, there = account.Key(grant.KeyID)
	return grant.Narrow(key), reach{grant.AccountID, grant.EndpointID}, there, err
}

// openPortal exchanges a link for a session, any number of times until the link expires. It always
// redirects, so that the link appears in no Referer header and in no frame's URL.
func (x *Console) openPortal(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	credential, grant, ok := x.Portal.Open(r.URL.Query().Get("to"), x.Now().UnixMilli())
	if !ok {
		x.showEnded(w, r, "This link has expired, or was not copied completely.")
		return
	}
	err := x.callAPI(w, r, credential)
	switch {
	case isCode(err, problem.CodeUnauthenticated):
		x.showEnded(w, r, "The key that created this link no longer exists, or cannot be used from here.")
		return
	case err != nil:
		view := x.describeError(r, err)
		view.Again, view.Retry = "", true // the same URL, which contains the link
		x.write(w, r, view.Status, "trouble", frame{Title: view.Title, Page: view})
		return
	}
	kept, err := x.keepsAnother(w, r, reach{grant.AccountID, grant.EndpointID})
	if kept {
		return
	}
	var s session
	if err == nil {
		s, err = x.newSession(credential, time.UnixMilli(grant.EndsMillis).Sub(x.Now()))
	}
	if err == nil {
		err = x.keep(w, r, s, forSession)
	}
	if err != nil {
		x.fail(w, r, err)
		return
	}
	http.Redirect(w, r, x.at, http.StatusSeeOther)
}

// keepsAnother asks the user before a link replaces a session of another account or endpoint. Any
// site can send a browser to a link, and the user would then change the wrong account. The page
// doesn't contain the link, so the link cannot leak.
func (x *Console) keepsAnother(w http.ResponseWriter, r *http.Request, link reach) (bool, error) {
	s, ok := x.held(r, forSession)
	if !ok {
		return false, nil
	}
	key, open, there, err := x.holderOf(s)
	if err != nil || !there || key.Expired(x.Now().UnixMilli()) || open == link {
		return false, err
	}
	// With no-referrer, the form would be rejected (see ServeHTTP). This policy reveals only the host.
	w.Header().Set("Referrer-Policy", "strict-origin")
	x.write(w, r, http.StatusConflict, "other", frame{
		Title: "The portal", Page: struct{ Open, Link reach }{open, link},
		Token: x.token(s), Once: rand.Text(), Portal: true,
	})
	return true, nil
}

// showEnded asks a user without a session to get a new link. The status isn't 401, because the
// server slows down addresses that cause many 401s, and merchants behind a proxy share one.
func (x *Console) showEnded(w http.ResponseWriter, r *http.Request, why string) {
	x.write(w, r, http.StatusForbidden, "ended", frame{Title: "The portal", Page: why})
}

// portalCookie returns the cookie of a session. If other sites may frame the pages, browsers send
// it from within a frame and store it separately for each framing site (Partitioned). Otherwise,
// they send it when the user follows a link, but not with other sites' forms. On loopback
// addresses, browsers store Secure cookies even without TLS.
func (x *Console) portalCookie(r *http.Request, value string) *http.Cookie {
	c := &http.Cookie{ // #nosec G124 -- Secure with TLS: run has no TLS, on loopback
		Name:     x.cookieName(forSession, isSecure(r)),
		Value:    value,
		Path:     x.at,
		HttpOnly: true,
		Secure:   isSecure(r),
		SameSite: http.SameSiteLaxMode,
	}
	if isSecure(r) {
		c.Path = "/" // required by __Host-
	}
	if x.framed() && (isSecure(r) || onThisMachine(r.Host)) {
		c.Secure, c.Partitioned, c.SameSite = true, true, http.SameSiteNoneMode
	}
	return c
}

func onThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

func pathOf(links *domain.PortalSigner) string {
	if links != nil {
		return domain.PortalPath
	}
	return Path
}
