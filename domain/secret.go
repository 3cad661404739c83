package domain

import (
	"bytes"
	"fmt"
	"slices"
)

// SecretOverlapMillis is how long a secret goes on signing after another took
// its place (specification, "Limits").
const SecretOverlapMillis = 24 * 3_600_000

// MaxSecrets bounds the valid secrets of an endpoint: each is a part of the
// signature's header, and each costs an HMAC at every attempt.
const MaxSecrets = 100

// SealedSecret is a signing secret as it is kept: encrypted, with the end of
// its validity. The current secret has no end.
type SealedSecret struct {
	Sealed          []byte
	CreatedAtMillis int64
	ExpiresAtMillis int64 // 0: no end
}

// ValidAt reports whether the secret signs at that time.
func (s SealedSecret) ValidAt(nowMillis int64) bool {
	return s.ExpiresAtMillis == 0 || nowMillis < s.ExpiresAtMillis
}

// ValidSecrets are the secrets that sign at that time, newest first.
func (e Endpoint) ValidSecrets(nowMillis int64) []SealedSecret {
	valid := make([]SealedSecret, 0, len(e.Secrets))
	for _, s := range e.Secrets {
		if s.ValidAt(nowMillis) {
			valid = append(valid, s)
		}
	}
	return valid
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

// rotated puts a new secret first. The one that was current gets its end; those
// before it keep theirs, however often one rotates; those that have ended go
// (specification, "Signature", 5).
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

// decideReseal puts values under another seal. Only those that are still as they
// were when they were opened are replaced: what was rotated, changed or taken
// away meanwhile stays as it is now. What they say does not change.
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
