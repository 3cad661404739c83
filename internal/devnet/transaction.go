package devnet

import (
	"crypto/ed25519"
	"errors"
	"math/bits"
	"slices"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// maxEnvelopeBytes bounds one transaction: a hundred of the largest operations are well below.
const maxEnvelopeBytes = 64 << 10

var (
	errInvalidXDR  = errors.New("invalid_xdr")
	errInvalidHash = errors.New("invalid_hash")
)

// transaction is a submitted envelope with everything about it that needs no ledger: hashes,
// accounts and which keys signed it.
type transaction struct {
	envelope xdr.TransactionEnvelope
	raw      []byte
	hash     xdr.Hash
	tx       *xdr.Transaction // the inner one of a fee bump
	txHash   xdr.Hash         // the hash that the inner signatures cover

	source    xdr.AccountId
	feeSource xdr.AccountId
	feeBid    int64

	opSigned       []bool // for each operation: its source's master key signed
	sourceSigned   bool
	feeSigned      bool // the fee bump's source signed it
	spareSignature bool // a signature of the inner transaction is not needed
	spareFeeSign   bool // the same for the fee bump's own
}

// minFee counts a fee bump as one more operation. A contract call also pays a resource fee;
// nothing of it is returned here.
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

// isContractCall reports whether it belongs to the smart contract phase: such an operation is
// always alone.
func (t *transaction) isContractCall() bool {
	return len(t.tx.Operations) == 1 &&
		t.tx.Operations[0].Body.Type == xdr.OperationTypeInvokeHostFunction
}

// opSource is the account that an operation acts for.
func (t *transaction) opSource(i int) xdr.AccountId {
	if muxed := t.tx.Operations[i].SourceAccount; muxed != nil {
		return muxed.ToAccountId()
	}
	return t.source
}

// decodeTransaction reads a base64 envelope and checks its signatures. Its errors are those of
// the RPC.
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
	default: // no SDK builds the old form any more
		return nil, errInvalidXDR
	}
	t.source = t.tx.SourceAccount.ToAccountId()
	hash, err := network.HashTransactionInEnvelope(env, passphrase)
	inner, innerErr := network.HashTransaction(*t.tx, passphrase)
	if err != nil || innerErr != nil {
		return nil, errInvalidHash
	}
	t.hash, t.txHash, t.raw = hash, inner, mustEncode(env)
	t.checkSignatures()
	return t, nil
}

// checkSignatures finds out which accounts signed and whether a signature is left over.
// Accounts here have their master key and no other signer, so the ledger has no say in it.
func (t *transaction) checkSignatures() {
	inner := signatureSet{hash: t.txHash, signatures: t.envelope.Signatures()}
	t.sourceSigned = inner.signedBy(t.source)
	t.opSigned = make([]bool, len(t.tx.Operations))
	for i := range t.opSigned {
		t.opSigned[i] = inner.signedBy(t.opSource(i))
	}
	t.spareSignature = inner.spare()
	t.feeSigned = true
	if t.envelope.IsFeeBump() {
		outer := signatureSet{hash: t.hash, signatures: t.envelope.FeeBumpSignatures()}
		t.feeSigned = outer.signedBy(t.feeSource)
		t.spareFeeSign = outer.spare()
	}
}

// signatureSet remembers which of at most 20 signatures were needed.
type signatureSet struct {
	hash       xdr.Hash
	signatures []xdr.DecoratedSignature
	used       [20]bool
	known      map[xdr.Uint256]bool
}

func (s *signatureSet) signedBy(id xdr.AccountId) bool {
	key := *id.Ed25519
	if answer, ok := s.known[key]; ok {
		return answer
	}
	i := slices.IndexFunc(s.signatures, func(d xdr.DecoratedSignature) bool {
		return d.Hint == xdr.SignatureHint(key[28:]) && len(d.Signature) == ed25519.SignatureSize &&
			ed25519.Verify(key[:], s.hash[:], d.Signature)
	})
	if i >= 0 {
		s.used[i] = true
	}
	if s.known == nil {
		s.known = map[xdr.Uint256]bool{}
	}
	s.known[key] = i >= 0
	return i >= 0
}

func (s *signatureSet) spare() bool {
	return slices.Contains(s.used[:len(s.signatures)], false)
}

// pending is what the check of a transaction needs to know besides the state: the ledger it may
// get into and the queue before it.
type pending struct {
	sequence  uint32             // of the next ledger
	closeTime int64              // of the next ledger, as far as it is known
	seqNums   map[entryKey]int64 // last sequence number in the queue, by source
	feeBids   map[entryKey]int64 // sum of the fees bid in the queue, by the account that pays
}

func newPending(sequence uint32, closeTime int64) *pending {
	return &pending{sequence, closeTime, map[entryKey]int64{}, map[entryKey]int64{}}
}

// admit counts a transaction that passed its check.
func (p *pending) admit(t *transaction) {
	p.seqNums[accountKey(t.source)] = int64(t.tx.SeqNum)
	p.feeBids[accountKey(t.feeSource)] += t.feeBid
}

