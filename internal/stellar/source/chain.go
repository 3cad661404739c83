package source

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

const hashSizeMax = 64

// chain identifies the ledger that the next one must follow, or any if the hash is empty.
type chain struct {
	sequence uint32
	hash     string
}

// check verifies a ledger from a source and checks that it is the expected one. It returns the
// parsed ledger. Errors are a domain.LedgerError, or report that the source returned something
// other than requested, which may be temporary. from describes the source.
func (p *Poll) check(
	c chain, raw ledger.Raw, due uint32, from string,
) (ledger.Raw, error) {
	if raw.Sequence != due {
		return raw, fmt.Errorf("%s gave ledger %d where %d is due", from, raw.Sequence, due)
	}
	header, err := ledger.ReadHeader(raw.XDR)
	if err != nil {
		// Verify distinguishes damage from newer forms.
		if _, why := ledger.Verify(raw, p.Passphrase); errors.Is(why, ledger.ErrNotProved) {
			return raw, fmt.Errorf("ledger %d from %s is refused: %w", due, from, why)
		}
		return raw, fmt.Errorf("%w: ledger %d from %s: %w", domain.ErrUnreadable, due, from, err)
	}
	if header.Sequence != due || header.Hash != raw.Hash {
		return raw, fmt.Errorf("%s gave ledger %d with hash %s under the name of %d with hash %q", from,
			header.Sequence, header.Hash, raw.Sequence, raw.Hash[:min(len(raw.Hash), hashSizeMax)])
	}
	raw, err = ledger.Verify(raw, p.Passphrase)
	switch {
	case errors.Is(err, ledger.ErrNotProved):
		return raw, fmt.Errorf("ledger %d from %s is refused: %w", due, from, err)
	case err != nil && IsPermanent(err):
		return raw, fmt.Errorf("ledger %d from %s: %w", due, from, err)
	case err != nil:
		return raw, fmt.Errorf("%w: ledger %d from %s cannot be read, and skipping it would miss its "+
			"payments: upgrade lumenhook: %w", domain.ErrUnreadable, due, from, err)
	}
	if err := p.Trust.Anchor.check(header); err != nil {
		return raw, fmt.Errorf("ledger %d from %s is refused: %w", due, from, err)
	}
	if c.hash != "" && c.sequence+1 == due && c.hash != header.PreviousHash {
		return raw, fmt.Errorf("%w: ledger %d from %s follows %s, but ledger %d was read with hash %s: "+
			"set the address of a source of that network, or start again with an empty data folder "+
			"and other topics",
			domain.ErrForked, due, from, header.PreviousHash, c.sequence, c.hash)
	}
	return raw, nil
}

// Fitting returns the ledgers at the start of a page that follow each other and the last ledger
// read. It fails if the first one does not; a later one will be checked again at the start of the
// next page. from describes the source.
func (p *Poll) Fitting(page []ledger.Raw, due uint32, from string) ([]ledger.Raw, error) {
	c := p.chain
	for i := range page {
		raw, err := p.check(c, page[i], due+uint32(i), from)
		if err != nil && i > 0 {
			return page[:i], nil // checked again with the next page
		}
		if errors.Is(err, ledger.ErrNotProved) {
			p.Refuse(err, due)
		}
		if err != nil {
			return nil, err
		}
		page[i], c = raw, chain{raw.Sequence, raw.Hash}
	}
	return page, nil
}

// Trust configures a ledger that is trusted without proof, and a callback for ledgers that
// contradict their hashes. The zero value trusts nothing.
type Trust struct {
	Anchor    Anchor
	OnRefused func() // may be nil
}

// Anchor is a ledger whose hash is known from elsewhere. The ledger must have this hash, and the
// next ledger must follow it. The zero value requires nothing.
type Anchor struct {
	Sequence uint32
	Hash     string // 64 lowercase hex characters
}

var errNoAnchor = errors.New("must be a ledger's sequence and the 64 hex characters of its hash, " +
	"such as 63092988:0a1b…")

// ParseAnchor parses SEQUENCE:HASH.
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
