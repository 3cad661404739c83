package source

import (
	"fmt"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

// hashSizeMax bounds what of a source's words is repeated.
const hashSizeMax = 64

// Chain remembers the last ledger that was handed out, so that the next can be
// held against it. Its zero value takes any.
type Chain struct {
	sequence uint32
	hash     string
}

// Continue says which ledger was read last. An empty hash takes any.
func (c *Chain) Continue(sequence uint32, hash string) { *c = Chain{sequence, hash} }

// Check holds a ledger from a source against the one that is due. Its errors
// are ErrForked, ErrUnreadable, or say that the source gave another one than was
// asked for, which may pass. from names the source.
func (c *Chain) Check(raw ledger.Raw, due uint32, from string) error {
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

// Fitting cuts a page to the ledgers that follow each other from due on, and
// moves the chain to the last of them. It fails when the first does not fit: what
// does not fit later is the first of the next page.
func (c *Chain) Fitting(page []ledger.Raw, due uint32, from string) ([]ledger.Raw, error) {
	next := *c
	for i, raw := range page {
		if err := next.Check(raw, due+uint32(i), from); err != nil {
			if i == 0 {
				return nil, err
			}
			page = page[:i]
			break
		}
		next.Continue(raw.Sequence, raw.Hash)
	}
	*c = next
	return page, nil
}
