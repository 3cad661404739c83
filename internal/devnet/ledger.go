package devnet

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"slices"

	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/xdr"
)

type closedLedger struct {
	record       ledgerRecord
	header       xdr.LedgerHeaderHistoryEntry
	changed      map[entryKey]*xdr.LedgerEntry // nil: deleted
	transactions []protocol.TransactionInfo
}

type applied struct {
	*transaction
	fee        int64
	feeChanges xdr.LedgerEntryChanges
	success    bool
	result     xdr.TransactionResult
	meta       xdr.TransactionMetaV4
}

// buildLedger applies the transactions in order to build the ledger after prev. Like the real
// network, it leaves out those that have become invalid since they were admitted, at no cost.
func buildLedger(
	base entries, c *closing, prev xdr.LedgerHeaderHistoryEntry, queue []*transaction,
) *closedLedger {
	top := newLayer(base, c)
	txs := stillValid(base, queue, newPending(c.sequence, c.closeTime))
	fees := chargeFees(top, txs)
	for _, tx := range txs {
		tx.apply(top)
	}
	meta := closeMeta(prev, txs, fees, top)
	l := &closedLedger{header: meta.V2.LedgerHeader, changed: top.rows}
	l.record = ledgerRecord{LedgerInfo: protocol.LedgerInfo{
		Hash:            l.header.Hash.HexString(),
		Sequence:        c.sequence,
		LedgerCloseTime: c.closeTime,
		LedgerHeader:    base64XDR(l.header),
		LedgerMetadata:  base64XDR(meta),
	}}
	for i, tx := range txs {
		info := tx.info(i+1, c)
		l.transactions = append(l.transactions, info)
		l.record.Transactions = append(l.record.Transactions, info.TransactionHash)
	}
	return l
}

// stillValid repeats the checks of the transactions, now that the close time is known.
func stillValid(s state, queue []*transaction, p *pending) []*applied {
	out := make([]*applied, 0, len(queue))
	for _, tx := range queue {
		if tx.check(s, p) == nil {
			p.admit(tx)
			out = append(out, &applied{transaction: tx})
		}
	}
	return out
}

// chargeFees charges all fees before any transaction is applied, as readers of the meta expect.
func chargeFees(top *layer, txs []*applied) (total int64) {
	for _, tx := range txs {
		l := top.over()
		tx.fee = tx.minFee()
		l.editAccount(tx.feeSource).Balance -= xdr.Int64(tx.fee)
		tx.feeChanges = l.changes()
		l.mergeInto(top)
		total += tx.fee
	}
	return total
}

// apply uses the sequence number and then applies all operations, or none if one fails.
func (tx *applied) apply(top *layer) {
	if code := tx.overtaken(top); code != txSuccess {
		tx.result = tx.innerResult(code, nil, tx.fee)
		return
	}
	before := top.over()
	before.bumpSequence(tx.source, tx.tx.SeqNum)
	tx.meta.TxChangesBefore = before.changes()
	before.mergeInto(top)

	tx.success = true
	all := top.over()
	results := make([]xdr.OperationResult, len(tx.tx.Operations))
	metas := make([]xdr.OperationMetaV2, len(tx.tx.Operations))
	for i, op := range tx.tx.Operations {
		one := all.over()
		o := tx.applyOperation(one, i)
		results[i] = o.result(op.Body.Type)
		if !o.ok() {
			tx.success = false
			continue // like the real network, to get a result for each operation
		}
		metas[i].Changes, metas[i].Events = one.changes(), one.events
		one.mergeInto(all)
	}
	code := xdr.TransactionResultCodeTxFailed
	if tx.success {
		code = txSuccess
		tx.meta.Operations = metas
		if tx.isContractCall() {
			tx.meta.SorobanMeta = &xdr.SorobanTransactionMetaV2{ReturnValue: &nothing}
		}
		all.mergeInto(top)
	}
	tx.result = tx.innerResult(code, results, tx.fee)
}

func (tx *applied) applyOperation(l *layer, i int) outcome {
	source, body := tx.opSource(i), tx.tx.Operations[i].Body
	if account(l, source) == nil {
		return general(xdr.OperationResultCodeOpNoAccount)
	}
	l.operation = xdr.HashIdPreimageOperationId{
		SourceAccount: tx.source,
		SeqNum:        tx.tx.SeqNum,
		OpNum:         xdr.Uint32(i),
	}
	return operations[body.Type].apply(l, source, body)
}

// overtaken returns an error code if an earlier transaction in the same ledger has merged the
// account, and maybe created it again. The transaction then fails, but pays its fee.
func (tx *applied) overtaken(top *layer) xdr.TransactionResultCode {
	source := account(top, tx.source)
	switch {
	case source == nil:
		return xdr.TransactionResultCodeTxNoAccount
	case source.SeqNum+1 != tx.tx.SeqNum:
		return xdr.TransactionResultCodeTxBadSeq
	}
	return txSuccess
}

