package console

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// sessionMax is the maximum duration of a session.
	sessionMax = 8 * time.Hour
	// idleMax is the default of Config.IdleMax.
	idleMax = 15 * time.Minute
	// formMax is how long an open sign-in page can be submitted.
	formMax = time.Hour
	// maxSealedBytes is more than any session needs.
	maxSealedBytes = 1024
)

// Purposes of a sealed session. A session that is sealed for one purpose cannot be opened for
// another.
const (
	forSession = "session"
	forForm    = "sign-in form"
	forLink    = "link"
)

// session is stored in the browser only, sealed. A session without a key ties the sign-in form to
// the browser that opened it. It has its own cookie, so a page of another site that opens the
// sign-in page doesn't end the user's session.
type session struct {
	ID      []byte `json:"id"`
	Key     string `json:"key,omitempty"`
	EndsSec int64  `json:"ends"`
	// SeenSec is when the user last opened a page or submitted a form. It is accurate to a fifteenth
	// of Config.IdleMax.
	SeenSec int64 `json:"seen,omitempty"`
}

// row returns the key of the record that tells all nodes that the session was signed out.
func (s session) row() string { return "ses_" + hex.EncodeToString(s.ID) }

func newAEAD(key [32]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func (x *Console) newSession(apiKey string, lasts time.Duration) (session, error) {
	now := x.Now()
	s := session{
		ID:      make([]byte, 16),
		Key:     apiKey,
		EndsSec: now.Add(lasts).Unix(),
		SeenSec: now.Unix(),
	}
	_, err := io.ReadFull(x.Entropy, s.ID)
	return s, err
}

func (x *Console) seal(s session, purpose string) (string, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, x.sealed.NonceSize(), maxSealedBytes)
	if _, err := io.ReadFull(x.Entropy, nonce); err != nil {
		return "", fmt.Errorf("sealing a session: %w", err)
	}
	// #nosec G407 -- the nonce was read from Entropy
	sealed := x.sealed.Seal(nonce, nonce, plain, []byte(purpose))
	return base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open returns a session that this deployment has sealed and that has not ended.
func (x *Console) open(text, purpose string) (s session, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < x.sealed.NonceSize() || len(raw) > maxSealedBytes {
		return s, false
	}
	nonce, sealed := raw[:x.sealed.NonceSize()], raw[x.sealed.NonceSize():]
	plain, err := x.sealed.Open(nil, nonce, sealed, []byte(purpose))
	if err != nil || json.Unmarshal(plain, &s) != nil || x.Now().Unix() >= s.EndsSec {
		return session{}, false
	}
	return s, true
}

// hasEnded reports whether a session was signed out at any node, or has been idle for too long.
func (x *Console) hasEnded(s session) (bool, error) {
	if x.idle(s) >= x.IdleMax || x.ended.has(s) {
		return true, nil
	}
	until, err := x.Keys.KeyUsedAt(s.row())
	return until != 0, err
}

func (x *Console) idle(s session) time.Duration { return x.Now().Sub(time.Unix(s.SeenSec, 0)) }

// end ends a session, immediately at this node and at others once they have read the record. It
// removes records of expired sessions, so that signing in and out doesn't accumulate them.
func (x *Console) end(ctx context.Context, s session) error {
	x.ended.use(s, x.Now().Unix())
	expired, _ := x.Keys.ExpiredSessions(s.row(), x.Now().UnixMilli()) // later sign-outs try again
	for _, id := range expired {
		x.Sessions.Forget(id)
	}
	return x.Sessions.EndSession(ctx, s.row(), s.EndsSec*1000)
}

func (x *Console) seen(w http.ResponseWriter, r *http.Request, s session) error {
	mode := r.Header.Get("Sec-Fetch-Mode") // empty: the browser doesn't support it, or there is no TLS
	if x.idle(s) < x.IdleMax/15 || mode != "" && mode != "navigate" {
		return nil
	}
	s.SeenSec = x.Now().Unix()
	return x.keep(w, r, s, forSession)
}

// cookieName returns a name that, with TLS, only this host can set.
func (x *Console) cookieName(purpose string, secure bool) string {
	name := "lumenhook-" + strings.TrimPrefix(x.at, "/")
	if purpose == forForm {
		name += "-form"
	}
	if secure {
		return "__Host-" + name
	}
	return name
}

// isSecure reports whether the browser uses TLS, to this server or to a proxy. A client that forges
// the header only breaks its own cookie.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func (x *Console) held(r *http.Request, purpose string) (session, bool) {
	cookie, err := r.Cookie(x.cookieName(purpose, isSecure(r)))
	if err != nil {
		return session{}, false
	}
	return x.open(cookie.Value, purpose)
}

// keep stores a session in the browser until the browser is closed.
func (x *Console) keep(w http.ResponseWriter, r *http.Request, s session, purpose string) error {
	value, err := x.seal(s, purpose)
	if err == nil {
		http.SetCookie(w, x.cookie(r, purpose, value))
	}
	return err
}

func (x *Console) forget(w http.ResponseWriter, r *http.Request, purpose string) {
	gone := x.cookie(r, purpose, "") // #nosec G124 -- as cookie says
	gone.MaxAge = -1
	http.SetCookie(w, gone)
}

func (x *Console) cookie(r *http.Request, purpose, value string) *http.Cookie {
	if x.isPortal() {
		return x.portalCookie(r, value)
	}
	secure := isSecure(r)
	return &http.Cookie{ // #nosec G124 -- Secure with TLS: run has no TLS, on loopback
		Name:     x.cookieName(purpose, secure),
		Value:    value,
		Path:     "/", // required by __Host-
		HttpOnly: true,
		Secure:   secure,
		SameSite: http.SameSiteStrictMode,
	}
}

// token returns a secret value that proves that a form was created for the session.
func (x *Console) token(s session) string {
	mac := hmac.New(sha256.New, x.tokenKey[:])
	mac.Write(s.ID)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (x *Console) posted(r *http.Request, s session) bool {
	return hmac.Equal([]byte(r.PostFormValue("token")), []byte(x.token(s)))
}
