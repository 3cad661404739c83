package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// transaction holds encoded parts, which are complete unless fault or failed is set.
type transaction struct {
	hash     xdr.Hash // outer hash of a fee bump
	envelope xdr.TransactionEnvelopeView
	result   xdr.TransactionResultView
	meta     xdr.TransactionMetaView
	pair     xdr.TransactionResultPairView // hash and result; nil if the end is unknown
	calls    bool                          // may contain a successful contract call
	rest     []byte                        // if pair is nil, the bytes from its start on
	fault    error                         // the transaction has an unknown form
	failed   bool                          // it failed, so an unknown form does not matter

	// call replaces the envelope of a contract call whose arguments have an unknown form. It contains
	// the part before the arguments, which is all that payments need.
	call *body

	// fees and refunds are the entry changes of the fee: the charge before any transaction is applied,
	// and the refund after all have been. They are nil if there are none.
	fees, refunds []byte
	partly        bool // the fees, the refunds or the end of the meta are unknown
}

func (t transaction) hexHash() string { return hex.EncodeToString(t.hash[:]) }

// located is a parsed ledger. transactions are in the order in which they were applied, which
// differs from the order of the envelopes.
type located struct {
	header       xdr.LedgerHeaderHistoryEntryView
	set          []byte // transaction set
	generalized  bool   // the set has the form used since protocol 20
	transactions []transaction
}

type demands struct {
	check   func(located) error // called before results are matched with envelopes
	unknown bool                // unknown forms are accepted
	proves  bool                // check detects results that are not in the ledger
}

// believing accepts the ledger without checking hashes.
var believing = demands{check: func(located) error { return nil }, unknown: true}

// locate finds the parts of a ledger, which must take up all of raw.
func locate(raw []byte, passphrase string, how demands) (parts located, err error) {
	var envelopes []xdr.TransactionEnvelopeView
	err = xdr.TryVoid(func() { parts, envelopes = splitLedger(raw) })
	switch {
	case how.unknown && isUnknownForm(err):
		return salvage(raw, passphrase, how)
	case err != nil:
		return located{}, err
	case parts.header == nil:
		return located{}, fmt.Errorf(
			"%d bytes contain more or less than one LedgerCloseMeta of a known version", len(raw))
	}
	if err := how.check(parts); err != nil {
		return located{}, err
	}
	return parts, pair(parts.transactions, envelopes, passphrase)
}

// splitLedger parses a ledger in one pass. For malformed bytes, it panics with a *xdr.ViewError,
// like the SDK's Must functions. It returns nothing if the version is unknown or bytes are left
// over.
func splitLedger(raw []byte) (parts located, envelopes []xdr.TransactionEnvelopeView) {
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
		next[xdr.Uint64View](&rest) // size of the contracts' state
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

func next[V known](rest *[]byte) V {
	value := must(V(*rest).Raw())
	*rest = (*rest)[len(value):]
	return value
}

// applied reads an applied transaction and returns its size.
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

// pair assigns the envelopes to the transactions by hash. The envelopes are in the order of the
// set, which differs from the order of the transactions.
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
			return fmt.Errorf("%w %s of transaction %d: the ledger is damaged, or from another network "+
				"than %q", errNoEnvelope, txs[i].hexHash(), i+1, passphrase)
		}
		txs[i].envelope = envelope
	}
	return nil
}

// must panics with an *xdr.ViewError, like the SDK's Must functions. xdr.Try recovers it.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
