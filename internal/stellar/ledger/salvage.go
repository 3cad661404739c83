package ledger

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The SDK can't skip a form that it doesn't know (an operation, an address, a result), because XDR
// doesn't encode the length of unknown values. The transactions of the ledger can still be
// separated, because each is identified by its hash. An envelope ends where the bytes read so far
// have a hash that the ledger lists as applied, and the applied parts begin at those hashes.
//
// This can't be used to forge a transaction. If a hash occurs in more than one place, only the
// hashes of the ledger decide which place is the right one (apart.go). If they aren't checked, the
// ledger is refused.

// Limits of transactions in a set.
const (
	envelopeSizeBytesMax  = 512 << 10
	signaturesMax         = 20
	signatureSizeBytesMax = 64
	hashPrefixSizeBytes   = 8
)

var errUnknownForm = errors.New("it contains a form that this program does not know: upgrade " +
	"lumenhook")

// isUnknownForm distinguishes errors caused by a newer protocol from errors caused by damage.
func isUnknownForm(err error) bool {
	view, ok := errors.AsType[*xdr.ViewError](err)
	return ok &&
		(view.Kind == xdr.ViewErrUnknownDiscriminant || view.Kind == xdr.ViewErrArrayCountExceedsMax ||
			view.Kind == xdr.ViewErrOpaqueExceedsMax)
}

type salvager struct {
	scanner
	version   uint32
	networkID [32]byte
	hasher    *network.TransactionViewHasher
	// Prefixes of all 32-byte values in the ledger that may be hashes; created on demand.
	prefixes  map[uint64]struct{}
	envelopes map[xdr.Hash]xdr.TransactionEnvelopeView // nil if it has an unknown form
	// The part of contract calls before their unknown arguments.
	calls map[xdr.Hash]*body
}

func salvage(raw []byte, passphrase string, how demands) (parts located, err error) {
	hasher, err := network.NewTransactionViewHasher(passphrase)
	if err != nil {
		return located{}, fmt.Errorf("hashing transactions: %w", err)
	}
	s := salvager{
		scanner:   scanner{raw: raw},
		networkID: network.ID(passphrase),
		hasher:    hasher,
		envelopes: map[xdr.Hash]xdr.TransactionEnvelopeView{},
		calls:     map[xdr.Hash]*body{},
	}
	if parts.header, err = s.header(); err != nil {
		return located{}, err
	}
	set := s.rest()
	if err := s.transactionSet(); err != nil {
		return located{}, fmt.Errorf("the transaction set: %w", err)
	}
	parts.set, parts.generalized = set[:len(set)-len(s.rest())], s.version > 0
	places, err := s.places()
	if err != nil {
		return located{}, err
	}
	read := func(places []place) (err error) {
		if parts.transactions, err = s.processing(places); err == nil {
			err = how.check(parts)
		}
		return err
	}
	if len(places) != len(s.envelopes) {
		err = s.disambiguate(places, how, read)
	} else {
		err = read(places)
	}
	return parts, err
}

// header advances to the transaction set. normalise has checked the version.
func (s *salvager) header() (xdr.LedgerHeaderHistoryEntryView, error) {
	if s.version = s.uint32(); s.version > 0 {
		if extension := s.uint32(); extension == 1 {
			s.take(4 + 8)
		}
	}
	header, err := xdr.LedgerHeaderHistoryEntryView(s.rest()).Raw()
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	s.take(len(header))
	return header, nil
}

func (s *salvager) transactionSet() error {
	if s.version == 0 {
		s.take(hashSizeBytes)
		return s.list(s.envelope)
	}
	if form := s.uint32(); form != 1 {
		return fmt.Errorf("its form %d is not known: %w", form, errUnknownForm)
	}
	s.take(hashSizeBytes)
	return s.list(s.phase)
}

func (s *salvager) phase() error {
	switch form := s.uint32(); form {
	case 0:
		return s.list(func() error {
			if kind := s.uint32(); kind != 0 {
				return fmt.Errorf("components of kind %d are not known: %w", kind, errUnknownForm)
			}
			s.optionalFee()
			return s.list(s.envelope)
		})
	case 1:
		s.optionalFee()
		return s.list(func() error { return s.list(func() error { return s.list(s.envelope) }) })
	default:
		return fmt.Errorf("phases of form %d are not known: %w", form, errUnknownForm)
	}
}

