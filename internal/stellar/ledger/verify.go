package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// The content of a ledger is proved by hashes. The hash of the header identifies the ledger. The
// header contains the hashes of the previous header, of the transaction set, and of the results in
// the order in which they were applied. A result contains the hash of its transaction's envelope,
// and the result of a contract call contains the hash of its return value and events. Payments are
// derived from these bytes only: docs/decisions/verified-ledgers.md.

// ErrNotProved means that a ledger is damaged or forged. Another response may be right.
var ErrNotProved = errors.New("the ledger does not match its hashes")

// Mismatch means that a part of a ledger doesn't have the hash that the ledger claims for it.
type Mismatch struct {
	What              string // part with the hash
	Claimed, Computed xdr.Hash
}

// Unwrap returns ErrNotProved.
func (m *Mismatch) Unwrap() error { return ErrNotProved }

func (m *Mismatch) Error() string {
	return fmt.Sprintf("the hash of %s is %x, but the ledger says %x", m.What, m.Computed[:],
		m.Claimed[:])
}

// protocolKnown is the newest protocol of which we have read real ledgers, so we know all forms.
const protocolKnown = 26

// errUnproved is the fault of a contract call if a newer form precedes its return value.
var errUnproved = errors.New("cannot compute the hash of its events: its meta contains a form " +
	"that this program does not know: upgrade lumenhook")

// Verify checks a ledger against its hashes. It also parses the ledger, so that an Extractor need
// not do so again. It returns ErrNotProved, a domain.LedgerError, or an error about an unknown
// form. It doesn't check that the ledger's own hash is the network's; the chain of ledgers does.
func Verify(raw Raw, passphrase string) (_ Raw, err error) {
	defer guard(&err)
	if raw.verified != nil {
		return raw, nil
	}
	v, err := verify(raw.XDR, passphrase)
	if err != nil {
		return raw, fmt.Errorf("ledger: verifying a LedgerCloseMeta of %d bytes: %w", len(raw.XDR), err)
	}
	raw.verified = v
	return raw, nil
}

// effortMax limits the bytes hashed and searched to prove one ledger with rewritten events or
// unknown forms, against malicious sources. A call's events in such ledgers take at most 16 KiB.
const effortMax = 256 << 20

type prover struct {
	passphrase string
	protocol   uint32
	leftBytes  int // remaining part of effortMax
}

// spend subtracts from the limit, and reports whether it is not exceeded.
func (p *prover) spend(sizeBytes int) bool {
	p.leftBytes -= sizeBytes
	return p.leftBytes >= 0
}

func hashOf(parts ...[]byte) xdr.Hash { return sha256.Sum256(slices.Concat(parts...)) }

