package ledger

import "fmt"

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
func (c *Chain) Check(raw Raw, due uint32, from string) error {
	if raw.Sequence != due {
		return fmt.Errorf("%s gave ledger %d where %d is due", from, raw.Sequence, due)
	}
	header, err := raw.header()
	if err != nil {
		return fmt.Errorf("%w: ledger %d from %s: %w", ErrUnreadable, due, from, err)
	}
	if header.Sequence != due || header.Hash != raw.Hash {
		return fmt.Errorf("%s gave ledger %d with hash %s under the name of %d with hash %q", from,
			header.Sequence, header.Hash, raw.Sequence, clip(raw.Hash))
	}
	if c.hash != "" && c.sequence+1 == due && c.hash != header.PreviousHash {
		return fmt.Errorf("%w: ledger %d from %s follows %s, but ledger %d was read with hash %s: set "+
			"the address of a source of the network that was followed, or begin anew with data and topics "+
			"of their own",
			ErrForked, due, from, header.PreviousHash, c.sequence, c.hash)
	}
	return nil
}

// Fitting cuts a page to the ledgers that follow each other from due on, and
// moves the chain to the last of them. It fails when the first does not fit: what
// does not fit later is the first of the next page.
func (c *Chain) Fitting(page []Raw, due uint32, from string) ([]Raw, error) {
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

func (r Raw) header() (Header, error) {
	if r.Read != nil {
		return r.Read.Header, nil
	}
	return ReadHeader(r.XDR)
}

// hashSizeMax bounds what of a source's words is repeated.
const hashSizeMax = 2 * hashSizeBytes

func clip(s string) string { return s[:min(len(s), hashSizeMax)] }
