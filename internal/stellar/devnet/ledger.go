package devnet

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// closedLedger is a ledger ready to be written: what readers get and what the state becomes.
type closedLedger struct {
	sequence     uint32
	closeTime    int64
	header       xdr.LedgerHeaderHistoryEntry
	meta         []byte              // LedgerCloseMeta
	entries      map[entryKey][]byte // rows of the state after it; nil: deleted
	transactions []*txRecord
}

// applied is a transaction with what it did.
type applied struct {
	*transaction
	fee        int64
	feeChanges xdr.LedgerEntryChanges
	success    bool
	result     xdr.TransactionResult
	meta       xdr.TransactionMetaV4
}

// buildLedger makes the ledger after prev from the transactions in the order given. Those that
// ceased to be valid since they were admitted are left out, as on the network: they are in no
// ledger and cost nothing.
func buildLedger(
	base ground, known rules, prev xdr.LedgerHeaderHistoryEntry, queue []*transaction, closeTime int64,
) (*closedLedger, error) {
	sequence := uint32(prev.Header.LedgerSeq) + 1
	top := newLayer(base, sequence)
	top.cache, top.rules, top.closeTime = true, known, closeTime
	top.book, top.lastOffer = &book{base: base}, uint64(prev.Header.IdPool)
	txs := stillValid(top, queue, newPending(sequence, closeTime))
	fees := chargeFees(top, txs)
	for _, tx := range txs {
		tx.apply(top, closeTime)
	}
	entries, err := encodeRows(top)
	if err != nil {
		return nil, err
	}
	meta, err := closeMeta(prev, txs, closeTime, fees, entries, top.lastOffer)
	if err != nil {
		return nil, err
	}
	l := &closedLedger{
		sequence:  sequence,
		closeTime: closeTime,
		header:    meta.V2.LedgerHeader,
		entries:   entries,
	}
	if l.meta, err = meta.MarshalBinary(); err != nil {
		return nil, fmt.Errorf("encode ledger %d: %w", sequence, err)
	}
	l.transactions, err = records(l, txs)
	return l, err
}

// stillValid asks the admission's questions again, now that the close time is known.
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

// chargeFees takes every transaction's fee before any of them is applied, as readers of the
// meta expect.
func chargeFees(top *layer, txs []*applied) (total int64) {
	for _, tx := range txs {
		l := newLayer(top, top.sequence)
		tx.fee = tx.minFee() + tx.resourceFee()
		l.editAccount(tx.feeSource).Balance -= xdr.Int64(tx.fee)
		tx.feeChanges = l.changes()
		l.mergeInto(top)
		total += tx.fee
	}
	return total
}

// apply uses the sequence number, then runs the operations: all of them, or none when one fails.
func (tx *applied) apply(top *layer, closeTime int64) {
	if code := tx.overtaken(top); code != xdr.TransactionResultCodeTxSuccess {
		tx.result = tx.innerResult(code, nil, tx.fee)
		return
	}
	before := newLayer(top, top.sequence)
	before.bumpSequence(tx.source, int64(tx.tx.SeqNum), closeTime)
	tx.meta.TxChangesBefore = before.changes()
	before.mergeInto(top)

	tx.success = true
	all := newLayer(top, top.sequence)
	results := make([]xdr.OperationResult, len(tx.tx.Operations))
	metas := make([]xdr.OperationMetaV2, len(tx.tx.Operations))
	for i := range tx.tx.Operations {
		one := newLayer(all, top.sequence)
		result, ok := tx.applyOperation(one, i)
		results[i] = result
		if !ok {
			tx.success = false
			continue // the network goes on too, to tell the result of each operation
		}
		metas[i].Changes, metas[i].Events = one.changes(), one.events
		one.mergeInto(all)
	}
	code := xdr.TransactionResultCodeTxFailed
	if tx.success {
		code = xdr.TransactionResultCodeTxSuccess
		tx.meta.Operations = metas
		if tx.isContractCall() {
			tx.meta.SorobanMeta = &xdr.SorobanTransactionMetaV2{ReturnValue: &nothing}
		}
		all.mergeInto(top)
	}
	tx.result = tx.innerResult(code, results, tx.fee)
}

func (tx *applied) applyOperation(l *layer, i int) (xdr.OperationResult, bool) {
	source, body := tx.opSource(i), tx.tx.Operations[i].Body
	if account(l, source) == nil {
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpNoAccount}, false
	}
	l.operation = xdr.HashIdPreimageOperationId{
		SourceAccount: tx.source,
		SeqNum:        tx.tx.SeqNum,
		OpNum:         xdr.Uint32(i),
	}
	return operations[body.Type].apply(l, source, body)
}

// overtaken asks whether a transaction before this one, in the same ledger, merged its account
// away or made it anew. It has paid its fee, and fails.
func (tx *applied) overtaken(top *layer) xdr.TransactionResultCode {
	source := account(top, tx.source)
	switch {
	case source == nil:
		return xdr.TransactionResultCodeTxNoAccount
	case source.SeqNum+1 != tx.tx.SeqNum:
		return xdr.TransactionResultCodeTxBadSeq
	}
	return xdr.TransactionResultCodeTxSuccess
}

func encodeRows(l *layer) (map[entryKey][]byte, error) {
	out := make(map[entryKey][]byte, len(l.rows))
	for key, row := range l.rows {
		if row == nil {
			out[key] = nil
			continue
		}
		raw, err := row.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("encode a ledger entry: %w", err)
		}
		out[key] = raw
	}
	return out, nil
}

