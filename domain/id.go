package domain

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Prefixes of identifiers.
const (
	AccountPrefix  = "acc_"
	KeyPrefix      = "key_"
	EndpointPrefix = "ep_"
	WatchPrefix    = "wat_"
	EventPrefix    = "evt_"
	CommandPrefix  = "cmd_"
	MovePrefix     = "mov_"
)

// idLength is the number of base32 characters after the prefix: 128 bits.
const idLength = 26

var crockford = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewID makes an identifier from 128 random bits of the caller's.
func NewID(prefix string, entropy [16]byte) string {
	return prefix + crockford.EncodeToString(entropy[:])
}

// DeriveID derives an identifier from parts: the same parts always give the same
// identifier, and no other parts do. Parts are length-framed, so that ("ab", "c") and ("a",
// "bc") differ.
func DeriveID(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	var sum [sha256.Size]byte
	return NewID(prefix, [16]byte(h.Sum(sum[:0])))
}

// EventID derives the identifier of the event of a watch and a payment. It depends on
// nothing else: however often the ledger is read again, the event keeps its identifier
// (specification, "What the service does", 4; G2).
func EventID(watchID, paymentID string) string {
	return DeriveID(EventPrefix, "payment", watchID, paymentID)
}

// IsID reports whether s has the form of an identifier with that prefix.
func IsID(prefix, s string) bool {
	if len(s) != len(prefix)+idLength || !strings.HasPrefix(s, prefix) {
		return false
	}
	_, err := crockford.DecodeString(s[len(prefix):])
	return err == nil
}
