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

// The portal is the console for who has no key: the same pages at another path, which a link opens
// (domain.PortalSigner) instead of a key. Its path is its own, so that its pages may be framed where the
// operator says, and those of the console nowhere.

// isPortal reports whether this console is the portal.
func (x *Console) isPortal() bool { return x.Portal != nil }

// framed reports whether pages of other sites may show these in a frame.
func (x *Console) framed() bool { return x.isPortal() && len(x.FrameAncestors) > 0 }

// policyOf is the Content-Security-Policy of pages that these origins may frame.
func policyOf(ancestors []string) string {
	if len(ancestors) == 0 {
		ancestors = []string{"'none'"}
	}
	return policy + "; frame-ancestors " + strings.Join(ancestors, " ")
}

// reach is the scope of a session or a link.
type reach struct {
	AccountID  string
	EndpointID string // the one that it is of; empty: all of the account
}

// holderOf returns the key of a session, with what is left of its permissions, and what it reaches;
// false: it is gone.
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

// openPortal exchanges a link for a session, as often as the link is followed before it expires.
// The address with the link is never a page's, so that no Referer and no frame's address reveals
// it.
func (x *Console) openPortal(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	credential, grant, ok := x.Portal.Open(r.URL.Query().Get("to"), x.Now().UnixMilli())
	if !ok {
		x.showEnded(w, r, "This link has ended, or was copied in part.")
		return
	}
	err := x.asksWith(w, r, credential)
	switch {
	case isCode(err, problem.CodeUnauthenticated):
		x.showEnded(w, r, "The key that made this link is gone, or may not be used from here.")
		return
	case err != nil:
		view := x.trouble(r, err)
		view.Again, view.Retry = "", true // the same address, which has the link
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

// keepsAnother asks the person first, where a link would replace a session of another account or
// endpoint: any page of another site can send a browser to a link, and what is then written at the
// portal would go where the person does not mean. No link is in the page, so that none is told on.
func (x *Console) keepsAnother(w http.ResponseWriter, r *http.Request, link reach) (bool, error) {
	s, ok := x.held(r, forSession)
	if !ok {
		return false, nil
	}
	key, open, there, err := x.holderOf(s)
	if err != nil || !there || key.Expired(x.Now().UnixMilli()) || open == link {
		return false, err
	}
	// With no-referrer, the form would be refused, as ServeHTTP says. This tells the host alone.
	w.Header().Set("Referrer-Policy", "strict-origin")
	x.write(w, r, http.StatusConflict, "other", frame{
		Title: "The portal", Page: struct{ Open, Link reach }{open, link},
		Token: x.token(s), Once: rand.Text(), Portal: true,
	})
	return true, nil
}

// showEnded tells who has no session that only another link helps. It is no 401: no key was
// guessed, and the server delays those of one address, which behind a proxy all merchants have.
func (x *Console) showEnded(w http.ResponseWriter, r *http.Request, why string) {
	x.write(w, r, http.StatusForbidden, "ended", frame{Title: "The portal", Page: why})
}

// portalCookie is one that browsers send from within another site's frame, if there may be one:
// kept apart for each site that frames the pages (Partitioned), so that no other site's page has
// it sent along. Without frames it comes along when a link is followed, and with no form of another
// site. Browsers keep Secure cookies of this machine's own addresses without TLS.
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
		c.Path = "/" // __Host- asks for it
	}
	if x.framed() && (isSecure(r) || onThisMachine(r.Host)) {
		c.Secure, c.Partitioned, c.SameSite = true, true, http.SameSiteNoneMode
	}
	return c
}

// onThisMachine reports whether a Host is localhost or a loopback address.
func onThisMachine(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && address.IsLoopback()
}

// pathOf is where a console's pages are.
func pathOf(links *domain.PortalSigner) string {
	if links != nil {
		return domain.PortalPath
	}
	return Path
}
