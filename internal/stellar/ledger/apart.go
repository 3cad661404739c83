package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// A client that knows the hash of another transaction can make its own transaction emit that hash.
// In a ledger with unknown forms, this looks like a place where the other transaction begins. If a
// transaction has only known forms, its end is known, and the next transaction begins there. After
// a transaction with an unknown form, every place is possible, and only the hash of all results
// decides. A copied hash therefore can't prevent a ledger from being read.

// Limits of the search for the right places.
const (
	choicesMax = 10_000 // places to try, in addition to one attempt per place
	proofsMax  = 64     // combinations to check against the ledger's hashes
)

var errCopied = errors.New("it has an unknown form, and more places contain transaction hashes " +
	"than it has transactions")

type choosing struct {
	*salvager
	places []place
	index  map[int]int      // index of a place by its offset
	last   map[xdr.Hash]int // index of the last place of each hash
	sizes  map[int]int      // size of the transaction at an offset; 0 for unknown forms
	taken  map[xdr.Hash]bool
	way    []place
	looked int
	proofs int
	read   func([]place) error
	err    error // error of the last combination
}

// disambiguate finds the right places. It requires that read proves them.
func (s *salvager) disambiguate(places []place, how demands, read func([]place) error) error {
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
	if c.follow(0) {
		return nil
	}
	return c.err
}

func (c *choosing) follow(i int) (proved bool) {
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
		return is && c.follow(next)
	}
	for next := c.latest(); next > i; next-- {
		if c.follow(next) {
			return true
		}
	}
	return false
}

// size returns the size of the applied transaction at a place, or 0 if it has an unknown form.
func (c *choosing) size(p place) int {
	sizeBytes, known := c.sizes[p.at]
	if !known {
		var err error
		if sizeBytes, err = new(transaction).applied(c.version, c.rest()[p.at:]); err != nil {
			sizeBytes = 0
		}
		c.sizes[p.at] = sizeBytes
	}
	return sizeBytes
}

// latest returns the last place that may come next, so that enough places are left. It is usually
// the right one, because copies normally precede the original.
func (c *choosing) latest() int {
	latest := len(c.places) - 1
	for hash, last := range c.last {
		if !c.taken[hash] {
			latest = min(latest, last)
		}
	}
	return latest
}
