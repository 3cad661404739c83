package domain

import (
	"bytes"
	"fmt"
	"io"
	"slices"
)

// SecretOverlapMillis is how long a secret continues to sign after its rotation
// (specification, "Limits").
const SecretOverlapMillis = 24 * 3_600_000

// MaxSecrets bounds the valid secrets of an endpoint: each adds to the signature's header,
// and costs an HMAC at every attempt.
const MaxSecrets = 100

// SealedSecret is a signing secret as it is stored: encrypted, with its expiry. The current
// secret does not expire.
type SealedSecret struct {
	Sealed          []byte
	CreatedAtMillis int64
	ExpiresAtMillis int64 // 0: never
}

// ValidAt reports whether the secret signs at that time.
func (s SealedSecret) ValidAt(nowMillis int64) bool {
	return s.ExpiresAtMillis == 0 || nowMillis < s.ExpiresAtMillis
}

// ValidSecrets returns the secrets that sign at that time, newest first.
func (e Endpoint) ValidSecrets(nowMillis int64) []SealedSecret {
	return slices.DeleteFunc(slices.Clone(e.Secrets), func(s SealedSecret) bool {
		return !s.ValidAt(nowMillis)
	})
}

func decideRotateSecret(state Endpoint, c RotateSecret, nowMillis int64) ([]FactBody, *Rejection) {
	if len(state.ValidSecrets(nowMillis)) >= MaxSecrets {
		return nil, &Rejection{
			Code: CodeTooManySecrets,
			Detail: fmt.Sprintf("the endpoint has %d valid secrets, which is the most; each earlier one "+
				"ends 24 hours after it was rotated, so try again later", MaxSecrets),
		}
	}
	return unlessRevised(state.Revision, c.IfRevision,
		SecretRotated{Secret: SealedSecret{Sealed: c.SealedSecret, CreatedAtMillis: nowMillis}})
}

// rotated puts a new secret first. The current one gets its expiry; earlier ones keep
// theirs, however often one rotates; expired ones are removed (specification, "Signature").
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

// SigningKeyNames returns the names of the Ed25519 keys that sign at that time, newest first: the
// deployment's keys lead to one key for each name. The first key has the endpoint's id as its name.
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

// nextSigningKey returns what a requested rotation leads to; nil: it has happened.
func (e Endpoint) nextSigningKey(want *uint32) *uint32 {
	if want == nil || *want <= e.SigningKey {
		return nil
	}
	next := e.SigningKey + 1
	return &next
}

// decideReseal replaces the seals of values. Only values whose seal is still the one that
// was opened are replaced: what was rotated, changed or removed meanwhile stays as it is.
// The plaintexts do not change.
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

// Secret is a string that prints as [redacted]: with every verb of fmt, in slog and in JSON.
// Convert it to string where it is used. Keep it in exported fields, because fmt cannot call the
// methods of an unexported one, and not in the keys of a map, which encoding/json writes
// unredacted.
type Secret string

const redacted = "[redacted]"

// String returns the redaction.
func (Secret) String() string { return redacted }

// Format prints the redaction, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns the redaction, also for JSON, YAML and XML.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
