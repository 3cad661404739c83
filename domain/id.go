package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// ID prefixes.
const (
	AccountPrefix  = "acc_"
	KeyPrefix      = "key_"
	EndpointPrefix = "ep_"
	WatchPrefix    = "wat_"
	EventPrefix    = "evt_"
	CommandPrefix  = "cmd_"
	MovePrefix     = "mov_"
)

// idLength is the number of base32 characters after the prefix, which encode 128 bits.
const idLength = 26

var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID returns an ID made of 128 random bits.
func NewID(prefix string, entropy [16]byte) string {
	return prefix + crockford.EncodeToString(entropy[:])
}

// DeriveID derives an ID from the given parts. The same parts always produce the same ID. Parts are
// length-prefixed, so ("ab", "c") and ("a", "bc") produce different IDs.
func DeriveID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	var sum [sha256.Size]byte
	return NewID(prefix, [16]byte(h.Sum(sum[:0])))
}

// EventID derives the ID of a payment's event from the watch and the payment only, so the ID stays
// the same however often the ledger is read (specification, "What the service does", 4; G2).
func EventID(watchID, paymentID string) string {
	return DeriveID(EventPrefix, "payment", watchID, paymentID)
}

// IsID reports whether s has the form of an ID with the given prefix.
func IsID(prefix, s string) bool {
	if len(s) != len(prefix)+idLength || !strings.HasPrefix(s, prefix) {
		return false
	}
	_, err := crockford.DecodeString(s[len(prefix):])
	return err == nil
}