func closeMeta(
	prev xdr.LedgerHeaderHistoryEntry, txs []*applied, fees int64, top *layer,
) xdr.LedgerCloseMeta {
	set := transactionSet(prev.Hash, txs)
	var results xdr.TransactionResultSet
	processing := make([]xdr.TransactionResultMetaV1, len(txs))
	for i, tx := range txs {
		pair := xdr.TransactionResultPair{TransactionHash: tx.hash, Result: tx.result}
		results.Results = append(results.Results, pair)
		processing[i] = xdr.TransactionResultMetaV1{
			Result:            pair,
			FeeProcessing:     tx.feeChanges,
			TxApplyProcessing: xdr.TransactionMeta{V: 4, V4: &tx.meta},
		}
	}
	header := prev.Header
	header.LedgerSeq++
	header.PreviousLedgerHash = prev.Hash
	header.FeePool += xdr.Int64(fees)
	header.ScpValue = xdr.StellarValue{
		TxSetHash: hashOf(set),
		CloseTime: xdr.TimePoint(top.closeTime),
	}
	header.TxSetResultHash = hashOf(results)
	header.BucketListHash = chainState(prev.Header.BucketListHash, top.changes())
	entry := xdr.LedgerHeaderHistoryEntry{Hash: hashOf(header), Header: header}
	return xdr.LedgerCloseMeta{
		V:  2,
		V2: &xdr.LedgerCloseMetaV2{LedgerHeader: entry, TxSet: set, TxProcessing: processing},
	}
}

// transactionSet returns a generalized transaction set: a classic phase with one component at the
// base fee, and a contract phase with one stage whose clusters have one transaction each.
func transactionSet(prev xdr.Hash, txs []*applied) xdr.GeneralizedTransactionSet {
	baseFee := xdr.Int64(BaseFeeStroops)
	var classic []xdr.TransactionEnvelope
	var stage xdr.ParallelTxExecutionStage
	for _, tx := range inSetOrder(txs) {
		if tx.isContractCall() {
			stage = append(stage, xdr.DependentTxCluster{tx.envelope})
		} else {
			classic = append(classic, tx.envelope)
		}
	}
	components := []xdr.TxSetComponent{}
	if len(classic) > 0 {
		components = append(components, xdr.TxSetComponent{
			TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{
				BaseFee: &baseFee,
				Txs:     classic,
			},
		})
	}
	parallel := &xdr.ParallelTxsComponent{BaseFee: &baseFee}
	if len(stage) > 0 {
		parallel.ExecutionStages = []xdr.ParallelTxExecutionStage{stage}
	}
	return xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{
		PreviousLedgerHash: prev,
		Phases: []xdr.TransactionPhase{
			{V: 0, V0Components: &components}, {V: 1, ParallelTxsComponent: parallel},
		},
	}}
}

// inSetOrder sorts transactions by the hash of the envelope, as required in a transaction set.
// Results are in the order in which the transactions were applied.
func inSetOrder(txs []*applied) []*applied {
	hashes := make(map[*applied][sha256.Size]byte, len(txs))
	for _, tx := range txs {
		hashes[tx] = sha256.Sum256(tx.raw)
	}
	return slices.SortedFunc(maps.Keys(hashes), func(a, b *applied) int {
		x, y := hashes[a], hashes[b]
		return bytes.Compare(x[:], y[:])
	})
}

// chainState replaces the hash of the bucket list. It chains the changes of the state, so that
// folders with the same header hash have the same state.
func chainState(prev xdr.Hash, changes xdr.LedgerEntryChanges) xdr.Hash {
	return sha256.Sum256(append(prev[:], mustEncode(changes)...))
}

func (tx *applied) info(order int, c *closing) protocol.TransactionInfo {
	d := protocol.TransactionDetails{
		Status:           protocol.TransactionStatusFailed,
		TransactionHash:  tx.hash.HexString(),
		ApplicationOrder: int32(order),
		FeeBump:          tx.envelope.IsFeeBump(),
		Ledger:           c.sequence,
		EnvelopeXDR:      base64.StdEncoding.EncodeToString(tx.raw),
		ResultXDR:        base64XDR(tx.result),
		ResultMetaXDR:    base64XDR(xdr.TransactionMeta{V: 4, V4: &tx.meta}),
	}
	if tx.success {
		d.Status = protocol.TransactionStatusSuccess
	}
	for _, operation := range tx.meta.Operations {
		texts := []string{}
		for _, event := range operation.Events {
			texts = append(texts, base64XDR(event))
		}
		d.Events.ContractEventsXDR = append(d.Events.ContractEventsXDR, texts)
	}
	return protocol.TransactionInfo{TransactionDetails: d, LedgerCloseTime: c.closeTime}
}

func base64XDR(v encodable) string {
	return base64.StdEncoding.EncodeToString(mustEncode(v))
}