// check decides whether a transaction may enter the queue; nil says yes. It asks in the order of
// the network, so that a transaction with several faults is refused with the same code. Of a fee
// bump it asks about the outer transaction first, then about the inner one without its fee.
func (t *transaction) check(s state, p *pending) *xdr.TransactionResult {
	bump := t.envelope.IsFeeBump()
	if bump {
		if code := t.checkFeeBump(s, p); code != xdr.TransactionResultCodeTxSuccess {
			r := t.result(code, nil, t.minFee())
			return &r
		}
	}
	code := t.checkBounds(p)
	if code == xdr.TransactionResultCodeTxSuccess && !bump && t.feeBid < t.minFee() {
		code = xdr.TransactionResultCodeTxInsufficientFee
	}
	if code == xdr.TransactionResultCodeTxSuccess {
		code = t.checkSource(s, p)
	}
	if code == xdr.TransactionResultCodeTxSuccess && !bump && !t.canPayFee(s, p) {
		code = xdr.TransactionResultCodeTxInsufficientBalance
	}
	var results []xdr.OperationResult
	if code == xdr.TransactionResultCodeTxSuccess {
		code, results = t.checkOperations(s)
	}
	if code == xdr.TransactionResultCodeTxSuccess {
		return nil
	}
	r := t.innerResult(code, results, t.minFee())
	return &r
}

func (t *transaction) checkFeeBump(s state, p *pending) xdr.TransactionResultCode {
	switch {
	case t.feeBid < t.minFee() || t.outbid():
		return xdr.TransactionResultCodeTxInsufficientFee
	case account(s, t.feeSource) == nil:
		return xdr.TransactionResultCodeTxNoAccount
	case !t.feeSigned:
		return xdr.TransactionResultCodeTxBadAuth
	case !t.canPayFee(s, p):
		return xdr.TransactionResultCodeTxInsufficientBalance
	case t.spareFeeSign:
		return xdr.TransactionResultCodeTxBadAuthExtra
	}
	return xdr.TransactionResultCodeTxSuccess
}

// outbid reports whether the inner transaction offers more per operation than the fee bump does.
func (t *transaction) outbid() bool {
	inner := int64(len(t.tx.Operations))
	outerHigh, outerLow := bits.Mul64(uint64(t.feeBid), uint64(inner))
	innerHigh, innerLow := bits.Mul64(uint64(t.tx.Fee), uint64(inner+1))
	return outerHigh < innerHigh || outerHigh == innerHigh && outerLow < innerLow
}

// checkBounds asks what depends on the transaction and the next ledger only.
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
	return xdr.TransactionResultCodeTxSuccess
}

// validSoroban checks that contract calls are alone, and that they and only they say what they use.
func (t *transaction) validSoroban() bool {
	if t.isContractCall() {
		data := t.tx.Ext.SorobanData
		return data != nil && data.ResourceFee >= 0 && data.ResourceFee < 1<<40
	}
	return t.tx.Ext.V == 0 && !slices.ContainsFunc(t.tx.Operations, func(op xdr.Operation) bool {
		return op.Body.Type == xdr.OperationTypeInvokeHostFunction
	})
}

// checkSource asks about the account whose sequence number is used.
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
	case !t.sourceSigned:
		return xdr.TransactionResultCodeTxBadAuth
	}
	return xdr.TransactionResultCodeTxSuccess
}

func (t *transaction) canPayFee(s state, p *pending) bool {
	payer := account(s, t.feeSource)
	return payer != nil && available(payer)-p.feeBids[accountKey(t.feeSource)] >= t.feeBid
}

// checkOperations asks about the operations, each on its own, and then about spare signatures.
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
	if t.spareSignature {
		return xdr.TransactionResultCodeTxBadAuthExtra, nil
	}
	return xdr.TransactionResultCodeTxSuccess, nil
}

// checkOperation lets a source pass that does not exist yet, if its key signed: an operation before
// may create it.
func (t *transaction) checkOperation(s state, i int) outcome {
	body := t.tx.Operations[i].Body
	kind, known := operations[body.Type]
	switch {
	case !known:
		return notSupported
	case t.opSigned[i]:
		return kind.check(t.opSource(i), body)
	case account(s, t.opSource(i)) == nil:
		return general(xdr.OperationResultCodeOpNoAccount)
	}
	return general(xdr.OperationResultCodeOpBadAuth)
}

func (t *transaction) result(
	code xdr.TransactionResultCode, results []xdr.OperationResult, fee int64,
) xdr.TransactionResult {
	r := xdr.TransactionResult{FeeCharged: xdr.Int64(fee)}
	r.Result.Code = code
	if code == xdr.TransactionResultCodeTxSuccess || code == xdr.TransactionResultCodeTxFailed {
		r.Result.Results = &results
	}
	return r
}

// innerResult blames the inner transaction of a fee bump, or the transaction itself if there is no
// fee bump.
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
	if code == xdr.TransactionResultCodeTxSuccess {
		outer = xdr.TransactionResultCodeTxFeeBumpInnerSuccess
	}
	r.Result = xdr.TransactionResultResult{Code: outer, InnerResultPair: pair}
	return r
}
