package domain

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// SecretOverlapMillis is how long a secret signs after its rotation (specification, "Limits").
const SecretOverlapMillis = 24 * 3_600_000

// MaxSecrets is the maximum number of valid secrets per endpoint. Each secret makes the signature
// header longer and adds an HMAC to every attempt.
const MaxSecrets = 100

// SealedSecret is an encrypted signing secret. The current secret doesn't expire.
type SealedSecret struct {
	Sealed          []byte
	CreatedAtMillis int64
	ExpiresAtMillis int64 // 0 means never
}

// ValidAt reports whether the secret signs deliveries at the given time.
func (s SealedSecret) ValidAt(nowMillis int64) bool {
	return s.ExpiresAtMillis == 0 || nowMillis < s.ExpiresAtMillis
}

// ValidSecrets returns the secrets that are valid at the given time, newest first.
func (e Endpoint) ValidSecrets(nowMillis int64) []SealedSecret {
	return slices.DeleteFunc(slices.Clone(e.Secrets), func(s SealedSecret) bool {
		return !s.ValidAt(nowMillis)
	})
}

func decideRotateSecret(state Endpoint, c RotateSecret, nowMillis int64) ([]FactBody, *Rejection) {
	if len(state.ValidSecrets(nowMillis)) >= MaxSecrets {
		return nil, &Rejection{
			Code: CodeTooManySecrets,
			Detail: fmt.Sprintf("the endpoint has %d valid secrets, which is the maximum; previous secrets "+
				"expire 24 hours after they were rotated, so try again later", MaxSecrets),
		}
	}
	return unlessRevised(state.Revision, c.IfRevision,
		SecretRotated{Secret: SealedSecret{Sealed: c.SealedSecret, CreatedAtMillis: nowMillis}})
}

// rotated returns the secrets after a rotation, with the new secret first. The previous one gets
// its expiry, older ones keep theirs, and expired ones are removed (specification, "Signature").
func rotated(secrets []SealedSecret, current SealedSecret, atMillis int64) []SealedSecret {
	next := make([]SealedSecret, 1, 1+len(secrets))
	next[0] = current
	for _, s := range secrets {
		if s.ExpiresAtMillis == 0 {
			s.ExpiresAtMillis = atMillis + SecretOverlapMillis
		}
		if s.ValidAt(atMillis) {
			next = append(next, s)
		}
	}
	return next
}

// SigningKeyNames returns the names of the endpoint's valid Ed25519 keys, newest first. The keys
// are derived from the deployment's keys and these names. The first name is the endpoint's ID.
func (e Endpoint) SigningKeyNames(nowMillis int64) []string {
	name := func(rotations uint32) string {
		if rotations == 0 {
			return e.ID
		}
		return fmt.Sprintf("%s/%d", e.ID, rotations)
	}
	names := []string{name(e.SigningKey)}
	if e.SigningKey > 0 && nowMillis < e.SigningKeyRotatedAtMillis+SecretOverlapMillis {
		names = append(names, name(e.SigningKey-1))
	}
	return names
}

// nextSigningKey returns the next key number, or nil if the rotation has already happened.
func (e Endpoint) nextSigningKey(want *uint32) *uint32 {
	if want == nil || *want <= e.SigningKey {
		return nil
	}
	next := e.SigningKey + 1
	return &next
}

// decideReseal replaces encrypted values. It skips values that have been rotated, changed or
// removed since they were decrypted. The plaintexts stay the same.
func decideReseal(state Endpoint, c ResealSecrets) []FactBody {
	resealed := make(map[string][]byte, len(c.Values))
	for _, v := range c.Values {
		if !bytes.Equal(v.Was, v.Sealed) {
			resealed[string(v.Was)] = v.Sealed
		}
	}
	fact := SecretsResealed{Secrets: slices.Clone(state.Secrets), Headers: slices.Clone(state.Headers)}
	replaced := false
	for i, s := range fact.Secrets {
		if sealed, ok := resealed[string(s.Sealed)]; ok {
			fact.Secrets[i].Sealed, replaced = sealed, true
		}
	}
	for i, h := range fact.Headers {
		if sealed, ok := resealed[string(h.Sealed)]; ok {
			fact.Headers[i].Sealed, replaced = sealed, true
		}
	}
	if !replaced {
		return nil
	}
	return []FactBody{fact}
}

// Secret is a string that prints as [redacted] with all fmt verbs, in slog and in JSON. Convert it
// to a string to use it. Don't store it in unexported fields, because fmt can't call their methods,
// or in map keys, because encoding/json doesn't redact them.
type Secret string

const redacted = "[redacted]"

// String returns "[redacted]".
func (Secret) String() string { return redacted }

// Format writes "[redacted]" for all verbs.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns "[redacted]". It is also used for JSON, YAML and XML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
