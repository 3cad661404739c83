package domain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// PortalPath is the path of the portal. All of its pages are below it.
const PortalPath = "/portal"

// PortalOpenFor is how long after its creation a portal link can be opened.
const PortalOpenFor = 10 * time.Minute

const (
	portalPrefix   = "whp_"
	portalMaxBytes = 1024 // no valid text is longer
)

// Each purpose has a different MAC, so that a text can't be used for another purpose.
const (
	forPortalLink       = "link"
	forPortalCredential = "credential"
	ofOneEndpoint       = " of one endpoint"
)

// PortalGrant holds the rights of a portal link: a subset of a key's permissions for a limited
// time. It never exceeds the key's rights or lifetime, so every request also checks the key.
type PortalGrant struct {
	AccountID   string       `json:"account"`
	EndpointID  string       `json:"endpoint,omitempty"` // the only endpoint; empty means all
	KeyID       string       `json:"key"`
	Permissions []Permission `json:"may"`
	EndsMillis  int64        `json:"ends"`
}

// Narrow returns the key without the permissions that the grant lacks.
func (g PortalGrant) Narrow(key Key) Key {
	key.Permissions = slices.DeleteFunc(slices.Clone(key.Permissions),
		func(p Permission) bool { return !slices.Contains(g.Permissions, p) })
	return key
}

func (g PortalGrant) under(purpose string) string {
	if g.EndpointID == "" {
		return purpose
	}
	return purpose + ofOneEndpoint
}

// PortalSigner creates and verifies portal links and their credentials, which are not stored. A
// merchant gives the link to a browser, which opens the portal. The portal exchanges the link for a
// credential, which the API accepts in place of a key.
//
// Both are "whp_" and the base64url encoding of a MAC (HMAC-SHA-256, 32 bytes) followed by a
// [PortalGrant] in JSON. A text that has expired, was modified or was signed with another key is
// invalid.
type PortalSigner struct{ key [32]byte }

// NewPortalSigner returns a signer. All nodes of a deployment must use the same key.
func NewPortalSigner(key [32]byte) *PortalSigner { return &PortalSigner{key} }

// LooksLikePortal reports whether a text has the prefix of links and credentials, even if invalid.
func LooksLikePortal(text string) bool { return strings.HasPrefix(text, portalPrefix) }

// signedPortal is the signed JSON. Only a link has OpensMillis, until which it can be opened.
type signedPortal struct {
	PortalGrant
	OpensMillis int64 `json:"opens,omitempty"`
}

// Link returns a link for a grant and the time until which it can be opened.
func (s *PortalSigner) Link(
	g PortalGrant, nowMillis int64,
) (text string, opensMillis int64, err error) {
	opensMillis = min(nowMillis+PortalOpenFor.Milliseconds(), g.EndsMillis)
	text, err = s.write(forPortalLink, signedPortal{g, opensMillis})
	return text, opensMillis, err
}

// Open exchanges a valid link for a credential with the same grant.
func (s *PortalSigner) Open(
	link string, nowMillis int64,
) (credential string, g PortalGrant, ok bool) {
	in, ok := s.read(forPortalLink, link, nowMillis)
	if !ok || nowMillis >= in.OpensMillis {
		return "", PortalGrant{}, false
	}
	credential, err := s.write(forPortalCredential, signedPortal{PortalGrant: in.PortalGrant})
	return credential, in.PortalGrant, err == nil
}

// Read returns the grant of a valid credential.
func (s *PortalSigner) Read(credential string, nowMillis int64) (PortalGrant, bool) {
	in, ok := s.read(forPortalCredential, credential, nowMillis)
	return in.PortalGrant, ok
}

func (s *PortalSigner) write(purpose string, out signedPortal) (string, error) {
	payload, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("domain: writing a portal grant: %w", err)
	}
	signed := append(s.mac(out.under(purpose), payload), payload...)
	text := portalPrefix + base64.RawURLEncoding.EncodeToString(signed)
	if len(text) > portalMaxBytes {
		return "", fmt.Errorf("domain: a portal grant of %d bytes: the maximum is %d", len(text),
			portalMaxBytes)
	}
	return text, nil
}

func (s *PortalSigner) read(purpose, text string, nowMillis int64) (in signedPortal, ok bool) {
	coded, ours := strings.CutPrefix(text, portalPrefix)
	if !ours || len(text) > portalMaxBytes {
		return signedPortal{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(coded)
	if err != nil || len(raw) < sha256.Size {
		return signedPortal{}, false
	}
	mac, payload := raw[:sha256.Size], raw[sha256.Size:]
	if json.Unmarshal(payload, &in) != nil || !hmac.Equal(mac, s.mac(in.under(purpose), payload)) ||
		nowMillis >= in.EndsMillis {
		return signedPortal{}, false
	}
	return in, true
}

func (s *PortalSigner) mac(purpose string, payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(purpose + "\n"))
	mac.Write(payload)
	return mac.Sum(nil)
}
