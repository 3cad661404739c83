package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// transaction holds a transaction's parts: bytes of the ledger that are not yet decoded. All of
// them are complete, unless it has a fault or failed is set.
type transaction struct {
	hash     xdr.Hash // the outer hash of a fee bump
	envelope xdr.TransactionEnvelopeView
	result   xdr.TransactionResultView
	meta     xdr.TransactionMetaView
	pair     xdr.TransactionResultPairView // hash and result; nil if its end is unknown
	calls    bool                          // it may contain a contract call that succeeded
	rest     []byte                        // if pair is nil: the bytes from it on
	fault    error                         // it has an unknown form
	failed   bool                          // it has an unknown form, but the transaction failed

	// call replaces the envelope of a contract call whose arguments have an unknown form. It
	// holds the part before them, which is all that payments need.
	call *body

	// fees and refunds are the changes of entries by the fee: the charges before any transaction
	// was applied, and the refunds after all. nil means no such changes.
	fees, refunds []byte
	partly        bool // its fees, refunds or the end of its meta are unknown
}

func (t transaction) hexHash() string { return hex.EncodeToString(t.hash[:]) }

// located is a parsed ledger. Transactions are in the order in which they were applied, which is
// not the order of the envelopes.
type located struct {
	header       xdr.LedgerHeaderHistoryEntryView
	set          []byte // the transaction set
	generalized  bool   // it has the form since protocol 20
	transactions []transaction
}

// demands are the options for parsing a ledger.
type demands struct {
	check   func(located) error // called before results are matched with envelopes
	unknown bool                // unknown forms are allowed
	proves  bool                // check refuses results that the ledger does not name
}

// believing checks nothing.
var believing = demands{check: func(located) error { return nil }, unknown: true}

// locate finds the parts of a ledger. Every byte must belong to it.
func locate(raw []byte, passphrase string, how demands) (parts located, err error) {
	var envelopes []xdr.TransactionEnvelopeView
	err = xdr.TryVoid(func() { parts, envelopes = takeApart(raw) })
	switch {
	case how.unknown && isUnknownForm(err):
		return salvage(raw, passphrase, how)
	case err != nil:
		return located{}, err
	case parts.header == nil:
		return located{}, fmt.Errorf(
			"%d bytes hold more or less than one LedgerCloseMeta of a known version", len(raw))
	}
	if err := how.check(parts); err != nil {
		return located{}, err
	}
	return parts, pair(parts.transactions, envelopes, passphrase)
}

// takeApart parses a ledger in one pass. It panics with a *xdr.ViewError on malformed bytes, like
// the SDK's Must functions. It returns nothing if the version is unknown or bytes are left over.
func takeApart(raw []byte) (parts located, envelopes []xdr.TransactionEnvelopeView) {
	version := xdr.LedgerCloseMetaView(raw).MustV()
	if version > versionMax {
		return located{}, nil
	}
	rest := raw[4:]
	parts.generalized = version > 0
	if parts.generalized {
		next[xdr.LedgerCloseMetaExtView](&rest)
	}
	parts.header = next[xdr.LedgerHeaderHistoryEntryView](&rest)
	if parts.generalized {
		set := next[xdr.GeneralizedTransactionSetView](&rest)
		parts.set, envelopes = set, envelopesOf(set)
	} else {
		set := next[xdr.TransactionSetView](&rest)
		parts.set, envelopes = set, set.MustTxs().MustAll()
	}
	parts.transactions = make([]transaction, 0, len(envelopes))
	for range must(next[xdr.Uint32View](&rest).Value()) {
		var tx transaction
		rest = rest[must(tx.applied(uint32(version), rest)):]
		parts.transactions = append(parts.transactions, tx)
	}
	switch version {
	case 0:
		next[xdr.LedgerCloseMetaV0UpgradesProcessingView](&rest)
		next[xdr.LedgerCloseMetaV0ScpInfoView](&rest)
	case 1:
		next[xdr.LedgerCloseMetaV1UpgradesProcessingView](&rest)
		next[xdr.LedgerCloseMetaV1ScpInfoView](&rest)
		next[xdr.Uint64View](&rest) // the size of the contracts' state
		next[xdr.LedgerCloseMetaV1EvictedKeysView](&rest)
		next[xdr.LedgerCloseMetaV1UnusedView](&rest)
	case versionMax:
		next[xdr.LedgerCloseMetaV2UpgradesProcessingView](&rest)
		next[xdr.LedgerCloseMetaV2ScpInfoView](&rest)
		next[xdr.Uint64View](&rest)
		next[xdr.LedgerCloseMetaV2EvictedKeysView](&rest)
	}
	if len(rest) > 0 {
		return located{}, nil
	}
	return parts, envelopes
}

