package source

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// hashSizeMax bounds what of a source's words is repeated.
const hashSizeMax = 64

// chain is the last ledger that was given, so that the next can be held against it. Its
// zero value takes any, as does one with an empty hash.
type chain struct {
	sequence uint32
	hash     string
}

// check holds a ledger from a source against the one that is due. Its errors
// are ErrForked, ErrUnreadable, or say that the source gave another one than was
// asked for, which may pass. from names the source.
func (c chain) check(raw ledger.Raw, due uint32, from string) error {
	if raw.Sequence != due {
		return fmt.Errorf("%s gave ledger %d where %d is due", from, raw.Sequence, due)
	}
	header, err := raw.Header()
	if err != nil {
		return fmt.Errorf("%w: ledger %d from %s: %w", domain.ErrUnreadable, due, from, err)
	}
	if header.Sequence != due || header.Hash != raw.Hash {
		return fmt.Errorf("%s gave ledger %d with hash %s under the name of %d with hash %q", from,
			header.Sequence, header.Hash, raw.Sequence, raw.Hash[:min(len(raw.Hash), hashSizeMax)])
	}
	if c.hash != "" && c.sequence+1 == due && c.hash != header.PreviousHash {
		return fmt.Errorf("%w: ledger %d from %s follows %s, but ledger %d was read with hash %s: set "+
			"the address of a source of the network that was followed, or begin anew with data and topics "+
			"of their own",
			domain.ErrForked, due, from, header.PreviousHash, c.sequence, c.hash)
	}
	return nil
}

// fitting is Poll.Fitting.
func (c chain) fitting(page []ledger.Raw, due uint32, from string) ([]ledger.Raw, error) {
	for i, raw := range page {
		if err := c.check(raw, due+uint32(i), from); err != nil {
			if i == 0 {
				return nil, err
			}
			return page[:i], nil
		}
		c = chain{raw.Sequence, raw.Hash}
	}
	return page, nil
}