func (s *salvager) optionalFee() {
	if s.uint32() != 0 {
		s.take(8)
	}
}

func (s *salvager) list(element func() error) error {
	n := s.uint32()
	if s.bad || int64(n) > int64(len(s.rest()))/4 {
		return errShort
	}
	for range n {
		if err := element(); err != nil {
			return err
		}
		if s.bad {
			return errShort
		}
	}
	return nil
}

func (s *salvager) envelope() error {
	raw, err := xdr.TransactionEnvelopeView(s.rest()).Raw()
	if err == nil {
		hash, err := s.hasher.Hash(raw)
		if err != nil {
			return fmt.Errorf("hashing a transaction: %w", err)
		}
		s.envelopes[hash] = raw
		s.take(len(raw))
		return nil
	}
	if !isUnknownForm(err) {
		return err
	}
	hash, sizeBytes, found := s.delimit()
	if !found {
		return fmt.Errorf("at byte %d: %w, and where it ends cannot be found", s.at, err)
	}
	s.envelopes[hash], s.calls[hash] = nil, readCall(xdr.TransactionEnvelopeView(s.rest()[:sizeBytes]))
	s.take(sizeBytes)
	return nil
}

// delimit finds the end of an envelope with an unknown form. The signatures begin where the bytes
// read so far have a hash that is listed later in the ledger.
func (s *salvager) delimit() (hash xdr.Hash, sizeBytes int, found bool) {
	if len(s.rest()) < 8 {
		return hash, 0, false
	}
	digest := sha256.New()
	digest.Write(s.networkID[:])
	if binary.BigEndian.Uint32(s.rest()) == uint32(xdr.EnvelopeTypeEnvelopeTypeTxV0) {
		// For the oldest form, the signed bytes are those of the equivalent newer form.
		digest.Write([]byte{0, 0, 0, byte(xdr.EnvelopeTypeEnvelopeTypeTx), 0, 0, 0, 0})
	} else {
		digest.Write(s.rest()[:4])
	}
	for end := 4; end < min(len(s.rest()), envelopeSizeBytesMax); end += 4 {
		if signatures, ok := signaturesSize(s.rest()[end:]); ok {
			digest.Sum(hash[:0])
			if s.listed(hash, end) {
				return hash, end + signatures, true
			}
		}
		digest.Write(s.rest()[end:min(end+4, len(s.rest()))])
	}
	return hash, 0, false
}

// signaturesSize returns the size of the signatures at the start of raw, if there can be any.
func signaturesSize(raw []byte) (sizeBytes int, ok bool) {
	c := scanner{raw: raw}
	for n := c.limited(signaturesMax); n > 0; n-- {
		c.take(4) // hint
		c.take((c.limited(signatureSizeBytesMax) + 3) &^ 3)
	}
	return c.at, !c.bad
}

// listed reports whether hash occurs at or after offset from in the rest of the ledger.
func (s *salvager) listed(hash xdr.Hash, from int) bool {
	if s.prefixes == nil {
		s.prefixes = map[uint64]struct{}{}
		for at := 0; at+hashSizeBytes <= len(s.rest()); at += 4 {
			s.prefixes[binary.BigEndian.Uint64(s.rest()[at:])] = struct{}{}
		}
	}
	_, maybe := s.prefixes[binary.BigEndian.Uint64(hash[:hashPrefixSizeBytes])]
	return maybe && bytes.Contains(s.rest()[from:], hash[:])
}

// place is an offset at which an applied transaction may begin.
type place struct {
	at   int
	hash xdr.Hash
}

func (s *salvager) processing(places []place) (txs []transaction, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	txs = make([]transaction, len(places))
	for i, p := range places {
		sizeBytes := len(s.rest()) - p.at
		if i+1 < len(places) {
			sizeBytes = places[i+1].at - p.at
		}
		if txs[i], err = s.transaction(p, s.rest()[p.at:p.at+sizeBytes], i+1 == len(places)); err != nil {
			return nil, fmt.Errorf("transaction %d: %w", i+1, err)
		}
	}
	return txs, nil
}

