package domain

import (
	"fmt"
	"slices"
)

// MaxKeys bounds the unexpired keys of an account: all of them are in its one row, which
// every node that authenticates stores.
const MaxKeys = 100

// Key is an API key as it is stored: its hash, never the key.
type Key struct {
	ID              string
	Name            string
	Hash            []byte // SHA-256 of the whole key
	Permissions     []Permission
	AllowedCIDRs    []string // where it may be used from; empty: anywhere
	CreatedAtMillis int64
	ExpiresAtMillis int64  // 0: never
	RolledTo        string // identifier of its successor; empty: none
}

// Allows reports whether the key has a permission.
func (k Key) Allows(p Permission) bool { return slices.Contains(k.Permissions, p) }

// Expired reports whether the key has expired. An expired key is refused even if it is
// still in the account's row.
func (k Key) Expired(nowMillis int64) bool {
	return k.ExpiresAtMillis != 0 && nowMillis >= k.ExpiresAtMillis
}

func (k Key) bornAt(nowMillis int64) Key {
	k.CreatedAtMillis, k.RolledTo = nowMillis, ""
	return k
}

func decideCreateKey(state Account, c CreateKey, nowMillis int64) ([]FactBody, *Rejection) {
	if rejection := roomForKey(state, c.Key, nowMillis); rejection != nil {
		return nil, rejection
	}
	return []FactBody{KeyCreated{Key: c.Key.bornAt(nowMillis)}}, nil
}

// decideRollKey makes the earlier key expire after the grace, or at its own expiry if that
// comes first.
func decideRollKey(state Account, c RollKey, nowMillis int64) ([]FactBody, *Rejection) {
	former, found := state.Key(c.KeyID)
	switch {
	case !found:
		return nil, noKey()
	case former.RolledTo != "":
		return nil, &Rejection{
			Code: CodeKeyRolled,
			Detail: fmt.Sprintf("the key was rolled before; roll its successor %s, or create another key",
				former.RolledTo),
		}
	}
	if rejection := roomForKey(state, c.Key, nowMillis); rejection != nil {
		return nil, rejection
	}
	ends := nowMillis + max(c.GraceMillis, 0)
	if former.ExpiresAtMillis != 0 {
		ends = min(ends, former.ExpiresAtMillis)
	}
	rolled := KeyRolled{KeyID: c.KeyID, ExpiresAtMillis: ends, Key: c.Key.bornAt(nowMillis)}
	return []FactBody{rolled}, nil
}

func decideRevokeKey(state Account, c RevokeKey) ([]FactBody, *Rejection) {
	if _, found := state.Key(c.KeyID); !found {
		return nil, noKey()
	}
	return []FactBody{KeyRevoked{KeyID: c.KeyID}}, nil
}

func roomForKey(state Account, k Key, nowMillis int64) *Rejection {
	if _, found := state.Key(k.ID); found {
		return &Rejection{
			Code:   CodeAlreadyExists,
			Detail: "the key exists; its creation was answered before and that answer is forgotten",
		}
	}
	if len(unexpired(state.Keys, nowMillis)) >= MaxKeys {
		return &Rejection{
			Code: CodeTooManyKeys,
			Detail: fmt.Sprintf("the account has %d keys, which is the most; revoke one that is not needed",
				MaxKeys),
		}
	}
	return nil
}

func noKey() *Rejection { return &Rejection{Code: CodeNotFound, Detail: "there is no such key"} }

// rolled marks the rolled key with its successor.
func rolled(keys []Key, r KeyRolled) []Key {
	next := slices.Clone(keys)
	for i := range next {
		if next[i].ID == r.KeyID {
			next[i].ExpiresAtMillis, next[i].RolledTo = r.ExpiresAtMillis, r.Key.ID
		}
	}
	return next
}

// unexpired returns the keys that have not expired: expired ones are removed when the
// account's keys next change, so that rolling does not make its row grow.
func unexpired(keys []Key, nowMillis int64) []Key {
	next := make([]Key, 0, len(keys)+1)
	for _, k := range keys {
		if !k.Expired(nowMillis) {
			next = append(next, k)
		}
	}
	return next
}
