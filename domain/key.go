package domain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// MaxKeys bounds the unexpired keys of an account, whatever its quota: all of them are in its one
// row, which every node that authenticates stores.
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

// Limits returns why a key may not create, roll or revoke another; nil: it may. A key gives at
// most its own permissions, expiry and networks, and takes away no key that has more.
func (k Key) Limits(other Key) *Rejection {
	for _, p := range other.Permissions {
		if !k.Allows(p) {
			return &Rejection{
				Code: CodeMissingPermission,
				Detail: fmt.Sprintf("the key has the permission %q, which the API key that asks lacks; "+
					"leave it out, or ask with a key that has it", p),
			}
		}
	}
	ends := other.ExpiresAtMillis
	if end := k.ExpiresAtMillis; end != 0 && (ends == 0 || ends > end) {
		return &Rejection{
			Code: CodeKeyLimit,
			Detail: fmt.Sprintf("the key would outlive the API key that asks, which expires at %s; "+
				"set expiresAt to that time or earlier, or ask with a key that lasts longer",
				time.UnixMilli(end).UTC().Format(time.RFC3339)),
		}
	}
	if len(k.AllowedCIDRs) == 0 {
		return nil
	}
	outside := slices.IndexFunc(other.AllowedCIDRs, func(cidr string) bool { return !k.covers(cidr) })
	if len(other.AllowedCIDRs) > 0 && outside < 0 {
		return nil
	}
	return &Rejection{
		Code: CodeKeyLimit,
		Detail: fmt.Sprintf("the key could be used from more networks than the API key that asks, "+
			"which is limited to %s; set allowedCidrs to networks within these, or ask with a key "+
			"without this limit", strings.Join(k.AllowedCIDRs, ", ")),
	}
}

// covers reports whether a network lies within one of those that a key may be used from.
func (k Key) covers(cidr string) bool {
	inner, err := netip.ParsePrefix(cidr)
	return err == nil && slices.ContainsFunc(k.AllowedCIDRs, func(text string) bool {
		outer, err := netip.ParsePrefix(text)
		return err == nil && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
	})
}

// callerLimits returns why the API key that asks may not decide over keys. The state has the
// newest keys: a key that was revoked while its request was in flight decides nothing.
func callerLimits(state Account, c Command, nowMillis int64, keys ...Key) *Rejection {
	if c.KeyID == "" {
		return nil
	}
	caller, found := state.Key(c.KeyID)
	if !found || caller.Expired(nowMillis) {
		return &Rejection{
			Code:   CodeKeyLimit,
			Detail: "the API key that asks was revoked or has expired meanwhile; use another key",
		}
	}
	for _, k := range keys {
		if rejection := caller.Limits(k); rejection != nil {
			return rejection
		}
	}
	return nil
}

func decideCreateKey(
	state Account, by Command, c CreateKey, nowMillis int64,
) ([]FactBody, *Rejection) {
	if rejection := callerLimits(state, by, nowMillis, c.Key); rejection != nil {
		return nil, rejection
	}
	if rejection := roomForKey(state, c.Key, nowMillis); rejection != nil {
		return nil, rejection
	}
	return []FactBody{KeyCreated{Key: c.Key.bornAt(nowMillis)}}, nil
}

// decideRollKey makes the earlier key expire after the grace, or at its own expiry if that
// comes first.
func decideRollKey(
	state Account, by Command, c RollKey, nowMillis int64,
) ([]FactBody, *Rejection) {
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
	if rejection := callerLimits(state, by, nowMillis, former, c.Key); rejection != nil {
		return nil, rejection
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

func decideRevokeKey(
	state Account, by Command, c RevokeKey, nowMillis int64,
) ([]FactBody, *Rejection) {
	key, found := state.Key(c.KeyID)
	if !found {
		return nil, noKey()
	}
	if rejection := callerLimits(state, by, nowMillis, key); rejection != nil {
		return nil, rejection
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
	most := min(state.Quotas.Or(DefaultQuotas()).Keys, MaxKeys)
	if has := state.CountsOf(nowMillis).Keys; has >= most {
		return &Rejection{Code: CodeTooManyKeys, Detail: quotaOfKeys.Exceeded(state.ID, has, most)}
	}
	return nil
}

func noKey() *Rejection { return &Rejection{Code: CodeNotFound, Detail: "there is no such key"} }

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
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Expired(nowMillis) })
}