// places finds all hashes with which a transaction may begin. The first is at a known offset.
func (s *salvager) places() (places []place, err error) {
	n := s.uint32()
	if s.bad || int64(n) != int64(len(s.envelopes)) {
		return nil, fmt.Errorf("%d transactions were applied, but %d are in the set", n, len(s.envelopes))
	}
	before := 0
	if s.version == 2 {
		before = 4 // preceded by an extension point
	}
	known := make(map[uint64]xdr.Hash, len(s.envelopes))
	for hash := range s.envelopes {
		known[binary.BigEndian.Uint64(hash[:hashPrefixSizeBytes])] = hash
	}
	distinct := map[xdr.Hash]bool{}
	for at := before; at+hashSizeBytes <= len(s.rest()); at += 4 {
		hash, ok := known[binary.BigEndian.Uint64(s.rest()[at:])]
		if ok && bytes.Equal(hash[:], s.rest()[at:at+hashSizeBytes]) {
			places = append(places, place{at: at - before, hash: hash})
			distinct[hash] = true
		}
	}
	if len(distinct) != len(s.envelopes) || n > 0 && places[0].at != 0 {
		return nil, fmt.Errorf("it contains an unknown form, and of its %d transactions, %d were found "+
			"in %d places: the ledger is damaged, or from another network", len(
			s.envelopes,
		), len(distinct), len(places))
	}
	return places, nil
}

// transaction reads an applied transaction. Only the last one may be followed by other bytes.
// Damage is an error, but an unknown form is not.
func (s *salvager) transaction(p place, raw []byte, last bool) (transaction, error) {
	tx := transaction{hash: p.hash, envelope: s.envelopes[p.hash], call: s.calls[p.hash]}
	tx.rest = raw[s.resultOffset()-hashSizeBytes:]
	if pair, err := xdr.TransactionResultPairView(tx.rest).Raw(); err == nil {
		tx.pair, tx.calls = pair, mayCall(pair)
	}
	sizeBytes, err := tx.applied(s.version, raw)
	switch {
	case isUnknownForm(err):
		err = s.findBeginning(&tx, raw)
	case err == nil && !last && sizeBytes != len(raw):
		return tx, fmt.Errorf("%d bytes of %d do not belong to it", len(raw)-sizeBytes, len(raw))
	}
	switch {
	case err != nil && !isUnknownForm(err):
		return tx, err
	case err == nil && (tx.envelope != nil || tx.call != nil):
		return tx, nil
	case err == nil:
		err = errUnknownForm
	}
	unread := transaction{hash: p.hash, pair: tx.pair, calls: tx.calls, rest: tx.rest,
		partly: true}
	if unread.failed = failed(raw[s.resultOffset():]); !unread.failed {
		unread.fault = err
	}
	return unread, nil
}

// findBeginning reads the result and the beginning of a meta that ends with an unknown form.
// Payments only need the events in that beginning.
func (s *salvager) findBeginning(tx *transaction, raw []byte) (err error) {
	var pair xdr.TransactionResultPairView
	tx.partly = true
	if s.version == 2 {
		view := xdr.TransactionResultMetaV1View(raw)
		if tx.meta, err = view.TxApplyProcessing(); err == nil {
			pair, err = view.Result()
		}
	} else {
		view := xdr.TransactionResultMetaView(raw)
		if tx.meta, err = view.TxApplyProcessing(); err == nil {
			pair, err = view.Result()
		}
	}
	if err == nil {
		tx.result, err = pair.Result()
	}
	return err
}

func (s *salvager) resultOffset() int {
	if s.version == 2 {
		return 4 + hashSizeBytes
	}
	return hashSizeBytes
}

// failed reports whether a result's code, which precedes any unknown form, means failure.
// Without a code, the transaction counts as successful so that it is reported.
func failed(result []byte) bool {
	c := scanner{raw: result}
	c.take(8) // fee
	code := xdr.TransactionResultCode(int32(c.uint32()))
	return !c.bad && code != xdr.TransactionResultCodeTxSuccess &&
		code != xdr.TransactionResultCodeTxFeeBumpInnerSuccess
}
