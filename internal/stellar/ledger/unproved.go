package ledger

import (
	"encoding/binary"
	"errors"
	"hash"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// An unknown form has no known end. If a hash covers the form, it ends where the bytes match the
// hash, so that a source can't hide a result or an event behind an unknown form.

// Limits of the search for the end.
const (
	unverifiedMax       = 10_000 // combinations to try
	valueSizeBytesMax   = 4 << 10
	unknownMetaVersion  = 16 // versions of metas are lower
	pairHeadSizeBytes   = hashSizeBytes + 8 + 4
	eventsHeadSizeBytes = 4
	resultsSizeBytesMax = envelopeSizeBytesMax
	eventsSizeBytesMax  = envelopeSizeBytesMax
	feesSizeBytesMax    = 16 << 10 // entry changes of a fee
	changesSizeBytesMax = 1 << 20  // entry changes of a call
	placeSizeBytes      = 256      // cost of trying a place
)

// checkUnknownResults checks the results from the first one with an unknown form on. A result ends
// where the following bytes can be the entry changes of a fee and a meta.
func (l located) checkUnknownResults(
	p *prover, claimed xdr.Hash, from int, digest hash.Hash,
) error {
	tries := unverifiedMax
	last := &Mismatch{What: "the results, some of a form that is not known,", Claimed: claimed}
	var search func(i int, digest hash.Hash) bool
	search = func(i int, digest hash.Hash) bool {
		for ; i < len(l.transactions) && l.transactions[i].pair != nil; i++ {
			p.spend(len(l.transactions[i].pair))
			digest.Write(l.transactions[i].pair)
		}
		if i == len(l.transactions) {
			tries--
			digest.Sum(last.Computed[:0])
			return last.Computed == claimed
		}
		for end := range p.pairEnds(l.transactions[i].rest) {
			next, err := digest.(hash.Cloner).Clone()
			if err != nil || tries <= 0 || !p.spend(end) {
				return false
			}
			next.Write(l.transactions[i].rest[:end])
			if search(i+1, next) {
				return true
			}
		}
		return false
	}
	if !search(from, digest) {
		return last
	}
	return nil
}

// pairEnds yields each place where a result pair may end. It starts with the places after which
// known forms continue to the transaction's end. If there are many results with unknown forms, most
// of which contain several possible ends, the right one is therefore tried first.
func (p *prover) pairEnds(rest []byte) func(yield func(end int) bool) {
	return func(yield func(end int) bool) {
		for _, whole := range []bool{true, false} {
			for end := pairHeadSizeBytes; end < min(len(rest), resultsSizeBytesMax); end += 4 {
				if !p.spend(placeSizeBytes) {
					return
				}
				may, fits := p.mayFollowResult(rest[end:])
				if may && fits == whole && !yield(end) {
					return
				}
			}
		}
	}
}

// mayFollowResult reports whether rest can start with the entry changes of a fee and a meta (may),
// and whether the bytes after that are the entry changes of a refund or nothing (fits).
func (p *prover) mayFollowResult(rest []byte) (may, fits bool) {
	changes, err := xdr.LedgerEntryChangesView(rest[:min(len(rest), feesSizeBytesMax)]).Raw()
	if err != nil || len(rest) < len(changes)+4 ||
		binary.BigEndian.Uint32(rest[len(changes):]) > unknownMetaVersion {
		return false, false
	}
	rest = rest[len(changes):]
	if binary.BigEndian.Uint32(rest) > metaUnified {
		return true, false
	}
	meta, err := xdr.TransactionMetaView(rest).Raw()
	if view, ok := errors.AsType[*xdr.ViewError](err); ok {
		p.spend(int(view.Offset)) // the SDK has read up to there
	}
	if err != nil || !p.spend(len(meta)) {
		return true, false
	}
	if rest = rest[len(meta):]; len(rest) == 0 {
		return true, true
	}
	refunds, err := xdr.LedgerEntryChangesView(rest).Raw()
	return true, err == nil && len(refunds) == len(rest)
}

// provesUnknown searches for events and a return value, some of an unknown form, that have the
// claimed hash. found reports whether their start is known. If not, an unhashed part has an unknown
// form.
func (p *prover) provesUnknown(
	claimed xdr.Hash, meta xdr.TransactionMetaView, operations int,
) (proved, found bool) {
	var events []byte
	err := xdr.TryVoid(func() {
		if all := meta.MustV4().MustOperations(); operations == 1 && all.MustCount() == 1 {
			events = all.MustAt(0).MustEvents()
		}
	})
	if err != nil || len(events) == 0 {
		return false, meta.MustV() != metaUnified
	}
	ends := func(yield func(end int) bool) {
		if known, err := xdr.OperationMetaV2EventsView(events).Raw(); err == nil {
			yield(len(known))
			return
		}
		for end := eventsHeadSizeBytes; end < min(len(events), eventsSizeBytesMax); end += 4 {
			if !yield(end) {
				return
			}
		}
	}
	tries := unverifiedMax
	for end := range ends {
		if !p.spend(placeSizeBytes) {
			return false, true
		}
		value, ok := valueAfter(events[end:])
		if !ok {
			continue
		}
		found = true
		for size := range valueSizes(value) {
			if tries--; tries < 0 || !p.spend(size+end) {
				return false, true
			}
			if hashOf(value[:size], events[:end]) == claimed {
				return true, true
			}
		}
	}
	return false, found
}

// metaUnified is the version of metas since protocol 23. Older ledgers have only known forms.
const metaUnified = 4

// valueAfter finds the return value in the bytes after the only operation of a meta.
func valueAfter(rest []byte) (value []byte, ok bool) {
	window := rest[:min(len(rest), changesSizeBytesMax)]
	changes, err := xdr.LedgerEntryChangesView(window).Raw()
	if err != nil {
		return nil, false
	}
	c := scanner{raw: rest[len(changes):]}
	if c.uint32() != 1 || c.bad {
		return nil, false
	}
	extension, err := xdr.SorobanTransactionMetaExtView(c.rest()).Raw()
	if err != nil {
		return nil, false
	}
	c.take(len(extension))
	if c.uint32() != 1 || c.bad {
		return nil, false
	}
	return c.rest(), true
}

func valueSizes(value []byte) func(yield func(size int) bool) {
	return func(yield func(size int) bool) {
		if known, err := xdr.ScValView(value).Raw(); err == nil {
			yield(len(known))
			return
		}
		for size := 4; size <= min(len(value), valueSizeBytesMax); size += 4 {
			if !yield(size) {
				return
			}
		}
	}
}
