package devnet

import (
	"crypto/ed25519"
	"errors"
	"math/bits"
	"slices"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// maxEnvelopeBytes is far more than a hundred of the largest operations need.
const maxEnvelopeBytes = 64 << 10

const txSuccess = xdr.TransactionResultCodeTxSuccess

var (
	errInvalidXDR  = errors.New("invalid_xdr")
	errInvalidHash = errors.New("invalid_hash")
)

// transaction is a submitted envelope with everything that can be computed without the ledger: its
// hashes, its accounts, and which keys have signed it.
type transaction struct {
	envelope xdr.TransactionEnvelope
	raw      []byte
	hash     xdr.Hash
	tx       *xdr.Transaction // the inner one of a fee bump
	txHash   xdr.Hash         // the hash that the inner signatures cover

	source    xdr.AccountId
	feeSource xdr.AccountId
	feeBid    int64

	signed       map[xdr.Uint256]bool // accounts whose master key signed the inner transaction
	spareSigned  bool                 // one of its signatures is superfluous
	feeSigned    map[xdr.Uint256]bool // the same for the fee bump
	feeSpareSign bool
}

// minFee returns the minimum fee. A fee bump counts as one more operation. A contract call also
// pays a resource fee, none of which is refunded here.
func (t *transaction) minFee() int64 {
	operations := int64(len(t.tx.Operations))
	if t.envelope.IsFeeBump() {
		operations++
	}
	fee := BaseFeeStroops * operations
	if data := t.tx.Ext.SorobanData; data != nil {
		fee += int64(data.ResourceFee)
	}
	return fee
}

// isContractCall reports whether the transaction is a contract call, always its only operation.
func (t *transaction) isContractCall() bool {
	return len(t.tx.Operations) == 1 &&
		t.tx.Operations[0].Body.Type == xdr.OperationTypeInvokeHostFunction
}

func (t *transaction) opSource(i int) xdr.AccountId {
	if muxed := t.tx.Operations[i].SourceAccount; muxed != nil {
		return muxed.ToAccountId()
	}
	return t.source
}

// decodeTransaction decodes a base64 envelope and checks its signatures, with the RPC's errors.
func decodeTransaction(base64XDR, passphrase string) (*transaction, error) {
	var env xdr.TransactionEnvelope
	if len(base64XDR) > maxEnvelopeBytes*4/3+4 || xdr.SafeUnmarshalBase64(base64XDR, &env) != nil {
		return nil, errInvalidXDR
	}
	return newTransaction(env, passphrase)
}

func newTransaction(env xdr.TransactionEnvelope, passphrase string) (*transaction, error) {
	t := &transaction{envelope: env}
	switch env.Type {
	case xdr.EnvelopeTypeEnvelopeTypeTx:
		t.tx = &env.V1.Tx
		t.feeSource, t.feeBid = t.tx.SourceAccount.ToAccountId(), int64(t.tx.Fee)
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		t.tx = &env.FeeBump.Tx.InnerTx.V1.Tx
		t.feeSource, t.feeBid = env.FeeBump.Tx.FeeSource.ToAccountId(), int64(env.FeeBump.Tx.Fee)
	default: // SDKs don't use the old form any more
		return nil, errInvalidXDR
	}
	t.source = t.tx.SourceAccount.ToAccountId()
	hash, err := network.HashTransactionInEnvelope(env, passphrase)
	inner, innerErr := network.HashTransaction(*t.tx, passphrase)
	if err != nil || innerErr != nil {
		return nil, errInvalidHash
	}
	t.hash, t.txHash, t.raw = hash, inner, mustEncode(env)
	needed := []xdr.AccountId{t.source}
	for i := range t.tx.Operations {
		needed = append(needed, t.opSource(i))
	}
	t.signed, t.spareSigned = signedBy(t.txHash, env.Signatures(), needed...)
	if env.IsFeeBump() {
		t.feeSigned, t.feeSpareSign = signedBy(t.hash, env.FeeBumpSignatures(), t.feeSource)
	}
	return t, nil
}

// signedBy returns the accounts that signed, and whether a signature is superfluous. Accounts have
// no signers except their master key, so this doesn't depend on the ledger.
func signedBy(
	hash xdr.Hash, signatures []xdr.DecoratedSignature, needed ...xdr.AccountId,
) (signed map[xdr.Uint256]bool, spare bool) {
	signed = map[xdr.Uint256]bool{}
	for _, s := range signatures {
		i := slices.IndexFunc(needed, func(id xdr.AccountId) bool {
			key := *id.Ed25519
			return !signed[key] && s.Hint == xdr.SignatureHint(key[28:]) &&
				len(s.Signature) == ed25519.SignatureSize && ed25519.Verify(key[:], hash[:], s.Signature)
		})
		if i < 0 {
			spare = true
			continue
		}
		signed[*needed[i].Ed25519] = true
	}
	return signed, spare
}

// pending contains what else is needed to check a transaction: the next ledger and the queue.
type pending struct {
	sequence  uint32             // of the next ledger
	closeTime int64              // of the next ledger, as far as known
	seqNums   map[entryKey]int64 // last sequence number in the queue, by source account
	feeBids   map[entryKey]int64 // total fees bid in the queue, by paying account
}

func newPending(sequence uint32, closeTime int64) *pending {
	return &pending{sequence, closeTime, map[entryKey]int64{}, map[entryKey]int64{}}
}

func (p *pending) admit(t *transaction) {
	p.seqNums[accountKey(t.source)] = int64(t.tx.SeqNum)
	p.feeBids[accountKey(t.feeSource)] += t.feeBid
}

// check returns nil if a transaction may enter the queue, or else its result. It checks in the real
// network's order, so that a transaction with several problems gets the same code: for a fee bump,
// first the outer transaction and then the inner one without its fee.
func (t *transaction) check(s state, p *pending) *xdr.TransactionResult {
	if t.envelope.IsFeeBump() {
		if code := t.checkFeeBump(s, p); code != txSuccess {
			r := t.result(code, nil, t.minFee())
			return &r
		}
	}
	code, results := t.checkInner(s, p)
	if code == txSuccess {
		return nil
	}
	r := t.innerResult(code, results, t.minFee())
	return &r
}

func (t *transaction) checkInner(
	s state, p *pending,
) (xdr.TransactionResultCode, []xdr.OperationResult) {
	paysFee := !t.envelope.IsFeeBump()
	if code := t.checkBounds(p); code != txSuccess {
		return code, nil
	}
	if paysFee && t.feeBid < t.minFee() {
		return xdr.TransactionResultCodeTxInsufficientFee, nil
	}
	if code := t.checkSource(s, p); code != txSuccess {
		return code, nil
	}
	if paysFee && !t.canPayFee(s, p) {
		return xdr.TransactionResultCodeTxInsufficientBalance, nil
	}
	return t.checkOperations(s)
}

func (t *transaction) checkFeeBump(s state, p *pending) xdr.TransactionResultCode {
	switch {
	case t.feeBid < t.minFee() || t.outbid():
		return xdr.TransactionResultCodeTxInsufficientFee
	case account(s, t.feeSource) == nil:
		return xdr.TransactionResultCodeTxNoAccount
	case !t.feeSigned[*t.feeSource.Ed25519]:
		return xdr.TransactionResultCodeTxBadAuth
	case !t.canPayFee(s, p):
		return xdr.TransactionResultCodeTxInsufficientBalance
	case t.feeSpareSign:
		return xdr.TransactionResultCodeTxBadAuthExtra
	}
	return txSuccess
}

// outbid reports whether the inner transaction's fee per operation is higher than the fee bump's.
func (t *transaction) outbid() bool {
	inner := int64(len(t.tx.Operations))
	outerHigh, outerLow := bits.Mul64(uint64(t.feeBid), uint64(inner))
	innerHigh, innerLow := bits.Mul64(uint64(t.tx.Fee), uint64(inner+1))
	return outerHigh < innerHigh || outerHigh == innerHigh && outerLow < innerLow
}

func (t *transaction) checkBounds(p *pending) xdr.TransactionResultCode {
	env := &t.envelope
	age, gap := env.MinSeqAge(), env.MinSeqLedgerGap()
	switch {
	case len(t.tx.Operations) == 0:
		return xdr.TransactionResultCodeTxMissingOperation
	case !t.validSoroban():
		return xdr.TransactionResultCodeTxSorobanInvalid
	case env.MinSeqNum() != nil, len(env.ExtraSigners()) > 0, age != nil && *age != 0,
		gap != nil && *gap != 0:
		return xdr.TransactionResultCodeTxNotSupported
	}
	if b := env.TimeBounds(); b != nil {
		if int64(b.MinTime) > p.closeTime {
			return xdr.TransactionResultCodeTxTooEarly
		}
		if b.MaxTime != 0 && int64(b.MaxTime) < p.closeTime {
			return xdr.TransactionResultCodeTxTooLate
		}
	}
	if b := env.LedgerBounds(); b != nil {
		if uint32(b.MinLedger) > p.sequence {
			return xdr.TransactionResultCodeTxTooEarly
		}
		if b.MaxLedger != 0 && uint32(b.MaxLedger) <= p.sequence {
			return xdr.TransactionResultCodeTxTooLate
		}
	}
	return txSuccess
}

// validSoroban checks that contract calls are alone, and that they and no others declare resources.
func (t *transaction) validSoroban() bool {
	if t.isContractCall() {
		data := t.tx.Ext.SorobanData
		return data != nil && data.ResourceFee >= 0 && data.ResourceFee < 1<<40
	}
	return t.tx.Ext.V == 0 && !slices.ContainsFunc(t.tx.Operations, func(op xdr.Operation) bool {
		return op.Body.Type == xdr.OperationTypeInvokeHostFunction
	})
}

func (t *transaction) checkSource(s state, p *pending) xdr.TransactionResultCode {
	source := account(s, t.source)
	if source == nil {
		return xdr.TransactionResultCodeTxNoAccount
	}
	last, queued := p.seqNums[accountKey(t.source)]
	if !queued {
		last = int64(source.SeqNum)
	}
	switch {
	case int64(t.tx.SeqNum)-1 != last:
		return xdr.TransactionResultCodeTxBadSeq
	case !t.signed[*t.source.Ed25519]:
		return xdr.TransactionResultCodeTxBadAuth
	}
	return txSuccess
}

func (t *transaction) canPayFee(s state, p *pending) bool {
	payer := account(s, t.feeSource)
	return payer != nil && available(payer)-p.feeBids[accountKey(t.feeSource)] >= t.feeBid
}

// checkOperations checks each operation on its own, and then for superfluous signatures.
func (t *transaction) checkOperations(
	s state,
) (code xdr.TransactionResultCode, results []xdr.OperationResult) {
	for i, op := range t.tx.Operations {
		refused := t.checkOperation(s, i)
		if refused.ok() {
			continue
		}
		for _, other := range t.tx.Operations {
			results = append(results, notAsked(other.Body.Type))
		}
		results[i] = refused.result(op.Body.Type)
		return xdr.TransactionResultCodeTxFailed, results
	}
	if t.spareSigned {
		return xdr.TransactionResultCodeTxBadAuthExtra, nil
	}
	return txSuccess, nil
}

// checkOperation accepts a missing source if its key signed: an earlier operation may create it.
func (t *transaction) checkOperation(s state, i int) outcome {
	body, source := t.tx.Operations[i].Body, t.opSource(i)
	kind, known := operations[body.Type]
	switch {
	case !known:
		return notSupported
	case t.signed[*source.Ed25519]:
		return kind.check(source, body)
	case account(s, source) == nil:
		return general(xdr.OperationResultCodeOpNoAccount)
	}
	return general(xdr.OperationResultCodeOpBadAuth)
}

func (t *transaction) result(
	code xdr.TransactionResultCode, results []xdr.OperationResult, fee int64,
) xdr.TransactionResult {
	r := xdr.TransactionResult{FeeCharged: xdr.Int64(fee)}
	r.Result.Code = code
	if code == txSuccess || code == xdr.TransactionResultCodeTxFailed {
		r.Result.Results = &results
	}
	return r
}

// innerResult returns the result of the inner transaction, if it is a fee bump.
func (t *transaction) innerResult(
	code xdr.TransactionResultCode, results []xdr.OperationResult, fee int64,
) xdr.TransactionResult {
	r := t.result(code, results, fee)
	if !t.envelope.IsFeeBump() {
		return r
	}
	pair := &xdr.InnerTransactionResultPair{TransactionHash: t.txHash}
	pair.Result.Result.Code, pair.Result.Result.Results = code, r.Result.Results
	outer := xdr.TransactionResultCodeTxFeeBumpInnerFailed
	if code == txSuccess {
		outer = xdr.TransactionResultCodeTxFeeBumpInnerSuccess
	}
	r.Result = xdr.TransactionResultResult{Code: outer, InnerResultPair: pair}
	return r
}