func verify(raw []byte, passphrase string) (*opened, error) {
	p := &prover{passphrase: passphrase, leftBytes: effortMax}
	header, err := checkHeader(raw)
	if err != nil {
		return nil, p.judgeHeader(raw, err)
	}
	p.protocol = header.protocol
	parts, err := open(raw, passphrase, demands{unknown: p.protocol > protocolKnown,
		proves: true, check: func(parts located) error {
			if err := parts.checkSet(); err != nil {
				return err
			}
			return parts.checkResults(p)
		}})
	switch {
	case errors.Is(err, errNoEnvelope):
		return nil, fmt.Errorf("%w: %w", domain.ErrWrongNetwork, err)
	case err != nil:
		return nil, p.judge(raw, header, err)
	}
	for i := range parts.transactions {
		if err := parts.transactions[i].checkEvents(p); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

type provedHeader struct {
	protocol uint32
	setHash  xdr.Hash
	setAt    int // offset of the transaction set
}

// checkHeader checks the hash of the header as received, before it is normalised.
func checkHeader(raw []byte) (h provedHeader, err error) {
	raw = raw[:min(len(raw), headSizeBytesMax)]
	normal, _, err := normalise(raw)
	if err != nil {
		return h, err
	}
	entry, err := xdr.LedgerCloseMetaView(normal).LedgerHeader()
	if err != nil {
		return h, fmt.Errorf("reading the header: %w", err)
	}
	var claimed xdr.Hash
	var own []byte
	err = xdr.TryVoid(func() {
		header := entry.MustHeader()
		claimed, own = entry.MustHash().MustValue(), header.MustRaw()
		h.protocol = header.MustLedgerVersion().MustValue()
		h.setHash = header.MustScpValue().MustTxSetHash().MustValue()
	})
	if err != nil {
		return h, fmt.Errorf("reading the header: %w", err)
	}
	at := headerOffset(raw)
	end := at + len(own) + len(raw) - len(normal)
	const extensionSizeBytes = 4 // of the header's entry
	h.setAt = min(end+extensionSizeBytes, len(raw))
	return h, compare("the header", claimed, sha256.Sum256(raw[at:end]))
}

// headerOffset returns the header's offset, after its hash. normalise has checked the version.
func headerOffset(raw []byte) int {
	c := scanner{raw: raw}
	if version := c.uint32(); version > 0 {
		if extension := c.uint32(); extension == 1 {
			c.take(4 + 8)
		}
	}
	return c.at + hashSizeBytes
}

func compare(what string, claimed, computed xdr.Hash) error {
	if computed != claimed {
		return &Mismatch{What: what, Claimed: claimed, Computed: computed}
	}
	return nil
}

// checkSet checks the set's hash, which is zero if the network emptied the set (CAP-83).
func (l located) checkSet() error {
	var claimed xdr.Hash
	var form xdr.StellarValueType
	err := xdr.TryVoid(func() {
		value := l.header.MustHeader().MustScpValue()
		claimed, form = value.MustTxSetHash().MustValue(), value.MustExt().MustV()
	})
	if err != nil {
		return fmt.Errorf("reading the header: %w", err)
	}
	switch {
	case form == xdr.StellarValueTypeStellarValueEmptyTxSet && len(l.transactions) > 0:
		return fmt.Errorf("%d transactions are in the set, which the header says is empty: %w",
			len(l.transactions), &Mismatch{What: "the transaction set", Claimed: claimed})
	case form == xdr.StellarValueTypeStellarValueEmptyTxSet && claimed == xdr.Hash{}:
		return nil
	}
	return compare("the transaction set", claimed, l.setHash())
}

func (l located) checkResults(p *prover) error {
	claimed, err := xdr.Try(func() xdr.Hash {
		return l.header.MustHeader().MustTxSetResultHash().MustValue()
	})
	if err != nil {
		return fmt.Errorf("reading the header: %w", err)
	}
	known, digest := l.knownResults()
	if known < len(l.transactions) {
		return l.checkUnknownResults(p, claimed, known, digest)
	}
	return compare("the results", claimed, xdr.Hash(digest.Sum(nil)))
}

// checkEvents checks the events of a transaction's contract calls against the hashes in its result.
// If an unknown form prevents that, it sets the transaction's fault.
func (t *transaction) checkEvents(p *prover) error {
	if t.failed || t.fault != nil || !t.calls {
		return nil
	}
	ok, err := succeeded(t.result)
	if err != nil || !ok {
		return t.named(err)
	}
	results := resultsOf(t.result)
	for i := range results.count {
		claimed, ok := eventsHash(results.of(i))
		if results.bad {
			return t.named(errResult)
		}
		if !ok {
			continue
		}
		if err := t.checkCall(call{i, results.count, claimed}, p); err != nil {
			return err
		}
	}
	if results.bad {
		return t.named(errResult)
	}
	return nil
}

func (t *transaction) named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("transaction %s: %w", t.hexHash(), err)
}

type call struct {
	index, operations int
	claimed           xdr.Hash
}

// checkCall checks the events of a call against their hash. In ledgers of protocols 20 to 22, the
// source may have rewritten the events.
func (t *transaction) checkCall(c call, p *prover) error {
	var returned, events []byte
	err := xdr.TryVoid(func() {
		events, returned = eventBytes(t.meta, c.index, c.operations), returnValue(t.meta)
	})
	switch {
	case err == nil && returned != nil && events != nil:
		computed := hashOf(returned, events)
		if computed == c.claimed || p.mayBeRewritten() &&
			p.provesRewritten(c.claimed, returned, events, t.envelope) {
			return nil
		}
		return t.mismatch(c, computed)
	case p.protocol > protocolKnown && t.hasNewerMeta():
		t.fault = errUnproved
		return nil
	case !isUnknownForm(err):
		return fmt.Errorf("%w (its meta has no return value or no events)", t.mismatch(c, xdr.Hash{}))
	}
	switch proved, found := p.provesUnknown(c.claimed, t.meta, c.operations); {
	case proved:
		return nil
	case found:
		return fmt.Errorf("%w (some of them of a form that is not known)", t.mismatch(c, xdr.Hash{}))
	}
	t.fault = errUnproved
	return nil
}

// mismatch returns the error for a call whose events have a different hash, or none (a zero hash).
func (t *transaction) mismatch(c call, computed xdr.Hash) error {
	return &Mismatch{
		What:     fmt.Sprintf("the events of operation %d of transaction %s", c.index+1, t.hexHash()),
		Claimed:  c.claimed,
		Computed: computed,
	}
}

func (t *transaction) hasNewerMeta() bool {
	version, err := t.meta.V()
	return err == nil && version > metaUnified
}

// eventBytes returns an operation's events as they are hashed, including their number, or nil. It
// panics like the SDK's Must functions.
func eventBytes(meta xdr.TransactionMetaView, i, operations int) []byte {
	switch meta.MustV() {
	case 3:
		if soroban, ok := meta.MustV3().MustSorobanMeta().MustUnwrap(); ok && operations == 1 {
			return soroban.MustEvents().MustRaw()
		}
	case 4:
		if all := meta.MustV4().MustOperations(); all.MustCount() == operations {
			return all.MustAt(i).MustEvents().MustRaw()
		}
	}
	return nil
}

// returnValue returns the return value of the call, or nil if it is missing.
func returnValue(meta xdr.TransactionMetaView) []byte {
	switch meta.MustV() {
	case 3:
		if soroban, ok := meta.MustV3().MustSorobanMeta().MustUnwrap(); ok {
			return soroban.MustReturnValue().MustRaw()
		}
	case 4:
		if soroban, ok := meta.MustV4().MustSorobanMeta().MustUnwrap(); ok {
			if value, ok := soroban.MustReturnValue().MustUnwrap(); ok {
				return value.MustRaw()
			}
		}
	}
	return nil
}

// setHash returns the set's hash. In the older form, it doesn't cover the number of envelopes.
func (l *located) setHash() xdr.Hash {
	if l.generalized {
		return sha256.Sum256(l.set)
	}
	digest := sha256.New()
	digest.Write(l.set[:hashSizeBytes])
	digest.Write(l.set[hashSizeBytes+4:])
	return xdr.Hash(digest.Sum(nil))
}

// knownResults returns the number of results before the first unknown end, and a digest of them:
// the total number, followed by the results in the order of application.
func (l *located) knownResults() (count int, digest hash.Hash) {
	digest = sha256.New()
	digest.Write(binary.BigEndian.AppendUint32(nil, uint32(len(l.transactions))))
	for i := range l.transactions {
		if l.transactions[i].pair == nil {
			return i, digest
		}
		digest.Write(l.transactions[i].pair)
	}
	return len(l.transactions), digest
}
