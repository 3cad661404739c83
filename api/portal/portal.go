// Package portal creates and reads the credentials of portal links, which let a browser use one
// account, or one endpoint of it, with some of a key's permissions, until a time. It hides their
// form; nothing of them is stored.
//
// There are two, each under a MAC of its own, so that neither is taken for the other:
//
//   - A merchant hands the link to a browser. It opens the portal for OpenFor, as often as
//     it is followed.
//   - A link is exchanged for a credential, which the API accepts instead of a key. It ends at the
//     time that the link's creator set.
//
// Form: "whp_", then base64url of the MAC (HMAC-SHA-256, 32 bytes) and a grant in JSON.
//
// Invariants:
//
//   - A text that another key made, or that was changed, or that has ended, is no grant.
//   - A grant names its key. Whether the key is still there, and what it may do, is for the API to
//     ask in every request: it ends no later than its key, and never allows more.
package portal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

// Path is where the portal's pages are: every address of it is this one, or below it.
const Path = "/portal"

// OpenFor is how long a link opens the portal after it was made.
const OpenFor = 10 * time.Minute

const (
	prefix = "whp_"
	// maxTextBytes is more than any grant of ours has.
	maxTextBytes = 1024
)

// What a text is for. One is never taken for another. Those of one endpoint have purposes of their
// own: nodes of a release without them would take them for those of the whole account.
const (
	forLink       = "link"
	forCredential = "credential"
	ofOneEndpoint = " of one endpoint"
)

// Grant holds the grants of a link: a part of a key's permissions, until a time.
type Grant struct {
	AccountID   string              `json:"account"`
	EndpointID  string              `json:"endpoint,omitempty"` // of which alone it is; empty: all
	KeyID       string              `json:"key"`
	Permissions []domain.Permission `json:"may"`
	EndsMillis  int64               `json:"ends"`
}

// signed is a grant as it is written. A link has also until when it opens.
type signed struct {
	Grant
	OpensMillis int64 `json:"opens,omitempty"`
}

// Narrow leaves of a key what the grant gives.
func (g Grant) Narrow(key domain.Key) domain.Key {
	key.Permissions = slices.DeleteFunc(slices.Clone(key.Permissions),
		func(p domain.Permission) bool { return !slices.Contains(g.Permissions, p) })
	return key
}

// under is the purpose that a grant is signed under.
func (g Grant) under(purpose string) string {
	if g.EndpointID == "" {
		return purpose
	}
	return purpose + ofOneEndpoint
}

// Signer makes and reads links and credentials. It is safe for concurrent use.
type Signer struct{ key [32]byte }

// NewSigner makes a signer. All nodes of a deployment need the same key.
func NewSigner(key [32]byte) *Signer { return &Signer{key} }

// Looks reports whether a text is meant as a credential, good or not.
func Looks(text string) bool { return strings.HasPrefix(text, prefix) }

// Link writes a grant as a link, and returns until when it opens the portal.
func (s *Signer) Link(g Grant, now time.Time) (text string, opensMillis int64, err error) {
	opensMillis = min(now.Add(OpenFor).UnixMilli(), g.EndsMillis)
	text, err = s.write(forLink, signed{g, opensMillis})
	return text, opensMillis, err
}

// Open exchanges a link for a credential with the same grant.
func (s *Signer) Open(link string, now time.Time) (credential string, g Grant, ok bool) {
	in, ok := s.read(forLink, link, now)
	if !ok || now.UnixMilli() >= in.OpensMillis {
		return "", Grant{}, false
	}
	credential, err := s.write(forCredential, signed{Grant: in.Grant})
	return credential, in.Grant, err == nil
}

// Read returns what a credential gives, unless that has ended.
func (s *Signer) Read(credential string, now time.Time) (Grant, bool) {
	in, ok := s.read(forCredential, credential, now)
	return in.Grant, ok
}

func (s *Signer) write(purpose string, out signed) (string, error) {
	payload, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("portal: writing a grant: %w", err)
	}
	signed := append(s.mac(out.under(purpose), payload), payload...)
	text := prefix + base64.RawURLEncoding.EncodeToString(signed)
	if len(text) > maxTextBytes {
		return "", fmt.Errorf("portal: a grant has %d bytes: %d is the most", len(text), maxTextBytes)
	}
	return text, nil
}

func (s *Signer) read(purpose, text string, now time.Time) (in signed, ok bool) {
	coded, ours := strings.CutPrefix(text, prefix)
	if !ours || len(text) > maxTextBytes {
		return signed{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(coded)
	if err != nil || len(raw) < sha256.Size {
		return signed{}, false
	}
	mac, payload := raw[:sha256.Size], raw[sha256.Size:]
	// What a grant says of itself is believed once its MAC is right.
	if json.Unmarshal(payload, &in) != nil || !hmac.Equal(mac, s.mac(in.under(purpose), payload)) ||
		now.UnixMilli() >= in.EndsMillis {
		return signed{}, false
	}
	return in, true
}

func (s *Signer) mac(purpose string, payload []byte) []byte {
	mac := hmac.New(sha256.New, s.key[:])
	mac.Write([]byte(purpose + "\n"))
	mac.Write(payload)
	return mac.Sum(nil)
}
