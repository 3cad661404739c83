package domain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// MaxKeys is the maximum number of unexpired keys per account, regardless of its quota. All keys
// are stored in the account's row, which is replicated to every node that authenticates requests.
const MaxKeys = 100

// Key is an API key as it is stored. It contains the key's hash, never the key itself.
type Key struct {
	ID              string
	Name            string
	Hash            []byte // SHA-256 of the complete key
	Permissions     []Permission
	AllowedCIDRs    []string // networks from which the key can be used; empty means anywhere
	CreatedAtMillis int64
	ExpiresAtMillis int64  // 0 means never
	RolledTo        string // ID of the successor, or empty
}

// Allows reports whether the key has the permission.
func (k Key) Allows(p Permission) bool { return slices.Contains(k.Permissions, p) }

// Expired reports whether the key has expired. Expired keys may still be in the account's row.
func (k Key) Expired(nowMillis int64) bool {
	return k.ExpiresAtMillis != 0 && nowMillis >= k.ExpiresAtMillis
}

func (k Key) createdAt(nowMillis int64) Key {
	k.CreatedAtMillis, k.RolledTo = nowMillis, ""
	return k
}

// Limits returns nil if the key may create, roll or revoke the other key, or else the reason why
// not. A key can't grant or revoke permissions, expiry times and networks that exceed its own.
func (k Key) Limits(other Key) *Rejection {
	for _, p := range other.Permissions {
		if !k.Allows(p) {
			return &Rejection{
				Code: CodeMissingPermission,
				Detail: fmt.Sprintf("the key has the permission %q, which your API key lacks; "+
					"remove it, or use an API key that has it", p),
			}
		}
	}
	ends := other.ExpiresAtMillis
	if end := k.ExpiresAtMillis; end != 0 && (ends == 0 || ends > end) {
		return &Rejection{
			Code: CodeKeyLimit,
			Detail: fmt.Sprintf("the key would outlive your API key, which expires at %s; "+
				"set expiresAt to that time or earlier, or use an API key that expires later",
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
		Detail: fmt.Sprintf("the key could be used from more networks than your API key, "+
			"which is limited to %s; set allowedCidrs to networks within these, or use an API key "+
			"without this limit", strings.Join(k.AllowedCIDRs, ", ")),
	}
}

// covers reports whether the key can be used from all addresses of a network.
func (k Key) covers(cidr string) bool {
	inner, err := netip.ParsePrefix(cidr)
	return err == nil && slices.ContainsFunc(k.AllowedCIDRs, func(text string) bool {
		outer, err := netip.ParsePrefix(text)
		return err == nil && outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
	})
}

// callerLimits returns the reason why the caller's API key may not manage the given keys, or nil.
// It uses the current state, so a key that was revoked while its request was in flight is refused.
func callerLimits(state Account, c Command, nowMillis int64, keys ...Key) *Rejection {
	if c.KeyID == "" {
		return nil
	}
	caller, found := state.Key(c.KeyID)
	if !found || caller.Expired(nowMillis) {
		return &Rejection{
			Code:   CodeKeyLimit,
			Detail: "your API key has since been revoked or has expired; use another key",
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
	return []FactBody{KeyCreated{Key: c.Key.createdAt(nowMillis)}}, nil
}

// decideRollKey lets the old key expire after the grace period, but no later than it would have.
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
	rolled := KeyRolled{KeyID: c.KeyID, ExpiresAtMillis: ends, Key: c.Key.createdAt(nowMillis)}
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

// unexpired returns the keys that have not expired. It is applied whenever an account's keys
// change, so rolling keys doesn't make the row grow.
func unexpired(keys []Key, nowMillis int64) []Key {
	return slices.DeleteFunc(slices.Clone(keys), func(k Key) bool { return k.Expired(nowMillis) })
}
