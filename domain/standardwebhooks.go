package domain

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// Signatures is a set of signatures in addition to the specification's. Topics store its bits.
type Signatures uint8

// Signatures of the Standard Webhooks specification (docs/decisions/signatures.md).
const (
	// StandardWebhooks is "v1": HMAC-SHA256 with the endpoint's own secrets.
	StandardWebhooks Signatures = 1 << iota
	// StandardWebhooksEd25519 is "v1a": Ed25519 with keys that only this endpoint uses.
	StandardWebhooksEd25519

	everySignature = StandardWebhooks | StandardWebhooksEd25519
)

// signatureNames are the names in the API, in bit order.
var signatureNames = [...]string{"standard-webhooks", "standard-webhooks-ed25519"}

// SignatureNames returns the names of all signatures.
func SignatureNames() []string { return signatureNames[:] }

// SignatureNamed returns the signature with the given name, or 0.
func SignatureNamed(name string) Signatures {
	for i, known := range signatureNames {
		if name == known {
			return 1 << i
		}
	}
	return 0
}

// Has reports whether s contains all signatures of other.
func (s Signatures) Has(other Signatures) bool { return s&other == other }

// Names returns the names of the signatures in s.
func (s Signatures) Names() []string {
	var names []string
	for i, name := range signatureNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// joinedSignatures returns a header value that both kinds of receivers can parse. Standard Webhooks
// separates entries with spaces and puts a version and a comma in front of each signature, so it
// sees the specification's entries as entries with an empty version. The specification separates
// entries with commas, between which it finds its own.
func (a Attempt) joinedSignatures(timestampSeconds int64) string {
	message := fmt.Appendf(nil, "%s.%d.%s", a.EventID, timestampSeconds, a.Body)
	var entries []string
	add := func(version string, signature []byte) {
		entries = append(entries, version+","+base64.StdEncoding.EncodeToString(signature))
	}
	if a.Signatures.Has(StandardWebhooks) {
		for _, secret := range a.Secrets {
			h := hmac.New(sha256.New, standardKey(secret))
			h.Write(message)
			add("v1", h.Sum(nil))
		}
	}
	if a.Signatures.Has(StandardWebhooksEd25519) {
		for _, key := range a.SigningKeys {
			add("v1a", ed25519.Sign(ed25519.PrivateKey(key), message))
		}
	}
	for _, secret := range a.Secrets {
		entries = append(entries, ",v1="+Sign(secret, timestampSeconds, a.Body))
	}
	return strings.Join(entries, " ")
}

// standardKey returns the key that Standard Webhooks libraries derive from a secret: the
// base64-decoded part after whsec_. The 52 characters of [NewSecret] are valid base64 for 39 bytes.
// Text that is not valid base64 is used as the key itself, as those libraries do with raw keys.
func standardKey(secret Secret) []byte {
	text := []byte(secret[min(len(SecretPrefix), len(secret)):])
	key := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(key, text)
	if err != nil {
		return text
	}
	return key[:n]
}

// SigningKeyID returns a public key's JWK thumbprint (RFC 7638; RFC 8037, appendix A.3).
func SigningKeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` +
		base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
