package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// Trust is what a source believes beside the hashes of its ledgers, and who is told of one that
// they refute. Its zero value believes nothing.
type Trust struct {
	Anchor    Anchor
	OnRefused func() // may be nil
}

// Anchor is a ledger whose hash is known from elsewhere. That ledger must have it, and the one
// after it must follow it. The zero value asks nothing.
type Anchor struct {
	Sequence uint32
	Hash     string // 64 lowercase hex characters
}

var errNoAnchor = errors.New("must be a ledger's sequence and the 64 hex characters of its hash, " +
	"such as 63092988:0a1b…")

// ParseAnchor reads SEQUENCE:HASH.
func ParseAnchor(text string) (a Anchor, err error) {
	sequence, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(sequence, 10, 31)
	if err != nil || n == 0 || n >= math.MaxInt32 {
		return a, errNoAnchor
	}
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != 32 {
		return a, errNoAnchor
	}
	return Anchor{Sequence: uint32(n), Hash: strings.ToLower(hash)}, nil
}

// check holds a ledger's header against the anchor.
func (a Anchor) check(h ledger.Header) error {
	switch {
	case a.Hash == "":
		return nil
	case h.Sequence == a.Sequence && h.Hash != a.Hash:
		return fmt.Errorf("%w: it has hash %s, but the trusted one has %s", ledger.ErrNotProved, h.Hash,
			a.Hash)
	case h.Sequence == a.Sequence+1 && h.PreviousHash != a.Hash:
		return fmt.Errorf("%w: it follows %s, but the trusted ledger %d has %s", ledger.ErrNotProved,
			h.PreviousHash, a.Sequence, a.Hash)
	}
	return nil
}
