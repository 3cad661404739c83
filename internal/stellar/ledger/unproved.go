package ledger

import (
	"encoding/binary"
	"errors"
	"hash"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// The end of an unknown form is unknown. If a hash covers it, the hash decides: of the possible
// places, it ends where the bytes match the hash. So a source cannot hide a result or an event
// behind an unknown form.

// Bounds of such a search.
const (
	unprovedMax         = 10_000 // ways that are tried
	valueSizeBytesMax   = 4 << 10
	unknownMetaVersion  = 16 // versions of metas are smaller
	pairHeadSizeBytes   = hashSizeBytes + 8 + 4
	eventsHeadSizeBytes = 4
	resultsSizeBytesMax = envelopeSizeBytesMax
	eventsSizeBytesMax  = envelopeSizeBytesMax
	feesSizeBytesMax    = 16 << 10 // changes of the entries that pay a fee
	changesSizeBytesMax = 1 << 20  // changes of entries in a call
	placeSizeBytes      = 256      // the cost of trying a place
)

// checkUnknownResults continues from a result of an unknown form: it ends before bytes that can be
// the changes of the fee and a meta.
func (l located) checkUnknownResults(
	p *prover, claimed xdr.Hash, from int, digest hash.Hash,
) error {
	tries := unprovedMax
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

// pairEnds yields each place where a result pair may end, beginning with those from which known
// forms continue to the transaction's end. With many results of unknown forms, most of which
// contain possible ends, each is then tried at the right place first.
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

// mayFollowResult reports whether these bytes can begin with the changes by a fee and a meta, and
// whether the rest fits too: the changes by a refund of the fee, or nothing.
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

// provesUnknown looks for events and a return value, some of an unknown form, that have the hash.
// found reports whether it knows where they begin. If not, a part that no hash covers is unknown.
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
	tries := unprovedMax
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

// metaUnified is the version of metas since protocol 23. Older ledgers are of known forms.
const metaUnified = 4

// valueAfter finds the return value in what follows the only operation of a meta.
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

// valueSizes yields the sizes that a value at the beginning of these bytes may have.
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