// closeMeta puts the ledger together: transaction set, results and the header whose hash covers
// them all.
func closeMeta(
	prev xdr.LedgerHeaderHistoryEntry, txs []*applied, closeTime, fees int64,
	entries map[entryKey][]byte, lastOffer uint64,
) (xdr.LedgerCloseMeta, error) {
	set := transactionSet(prev.Hash, txs)
	rawSet, err := set.MarshalBinary()
	if err != nil {
		return xdr.LedgerCloseMeta{}, fmt.Errorf("encode the transaction set: %w", err)
	}
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
	rawResults, err := results.MarshalBinary()
	if err != nil {
		return xdr.LedgerCloseMeta{}, fmt.Errorf("encode the transaction results: %w", err)
	}
	header := prev.Header
	header.LedgerSeq++
	header.PreviousLedgerHash = prev.Hash
	header.FeePool += xdr.Int64(fees)
	header.IdPool = xdr.Uint64(lastOffer)
	header.ScpValue = xdr.StellarValue{
		TxSetHash: sha256.Sum256(rawSet),
		CloseTime: xdr.TimePoint(closeTime),
	}
	header.TxSetResultHash = sha256.Sum256(rawResults)
	header.BucketListHash = chainState(prev.Header.BucketListHash, entries)
	entry, err := hashHeader(header)
	if err != nil {
		return xdr.LedgerCloseMeta{}, err
	}
	return xdr.LedgerCloseMeta{
		V:  2,
		V2: &xdr.LedgerCloseMetaV2{LedgerHeader: entry, TxSet: set, TxProcessing: processing},
	}, nil
}

// transactionSet is the generalized form: a classic phase of one component at the base fee, and
// a smart contract phase of one stage whose clusters have one transaction each.
func transactionSet(prev xdr.Hash, all []*applied) xdr.GeneralizedTransactionSet {
	baseFee := xdr.Int64(BaseFeeStroops)
	var txs, calls []*applied
	for _, tx := range all {
		if tx.isContractCall() {
			calls = append(calls, tx)
		} else {
			txs = append(txs, tx)
		}
	}
	stages := []xdr.ParallelTxExecutionStage{}
	for _, call := range inSetOrder(calls) {
		if len(stages) == 0 {
			stages = append(stages, xdr.ParallelTxExecutionStage{})
		}
		stages[0] = append(stages[0], xdr.DependentTxCluster{call})
	}
	classic := []xdr.TxSetComponent{}
	if len(txs) > 0 {
		classic = append(classic, xdr.TxSetComponent{
			Type: xdr.TxSetComponentTypeTxsetCompTxsMaybeDiscountedFee,
			TxsMaybeDiscountedFee: &xdr.TxSetComponentTxsMaybeDiscountedFee{
				BaseFee: &baseFee,
				Txs:     inSetOrder(txs),
			},
		})
	}
	return xdr.GeneralizedTransactionSet{V: 1, V1TxSet: &xdr.TransactionSetV1{
		PreviousLedgerHash: prev,
		Phases: []xdr.TransactionPhase{
			{V: 0, V0Components: &classic},
			{
				V:                    1,
				ParallelTxsComponent: &xdr.ParallelTxsComponent{BaseFee: &baseFee, ExecutionStages: stages},
			},
		},
	}}
}

// inSetOrder sorts by the hash of the whole envelope, as a transaction set must be; the order
// in which they were applied is that of the results.
func inSetOrder(txs []*applied) []xdr.TransactionEnvelope {
	type hashed struct {
		hash [32]byte
		env  xdr.TransactionEnvelope
	}
	sorted := make([]hashed, len(txs))
	for i, tx := range txs {
		sorted[i] = hashed{sha256.Sum256(tx.raw), tx.envelope}
	}
	slices.SortFunc(sorted, func(a, b hashed) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	out := make([]xdr.TransactionEnvelope, len(txs))
	for i := range sorted {
		out[i] = sorted[i].env
	}
	return out
}

// chainState stands in the header where the network has the hash of its bucket list: it chains
// the changes of the state, so that two folders with the same header hash hold the same state.
func chainState(prev xdr.Hash, entries map[entryKey][]byte) xdr.Hash {
	keys := make([]string, 0, len(entries))
	for key := range entries {
		keys = append(keys, string(key))
	}
	sort.Strings(keys)
	h := sha256.New()
	h.Write(prev[:])
	for _, key := range keys {
		value := entries[entryKey(key)]
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(key))))
		h.Write([]byte(key))
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(value))))
		h.Write(value)
	}
	return xdr.Hash(h.Sum(nil))
}

func hashHeader(header xdr.LedgerHeader) (xdr.LedgerHeaderHistoryEntry, error) {
	raw, err := header.MarshalBinary()
	if err != nil {
		return xdr.LedgerHeaderHistoryEntry{}, fmt.Errorf("encode the header of ledger %d: %w",
			header.LedgerSeq, err)
	}
	return xdr.LedgerHeaderHistoryEntry{Hash: sha256.Sum256(raw), Header: header}, nil
}

func records(l *closedLedger, txs []*applied) ([]*txRecord, error) {
	out := make([]*txRecord, len(txs))
	for i, tx := range txs {
		result, err := tx.result.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("encode the result of transaction %x: %w", tx.hash, err)
		}
		meta, err := xdr.TransactionMeta{V: 4, V4: &tx.meta}.MarshalBinary()
		if err != nil {
			return nil, fmt.Errorf("encode the meta of transaction %x: %w", tx.hash, err)
		}
		out[i] = &txRecord{
			hash:      tx.hash,
			ledger:    l.sequence,
			order:     uint32(i) + 1,
			closeTime: l.closeTime,
			success:   tx.success,
			feeBump:   tx.isFeeBump(),
			envelope:  tx.raw,
			result:    result,
			meta:      meta,
		}
	}
	return out, nil
}