// next takes the value at the beginning of rest.
func next[V known](rest *[]byte) V {
	value := must(V(*rest).Raw())
	*rest = (*rest)[len(value):]
	return value
}

// applied reads how a transaction was processed in a ledger of this version, and the size of that.
func (t *transaction) applied(version uint32, raw []byte) (sizeBytes int, err error) {
	if version == 2 {
		f, err := xdr.TransactionResultMetaV1View(raw).Fields()
		if err != nil {
			return 0, err
		}
		t.pair, t.fees, t.meta, sizeBytes = f.Result, f.FeeProcessing, f.TxApplyProcessing, len(f.View)
		t.refunds = f.PostTxApplyFeeProcessing
	} else {
		f, err := xdr.TransactionResultMetaView(raw).Fields()
		if err != nil {
			return 0, err
		}
		t.pair, t.fees, t.meta, sizeBytes = f.Result, f.FeeProcessing, f.TxApplyProcessing, len(f.View)
	}
	t.calls, t.hash = mayCall(t.pair), xdr.Hash(t.pair[:hashSizeBytes])
	t.result, err = t.pair.Result()
	return sizeBytes, err
}

func envelopesOf(set xdr.GeneralizedTransactionSetView) (all []xdr.TransactionEnvelopeView) {
	for phase := range set.MustV1TxSet().MustPhases().MustIter() {
		if phase.MustV() == 0 {
			for component := range phase.MustV0Components().MustIter() {
				all = append(all, component.MustTxsMaybeDiscountedFee().MustTxs().MustAll()...)
			}
			continue
		}
		for stage := range phase.MustParallelTxsComponent().MustExecutionStages().MustIter() {
			for cluster := range stage.MustIter() {
				all = append(all, cluster.MustAll()...)
			}
		}
	}
	return all
}

var errNoEnvelope = errors.New("no envelope has the hash")

// pair assigns each transaction its envelope. The envelopes are in the order that the network
// agreed on, so only the hash identifies them.
func pair(txs []transaction, envelopes []xdr.TransactionEnvelopeView, passphrase string) error {
	if len(txs) != len(envelopes) {
		return fmt.Errorf("%d transactions were applied, but %d are in the set", len(txs), len(envelopes))
	}
	hasher, err := network.NewTransactionViewHasher(passphrase)
	if err != nil {
		return err
	}
	byHash := make(map[xdr.Hash]xdr.TransactionEnvelopeView, len(envelopes))
	for _, envelope := range envelopes {
		hash, err := hasher.Hash(envelope)
		if err != nil {
			return fmt.Errorf("hashing a transaction: %w", err)
		}
		byHash[hash] = envelope
	}
	for i := range txs {
		envelope, found := byHash[txs[i].hash]
		if !found {
			return fmt.Errorf("%w %s of transaction %d: the ledger is damaged, or of another network "+
				"than %q", errNoEnvelope, txs[i].hexHash(), i+1, passphrase)
		}
		txs[i].envelope = envelope
	}
	return nil
}

// must is the SDK's convention for views: it panics with the *xdr.ViewError,
// for xdr.Try to recover.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
