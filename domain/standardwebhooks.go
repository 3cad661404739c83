package domain

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"math/bits"
	"strconv"
)

// Signatures is a set of signatures that an endpoint's deliveries carry besides the
// specification's, which is always there. The numbers are written to topics.
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
	if s == 0 {
		return nil
	}
	names := make([]string, 0, bits.OnesCount8(uint8(s)))
	for i, name := range signatureNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return names
}

// joinedSignatures is one value that receivers of both kinds read: entries of Standard
// Webhooks are separated by spaces and have a version before a comma; the specification's
// are separated by commas. So each of the latter is an entry without a version for the
// former, and stands alone between commas for its own.
func (a Attempt) joinedSignatures(timestampSeconds int64) string {
	timestamp := strconv.FormatInt(timestampSeconds, 10)
	message := make([]byte, 0, len(a.EventID)+len(timestamp)+2+len(a.Body))
	message = append(append(message, a.EventID...), '.')
	message = append(append(message, timestamp...), '.')
	message = append(message, a.Body...)

	var b []byte
	if a.Signatures.Has(StandardWebhooks) {
		for _, secret := range a.Secrets {
			h := hmac.New(sha256.New, standardKey(secret))
			h.Write(message)
			b = base64.StdEncoding.AppendEncode(append(b, "v1,"...), h.Sum(nil))
			b = append(b, ' ')
		}
	}
	if a.Signatures.Has(StandardWebhooksEd25519) {
		for _, key := range a.SigningKeys {
			signature := ed25519.Sign(ed25519.PrivateKey(key), message)
			b = base64.StdEncoding.AppendEncode(append(b, "v1a,"...), signature)
			b = append(b, ' ')
		}
	}
	for i, secret := range a.Secrets {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(append(b, ",v1="...), Sign(secret, timestampSeconds, a.Body)...)
	}
	return string(b)
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
