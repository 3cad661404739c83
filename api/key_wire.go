package api

import (
	"net/netip"
	"strings"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
)

// Limits of a key's fields.
const (
	maxKeyName      = 128
	maxPermissions  = 10
	maxCIDRs        = 50
	defaultGraceSec = 24 * 3600
	maxGraceSec     = 30 * 24 * 3600
)

// keyMade is a key in the response to its creation. Key is null if the request is a retry and the
// key cannot be derived again.
type keyMade struct {
	shownKey
	Key *string `json:"key"`
}

type shownKey = client.Key

// viewUsedKey converts a key to the API's form. usedAtMillis is 0 if it was never used.
func viewUsedKey(k domain.Key, usedAtMillis int64) client.Key {
	return client.Key{
		ID:           k.ID,
		Name:         k.Name,
		Permissions:  texts(k.Permissions),
		AllowedCIDRs: k.AllowedCIDRs,
		ExpiresAt:    instant(k.ExpiresAtMillis),
		LastUsedAt:   instant(usedAtMillis),
		RolledTo:     unlessZero(k.RolledTo),
		CreatedAt:    at(k.CreatedAtMillis),
	}
}

// decodeNewKey decodes all fields of a key. Its expiry, if set, must be after afterMillis.
func decodeNewKey(body []byte, afterMillis int64) (key domain.Key, faults *problem.Faults) {
	faults = decode.Object(body,
		decode.Into("name", &key.Name, freeText(maxKeyName)),
		decode.Into("permissions", &key.Permissions, readPermissions),
		decode.Into("expiresAt", &key.ExpiresAtMillis, readExpiry(afterMillis)),
		decode.Into("allowedCidrs", &key.AllowedCIDRs, readCIDRs))
	return key, faults
}

func readPermissions(v decode.Value) []domain.Permission {
	if !v.Require("is required: name one or more of read, write and operate") {
		return nil
	}
	elements, ok := v.Elements(maxPermissions)
	if ok && len(elements) == 0 {
		v.Fault(problem.FaultEmpty, "must name at least one of read, write and operate")
	}
	return words(elements, "must be read, write or operate", domain.Permissions()...)
}

// readExpiry returns a decoder for a key's expiry, which must be after afterMillis. It returns 0 if
// the key never expires.
func readExpiry(afterMillis int64) func(decode.Value) int64 {
	return func(v decode.Value) int64 {
		millis, given := v.Time()
		if given && millis <= afterMillis {
			v.Fault(problem.FaultOutOfRange, "must be in the future")
		}
		return millis
	}
}

func readCIDRs(v decode.Value) []string {
	elements, _ := v.Elements(maxCIDRs)
	return distinct(elements, func(element decode.Value) (cidr string, ok bool) {
		if s, isText := element.AnyText(); isText {
			if cidr, ok = parseCIDR(s); !ok {
				element.Fault(problem.FaultInvalidCIDR,
					"must be a network such as 192.0.2.0/24 or 2001:db8::/32, or one address")
			}
		}
		return cidr, ok
	}, "is the same network as element %d")
}

func parseCIDR(s string) (string, bool) {
	if !strings.Contains(s, "/") {
		address, err := netip.ParseAddr(s)
		if err != nil || address.Zone() != "" {
			return "", false
		}
		address = address.Unmap()
		return netip.PrefixFrom(address, address.BitLen()).String(), true
	}
	prefix, err := netip.ParsePrefix(s)
	if err != nil || prefix.Addr().Is4In6() {
		return "", false
	}
	return prefix.Masked().String(), true
}

// keyRoll is how long the old key stays valid, and when the new key expires (0: never).
type keyRoll struct {
	graceMillis, expiresAtMillis int64
}

// decodeRoll decodes the options for rolling a key. By default the new key expires when the old one
// would have. Another expiry must be after afterMillis.
func decodeRoll(
	body []byte, former domain.Key, afterMillis int64,
) (roll keyRoll, faults *problem.Faults) {
	roll = keyRoll{defaultGraceSec * 1000, former.ExpiresAtMillis}
	if former.RolledTo != "" {
		roll.expiresAtMillis = 0 // expires with the grace period; the engine refuses the roll
	}
	if len(body) == 0 {
		return roll, &problem.Faults{}
	}
	faults = decode.Object(body,
		decode.Into("graceSeconds", &roll.graceMillis, func(v decode.Value) int64 {
			if seconds, given := v.Integer(0, maxGraceSec); given {
				return int64(seconds) * 1000
			}
			return defaultGraceSec * 1000
		}),
		decode.Into("expiresAt", &roll.expiresAtMillis, func(v decode.Value) int64 {
			if !v.Given() {
				return roll.expiresAtMillis
			}
			return readExpiry(afterMillis)(v)
		}))
	return roll, faults
}
