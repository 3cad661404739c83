package ledger

import (
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// transaction is one transaction's place in the ledger. Its parts are bytes of
// the ledger, not yet decoded; all of them are complete, unless it has a fault or
// is known to have failed.
type transaction struct {
	hash     xdr.Hash // the outer one of a fee bump
	envelope xdr.TransactionEnvelopeView
	result   xdr.TransactionResultView
	meta     xdr.TransactionMetaView
	pair     xdr.TransactionResultPairView // hash and result; nil: its end is not known
	calls    bool                          // a contract call may have succeeded in it
	rest     []byte                        // then: what begins with it
	fault    error                         // it holds a form that is not known
	failed   bool                          // so it does, but it failed

	// call is set instead of envelope for a contract call whose arguments have an unknown form. It
	// holds the part before them, which is all that payments need.
	call *body

	// emitted is set where the only operation's events were found already.
	emitted *emitted

	// fees and refunds are the changes of entries by the fee: the charges before any transaction
	// was applied, and the refunds after all. nil: there are no such changes.
	fees, refunds []byte
	partly        bool // its fees, refunds or the end of its meta are not known
}

func (t transaction) hexHash() string { return hex.EncodeToString(t.hash[:]) }

// located is a parsed ledger. Transactions are in the order in which they were applied, which is
// not the order of the envelopes.
type located struct {
	header       xdr.LedgerHeaderHistoryEntryView
	set          []byte // the transaction set
	generalized  bool   // it is of the form since protocol 20
	transactions []transaction

	// Computed hashes that a header names: of the set, and of the results if the ends of all are
	// known.
	setHash, resultsHash xdr.Hash
}

// demands are the options for parsing a ledger.
type demands struct {
	check   func(located) error // before results are matched with envelopes
	unknown bool                // it may hold forms that are not known
	proves  bool                // check refuses results that the ledger does not name
}

// believing asks nothing.
var believing = demands{check: func(located) error { return nil }, unknown: true}

// locate finds the parts of a ledger. Every byte must belong to it.
func locate(raw []byte, passphrase string, how demands) (located, error) {
	parts, envelopes, plain := scan(raw)
	var err error
	if !plain {
		err = xdr.TryVoid(func() {
			var views []xdr.TransactionEnvelopeView
			parts, views = takeApart(raw)
			envelopes = signedOf(views)
		})
	}
	if how.unknown && isUnknownForm(err) {
		return salvage(raw, passphrase, how)
	}
	if err != nil {
		return located{}, err
	}
	if parts.header == nil {
		return located{}, fmt.Errorf(
			"%d bytes hold more or less than one LedgerCloseMeta of a known version", len(raw))
	}
	parts.hash(envelopes, passphrase, how.proves)
	if err := how.check(parts); err != nil {
		return located{}, err
	}
	return parts, pair(parts.transactions, envelopes, passphrase)
}

// takeApart parses ledgers that are not plain. It panics with a *xdr.ViewError on malformed bytes,
// like the SDK's Must functions; its caller recovers it. It returns nothing if the version is
// unknown or bytes are left over.
func takeApart(raw []byte) (parts located, envelopes []xdr.TransactionEnvelopeView) {
	view := xdr.LedgerCloseMetaView(raw)
	const versionSizeBytes = 4
	switch view.MustV() {
	case 0:
		f := must(view.MustV0().Fields())
		if len(f.View)+versionSizeBytes == len(raw) {
			return located{
				header:       f.LedgerHeader,
				set:          f.TxSet,
				transactions: processed(f.TxProcessing.MustCount(), f.TxProcessing[4:], processingV0),
			}, f.TxSet.MustTxs().MustAll()
		}
	case 1:
		f := must(view.MustV1().Fields())
		if len(f.View)+versionSizeBytes == len(raw) {
			return located{
				header:       f.LedgerHeader,
				set:          f.TxSet,
				generalized:  true,
				transactions: processed(f.TxProcessing.MustCount(), f.TxProcessing[4:], processingV0),
			}, envelopesOf(f.TxSet)
		}
	case 2:
		f := must(view.MustV2().Fields())
		if len(f.View)+versionSizeBytes == len(raw) {
			return located{
				header:       f.LedgerHeader,
				set:          f.TxSet,
				generalized:  true,
				transactions: processed(f.TxProcessing.MustCount(), f.TxProcessing[4:], processingV1),
			}, envelopesOf(f.TxSet)
		}
	}
	return located{}, nil
}

// processed reads count transactions, one after another. The SDK has checked the count
// against the bytes that are there.
func processed(count int, rest []byte, next processing) []transaction {
	txs := make([]transaction, count)
	for i := range txs {
		var result xdr.TransactionResultPairView
		size := next(rest, &txs[i], &result)
		rest = rest[size:]
		tx := &txs[i]
		tx.hash, tx.result = result.MustTransactionHash().MustValue(), result.MustResult()
		tx.pair, tx.calls = result, mayCall(result)
	}
	return txs
}

// processing reads how the first transaction was processed, into tx and result, and the size of
// that.
type processing func(
	rest []byte, tx *transaction, result *xdr.TransactionResultPairView,
) (sizeBytes int)

func processingV0(rest []byte, tx *transaction, result *xdr.TransactionResultPairView) int {
	f := must(xdr.TransactionResultMetaView(rest).Fields())
	*result, tx.fees, tx.meta = f.Result, f.FeeProcessing, f.TxApplyProcessing
	return len(f.View)
}

// processingV1 is of ledgers of version 2.
func processingV1(rest []byte, tx *transaction, result *xdr.TransactionResultPairView) int {
	f := must(xdr.TransactionResultMetaV1View(rest).Fields())
	*result, tx.fees, tx.meta = f.Result, f.FeeProcessing, f.TxApplyProcessing
	tx.refunds = f.PostTxApplyFeeProcessing
	return len(f.View)
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

// signedOf finds the hashed parts of envelopes. It panics like takeApart.
func signedOf(views []xdr.TransactionEnvelopeView) []envelope {
	envelopes := make([]envelope, len(views))
	for i, view := range views {
		envelopes[i].view = view
		switch view.MustType() {
		case xdr.EnvelopeTypeEnvelopeTypeTxV0:
			envelopes[i].signed = view.MustV0().MustTx().MustRaw()
		case xdr.EnvelopeTypeEnvelopeTypeTx:
			envelopes[i].signed = view.MustV1().MustTx().MustRaw()
		case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
			envelopes[i].signed = view.MustFeeBump().MustTx().MustRaw()
		}
	}
	return envelopes
}

var errNoEnvelope = errors.New("no envelope has the hash")

// pair assigns each transaction its envelope. The envelopes are in the order that the network
// agreed on, so only the hash identifies them.
func pair(txs []transaction, envelopes []envelope, passphrase string) error {
	if len(txs) != len(envelopes) {
		return fmt.Errorf("%d transactions were applied, but %d are in the set", len(txs), len(envelopes))
	}
	byHash := make(map[xdr.Hash]int, len(envelopes))
	for i := range envelopes {
		byHash[envelopes[i].hash] = i
	}
	for i := range txs {
		envelope, found := byHash[txs[i].hash]
		if !found {
			return fmt.Errorf("%w %s of transaction %d: the ledger is damaged, or of another network "+
				"than %q", errNoEnvelope, txs[i].hexHash(), i+1, passphrase)
		}
		txs[i].envelope = envelopes[envelope].view
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
