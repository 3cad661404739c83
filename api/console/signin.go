package console

import (
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

const (
	linkMax      = 10 * time.Minute
	maxLinks     = 1024
	maxFormBytes = 16 << 10
	// maxFilledBytes is enough for a watch with 1,000 senders and 100 assets.
	maxFilledBytes = 256 << 10
)

type signInView struct {
	Token, Next, Fault string
	SignedOut, Ended   bool
}

// nextOf returns the path to continue at. It is always a page of the console.
func nextOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil ||
		strings.ContainsAny(text, "\\\r\n") ||
		u.Path != Path && !strings.HasPrefix(u.Path, Path+"/") || strings.Contains(u.Path, "..") {
		return Path
	}
	return u.RequestURI()
}

func (x *Console) showSignIn(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	x.renderSignIn(w, r, http.StatusOK, signInView{
		Next:      nextOf(q.Get("next")),
		SignedOut: q.Has("out"),
		Ended:     q.Has("ended"),
	})
}

// renderSignIn shows the sign-in page, and sets a cookie that ties its form to the browser.
func (x *Console) renderSignIn(w http.ResponseWriter, r *http.Request, status int, v signInView) {
	s, have := x.held(r, forForm)
	if !have {
		var err error
		if s, err = x.newSession("", formMax); err == nil {
			err = x.keep(w, r, s, forForm)
		}
		if err != nil {
			x.fail(w, r, err)
			return
		}
	}
	v.Token = x.token(s)
	x.write(w, r, status, "sign-in", frame{Title: "Sign in", Page: v})
}

// signIn exchanges a key for a session. The API decides whether the key is valid.
func (x *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	v := signInView{Next: nextOf(r.PostFormValue("next"))}
	s, ok := x.held(r, forForm)
	if !ok || !x.posted(r, s) {
		v.Fault = "This page was open for too long, or the browser does not store cookies. Try again."
		x.renderSignIn(w, r, http.StatusForbidden, v)
		return
	}
	apiKey := strings.TrimSpace(r.PostFormValue("key"))
	if err := x.admits(w, r, apiKey); err != nil {
		status, fault := refusalOf(err)
		v.Fault = fault
		x.renderSignIn(w, r, status, v)
		return
	}
	x.begin(w, r, apiKey, v.Next)
}

// admits checks with the API whether this browser may use a key.
func (x *Console) admits(w http.ResponseWriter, r *http.Request, apiKey string) error {
	if !domain.WellFormedAPIKey(apiKey) {
		return &client.Problem{Status: http.StatusUnauthorized, Code: problem.CodeUnauthenticated}
	}
	if err := x.callAPI(w, r, apiKey); err != nil {
		return err
	}
	key, _, _, err := x.Keys.KeyByHash(domain.APIKeyHash(apiKey))
	if err == nil && key.RolledTo != "" {
		err = &client.Problem{Status: http.StatusUnauthorized, Code: problem.CodeUnauthenticated}
	}
	return err
}

// callAPI sends a request to the API with a key or a portal credential. If the API rejects it,
// Retry-After is passed on to the browser.
func (x *Console) callAPI(w http.ResponseWriter, r *http.Request, apiKey string) error {
	c, b, err := x.clientOf(r, apiKey)
	if err != nil {
		return err
	}
	_, err = c.ListEndpoints(r.Context(), client.EndpointFilter{}, client.Page{Limit: 1})
	var p *client.Problem
	if errors.As(err, &p) && p.Code == problem.CodeMissingPermission {
		return nil // the key is valid; pages show what it may not do
	}
	if err != nil && b.retrySeconds != "" {
		w.Header().Set("Retry-After", b.retrySeconds)
	}
	return err
}

func refusalOf(err error) (status int, fault string) {
	var p *client.Problem
	switch {
	case !errors.As(err, &p):
		return http.StatusInternalServerError, "The server failed. See its log for the cause."
	case p.Status == http.StatusUnauthorized:
		return p.Status, "This key is invalid: it may be mistyped, revoked, rolled or expired, " +
			"or it can't be used from your address."
	}
	return p.Status, p.Detail
}

func (x *Console) begin(w http.ResponseWriter, r *http.Request, apiKey, next string) {
	s, err := x.newSession(apiKey, sessionMax)
	if err == nil {
		err = x.keep(w, r, s, forSession)
	}
	if err != nil {
		x.fail(w, r, err)
		return
	}
	x.forget(w, r, forForm)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// signOut ends the session everywhere, including copies of its cookie.
func (x *Console) signOut(v *visit) (string, error) {
	x.forget(v.w, v.r, forSession)
	if err := x.end(v.r.Context(), v.session); err != nil {
		x.Log.Error("cannot end a session at other nodes", "error", err)
		return "", &client.Problem{
			Status: http.StatusServiceUnavailable,
			Code:   problem.CodeWritesRefused,
			Detail: "This browser is signed out, but other nodes of the service do not know it yet, " +
				"and a copy of its cookie may work there. Roll or revoke the key if there may be one.",
		}
	}
	if x.isPortal() {
		return x.at, nil // the page says that the session has ended
	}
	return x.at + "/sign-in?out", nil
}

// SignInLink returns the path of a page that signs in with a key. It works once, at this node, for
// ten minutes.
func (x *Console) SignInLink(apiKey string) (string, error) {
	s, err := x.newSession(apiKey, linkMax)
	if err != nil {
		return "", err
	}
	text, err := x.seal(s, forLink+x.links.of)
	return Path + "/link?to=" + text, err
}

// usedLinks remembers used links, or sessions that were signed out, until they expire.
type usedLinks struct {
	of   string // identifies this console, so that no other console accepts its links
	mu   sync.Mutex
	used map[string]int64 // expiry by session id
}

func newUsedLinks() *usedLinks { return &usedLinks{of: rand.Text(), used: make(map[string]int64)} }

func (l *usedLinks) has(s session) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, used := l.used[string(s.ID)]
	return used
}

// use records the use of a link, and reports whether it is the first one. If too many links are
// remembered, no link works.
func (l *usedLinks) use(s session, nowSec int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.used, func(_ string, ends int64) bool { return nowSec >= ends })
	if _, used := l.used[string(s.ID)]; used || len(l.used) >= maxLinks {
		return false
	}
	l.used[string(s.ID)] = s.EndsSec
	return true
}

func (x *Console) followLink(w http.ResponseWriter, r *http.Request) {
	s, ok := x.open(r.URL.Query().Get("to"), forLink+x.links.of)
	if ok {
		if err := x.admits(w, r, s.Key); err != nil { // the link stays usable
			status, fault := refusalOf(err)
			x.renderSignIn(w, r, status, signInView{Next: Path, Fault: fault})
			return
		}
	}
	if !ok || !x.links.use(s, x.Now().Unix()) {
		x.renderSignIn(w, r, http.StatusForbidden, signInView{
			Next:  Path,
			Fault: "This link has already been used or has expired. Sign in with an API key.",
		})
		return
	}
	x.begin(w, r, s.Key, Path)
}
