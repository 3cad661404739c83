package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Whoever knows the hash of another's transaction, or of one more of their own, can have it written
// into what their transaction emits. In a ledger with unknown forms that looks like the place
// where the other begins. It is told apart by what is known: a transaction of known forms has an
// end, where the next begins. Behind one of an unknown form each place is possible; the hash of
// all results then says which ones are right. So nobody can stop the reading of a ledger by a copy.

// Bounds of telling places apart.
const (
	choicesMax = 10_000 // places that are looked at, beside one for each
	proofsMax  = 64     // ways that are held against the ledger's hashes
)

var errCopied = errors.New("it holds an unknown form, and hashes of transactions are found in " +
	"more places than there are transactions: which of them count cannot be told")

// choosing is a way through the places.
type choosing struct {
	*salvager
	places []place
	index  map[int]int      // of a place, by where it is
	last   map[xdr.Hash]int // the last place of each hash
	sizes  map[int]int      // of what was read, by where it is; 0: of an unknown form
	taken  map[xdr.Hash]bool
	way    []place
	looked int
	proofs int
	read   func([]place) error
	err    error // why the last way was not the one
}

// tellApart finds the places that count: read must prove them. Unless it does, none is believed.
func (s *salvager) tellApart(places []place, how demands, read func([]place) error) error {
	if !how.proves {
		return fmt.Errorf("%w: %d transactions, %d places", errCopied, len(s.envelopes), len(places))
	}
	c := &choosing{
		salvager: s,
		places:   places,
		index:    make(map[int]int, len(places)),
		last:     make(map[xdr.Hash]int, len(s.envelopes)),
		sizes:    make(map[int]int),
		taken:    make(map[xdr.Hash]bool, len(s.envelopes)),
		read:     read,
		err:      errCopied,
	}
	for i, p := range places {
		c.index[p.at], c.last[p.hash] = i, i
	}
	if c.goOn(0) {
		return nil
	}
	return c.err
}

// goOn takes a place, and tries every way on from there.
func (c *choosing) goOn(i int) (proved bool) {
	p := c.places[i]
	if c.looked++; c.taken[p.hash] || c.looked > choicesMax+len(c.places) || c.proofs > proofsMax {
		return false
	}
	c.taken[p.hash] = true
	c.way = append(c.way, p)
	defer func() {
		delete(c.taken, p.hash)
		c.way = c.way[:len(c.way)-1]
	}()
	if len(c.way) == len(c.envelopes) {
		c.proofs++
		c.err = c.read(slices.Clone(c.way))
		return c.err == nil
	}
	if sizeBytes := c.size(p); sizeBytes > 0 {
		next, is := c.index[p.at+sizeBytes]
		return is && c.goOn(next)
	}
	for next := c.latest(); next > i; next-- {
		if c.goOn(next) {
			return true
		}
	}
	return false
}

// size is that of what was applied at a place; 0 when it is of an unknown form.
func (c *choosing) size(p place) int {
	sizeBytes, known := c.sizes[p.at]
	if !known {
		var err error
		if sizeBytes, err = c.applied(new(transaction), c.rest[p.at:]); err != nil {
			sizeBytes = 0
		}
		c.sizes[p.at] = sizeBytes
	}
	return sizeBytes
}

// latest is the latest place that may come next: behind it, a transaction that is still due has
// no place any more. Copies mostly stand before what they are of, so it mostly is the one.
func (c *choosing) latest() int {
	latest := len(c.places) - 1
	for hash, last := range c.last {
		if !c.taken[hash] {
			latest = min(latest, last)
		}
	}
	return latest
}
