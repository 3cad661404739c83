package domain

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// Signatures is a set of signatures that an endpoint's deliveries carry in addition to the
// specification's. The numbers are written to topics.
type Signatures uint8

// Signatures that an endpoint may ask for, by the Standard Webhooks specification
// (docs/decisions/signatures.md).
const (
	// StandardWebhooks is "v1": HMAC-SHA256 with the endpoint's own secrets.
	StandardWebhooks Signatures = 1 << iota
	// StandardWebhooksEd25519 is "v1a": Ed25519 with keys of the endpoint that nobody else has.
	StandardWebhooksEd25519

	everySignature = StandardWebhooks | StandardWebhooksEd25519
)

// signatureNames are the names of the API, in the order of the bits.
var signatureNames = [...]string{"standard-webhooks", "standard-webhooks-ed25519"}

// SignatureNames returns the names of all signatures that may be asked for.
func SignatureNames() []string { return signatureNames[:] }

// SignatureNamed returns the signature of a name, or 0.
func SignatureNamed(name string) Signatures {
	for i, known := range signatureNames {
		if name == known {
			return 1 << i
		}
	}
	return 0
}

// Has reports whether the set contains all of other.
func (s Signatures) Has(other Signatures) bool { return s&other == other }

// Names returns the names of the set's signatures; nil for none.
func (s Signatures) Names() []string {
	var names []string
	for i, name := range signatureNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// joinedSignatures returns one value that receivers of both kinds can read. Standard Webhooks
// separates entries by spaces, each with a version before a comma; the specification separates them
// by commas. So Standard Webhooks reads each of the specification's entries as one without a
// version, and the specification finds each of them between commas.
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

// standardKey returns the key that Standard Webhooks libraries derive from a secret: the part after
// whsec_, decoded from base64. The 52 characters that [NewSecret] draws are valid base64 of 39
// bytes. A text that is not valid base64 is the key itself, like a raw key in those libraries.
func standardKey(secret Secret) []byte {
	text := []byte(secret[min(len(SecretPrefix), len(secret)):])
	key := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(key, text)
	if err != nil {
		return text
	}
	return key[:n]
}

// SigningKeyID is the identifier of a public key of Ed25519: its JWK thumbprint (RFC 7638; RFC
// 8037, appendix A.3).
func SigningKeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` +
		base64.RawURLEncoding.EncodeToString(public) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
