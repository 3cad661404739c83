package devnet

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"math/bits"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// maxEnvelopeBytes bounds one transaction: a hundred of the largest operations known here stay
// well below.
const maxEnvelopeBytes = 64 << 10

var (
	errInvalidXDR  = errors.New("invalid_xdr")
	errInvalidHash = errors.New("invalid_hash")
)

// transaction is a submitted envelope with everything about it that needs no ledger: hashes,
// accounts and which keys signed it. A TransactionV0 is turned into the V1 it is equal to, as
// the network does.
type transaction struct {
	envelope xdr.TransactionEnvelope
	raw      []byte
	hash     xdr.Hash
	tx       *xdr.Transaction // the inner one of a fee bump
	txHash   xdr.Hash         // the hash the inner signatures cover; hash when there is no fee bump

	source    xdr.AccountId
	feeSource xdr.AccountId
	feeBid    int64

	opSigned       []bool // for each operation: its source's master key signed
	sourceSigned   bool
	feeSigned      bool // the fee bump's source signed it
	spareSignature bool // a signature of the inner transaction is needed by nobody
	spareFeeSign   bool // the same for the fee bump's own
}

func (t *transaction) isFeeBump() bool { return t.envelope.IsFeeBump() }

// operationCount is what a transaction is charged for: a fee bump counts as one more.
func (t *transaction) operationCount() int64 {
	n := int64(len(t.tx.Operations))
	if t.isFeeBump() {
		n++
	}
	return n
}

// resourceFee is what a contract call pays beside the fee of its operation. Nothing of it is
// given back here.
func (t *transaction) resourceFee() int64 {
	if data := t.tx.Ext.SorobanData; data != nil {
		return int64(data.ResourceFee)
	}
	return 0
}

// isContractCall tells the transactions of the smart contract phase: such an operation is
// always alone.
func (t *transaction) isContractCall() bool {
	return len(t.tx.Operations) == 1 &&
		t.tx.Operations[0].Body.Type == xdr.OperationTypeInvokeHostFunction
}

func (t *transaction) minFee() int64 { return BaseFeeStroops * t.operationCount() }

// opSource is the account an operation acts for.
func (t *transaction) opSource(i int) xdr.AccountId {
	if muxed := t.tx.Operations[i].SourceAccount; muxed != nil {
		return muxed.ToAccountId()
	}
	return t.source
}

// decodeTransaction reads a base64 envelope and checks its signatures. Its errors are those of
// the RPC.
func decodeTransaction(base64XDR, passphrase string) (*transaction, error) {
	if len(base64XDR) > maxEnvelopeBytes*4/3+4 {
		return nil, errInvalidXDR
	}
	var env xdr.TransactionEnvelope
	if err := xdr.SafeUnmarshalBase64(base64XDR, &env); err != nil {
		return nil, errInvalidXDR
	}
	return newTransaction(env, passphrase)
}

func newTransaction(env xdr.TransactionEnvelope, passphrase string) (*transaction, error) {
	if env.Type == xdr.EnvelopeTypeEnvelopeTypeTxV0 {
		env = upgradeV0(env.V0)
	}
	t := &transaction{envelope: env}
	switch env.Type {
	case xdr.EnvelopeTypeEnvelopeTypeTx:
		t.tx = &env.V1.Tx
		t.feeSource, t.feeBid = t.tx.SourceAccount.ToAccountId(), int64(t.tx.Fee)
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		t.tx = &env.FeeBump.Tx.InnerTx.V1.Tx
		t.feeSource, t.feeBid = env.FeeBump.Tx.FeeSource.ToAccountId(), int64(env.FeeBump.Tx.Fee)
	default:
		return nil, errInvalidXDR
	}
	t.source = t.tx.SourceAccount.ToAccountId()
	if err := t.computeHashes(passphrase); err != nil {
		return nil, err
	}
	raw, err := env.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("encode the transaction: %w", err)
	}
	t.raw = raw
	t.checkSignatures()
	return t, nil
}

func (t *transaction) computeHashes(passphrase string) error {
	hash, err := network.HashTransactionInEnvelope(t.envelope, passphrase)
	if err != nil {
		return errInvalidHash
	}
	t.hash, t.txHash = hash, hash
	if t.isFeeBump() {
		inner, err := network.HashTransaction(*t.tx, passphrase)
		if err != nil {
			return errInvalidHash
		}
		t.txHash = inner
	}
	return nil
}

func upgradeV0(v0 *xdr.TransactionV0Envelope) xdr.TransactionEnvelope {
	source := v0.Tx.SourceAccountEd25519
	return xdr.TransactionEnvelope{
		Type: xdr.EnvelopeTypeEnvelopeTypeTx,
		V1: &xdr.TransactionV1Envelope{
			Tx: xdr.Transaction{
				SourceAccount: xdr.MuxedAccount{Type: xdr.CryptoKeyTypeKeyTypeEd25519, Ed25519: &source},
				Fee:           v0.Tx.Fee,
				SeqNum:        v0.Tx.SeqNum,
				Cond:          xdr.NewPreconditionsWithTimeBounds(v0.Tx.TimeBounds),
				Memo:          v0.Tx.Memo,
				Operations:    v0.Tx.Operations,
			},
			Signatures: v0.Signatures,
		},
	}
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
	if t.isFeeBump() {
		outer := signatureSet{hash: t.hash, signatures: t.envelope.FeeBumpSignatures()}
		t.feeSigned = outer.signedBy(t.feeSource)
		t.spareFeeSign = outer.spare()
	}
}

// signatureSet remembers which of at most 20 signatures somebody needed.
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
	if s.known == nil {
		s.known = map[xdr.Uint256]bool{}
	}
	s.known[key] = false
	for i, signature := range s.signatures {
		if signature.Hint != xdr.SignatureHint(key[28:]) ||
			len(signature.Signature) != ed25519.SignatureSize {
			continue
		}
		if ed25519.Verify(key[:], s.hash[:], signature.Signature) {
			s.used[i], s.known[key] = true, true
			break
		}
	}
	return s.known[key]
}

func (s *signatureSet) spare() bool {
	for i := range s.signatures {
		if !s.used[i] {
			return true
		}
	}
	return false
}

// pending is what the check of a transaction needs to know beside the state: the ledger it may
// get into and what waits before it.
type pending struct {
	sequence  uint32             // of the next ledger
	closeTime int64              // of the next ledger, as well as can be known
	seqNums   map[entryKey]int64 // last sequence number in the queue, by source
	feeBids   map[entryKey]int64 // sum of the fees bid in the queue, by who pays them
}

func newPending(sequence uint32, closeTime int64) *pending {
	return &pending{
		sequence:  sequence,
		closeTime: closeTime,
		seqNums:   map[entryKey]int64{},
		feeBids:   map[entryKey]int64{},
	}
}

// admit counts a transaction that passed its check.
func (p *pending) admit(t *transaction) {
	p.seqNums[accountKey(t.source)] = int64(t.tx.SeqNum)
	p.feeBids[accountKey(t.feeSource)] += t.feeBid
}

// check decides whether a transaction may enter the queue; nil says yes. The order of its
// questions is that of the network, so that a transaction with several faults is refused with
// the same code.
func (t *transaction) check(s state, p *pending) *xdr.TransactionResult {
	if t.isFeeBump() {
		return t.checkFeeBump(s, p)
	}
	if code := t.checkBounds(p); code != xdr.TransactionResultCodeTxSuccess {
		return t.refuse(code)
	}
	if t.feeBid < t.minFee()+t.resourceFee() {
		return t.refuse(xdr.TransactionResultCodeTxInsufficientFee)
	}
	if code := t.checkSource(s, p); code != xdr.TransactionResultCodeTxSuccess {
		return t.refuse(code)
	}
	if !t.canPayFee(s, p) {
		return t.refuse(xdr.TransactionResultCodeTxInsufficientBalance)
	}
	return t.checkRest(s)
}

// checkFeeBump asks about the outer transaction first, then about the inner one without its fee.
func (t *transaction) checkFeeBump(s state, p *pending) *xdr.TransactionResult {
	switch {
	case t.feeBid < t.minFee()+t.resourceFee() || t.outbid():
		return t.refuse(xdr.TransactionResultCodeTxInsufficientFee)
	case account(s, t.feeSource) == nil:
		return t.refuse(xdr.TransactionResultCodeTxNoAccount)
	case !t.feeSigned:
		return t.refuse(xdr.TransactionResultCodeTxBadAuth)
	case !t.canPayFee(s, p):
		return t.refuse(xdr.TransactionResultCodeTxInsufficientBalance)
	case t.spareFeeSign:
		return t.refuse(xdr.TransactionResultCodeTxBadAuthExtra)
	}
	if code := t.checkBounds(p); code != xdr.TransactionResultCodeTxSuccess {
		return t.refuseInner(code, nil)
	}
	if code := t.checkSource(s, p); code != xdr.TransactionResultCodeTxSuccess {
		return t.refuseInner(code, nil)
	}
	return t.checkRest(s)
}

// outbid reports whether the inner transaction offers more for an operation than the fee bump does.
func (t *transaction) outbid() bool {
	inner := int64(len(t.tx.Operations))
	outerHigh, outerLow := bits.Mul64(uint64(t.feeBid), uint64(inner))
	innerHigh, innerLow := bits.Mul64(uint64(t.tx.Fee), uint64(inner+1))
	return outerHigh < innerHigh || outerHigh == innerHigh && outerLow < innerLow
}

// checkBounds asks what depends on the transaction and the next ledger only.
func (t *transaction) checkBounds(p *pending) xdr.TransactionResultCode {
	env := &t.envelope
	switch {
	case len(t.tx.Operations) == 0:
		return xdr.TransactionResultCodeTxMissingOperation
	case !t.soroban():
		return xdr.TransactionResultCodeTxSorobanInvalid
	case env.MinSeqNum() != nil, len(env.ExtraSigners()) > 0, t.hasSequenceAge():
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

// soroban checks that contract calls, and only they, say what they use.
func (t *transaction) soroban() bool {
	for _, op := range t.tx.Operations {
		if op.Body.Type == xdr.OperationTypeInvokeHostFunction && len(t.tx.Operations) != 1 {
			return false
		}
	}
	if !t.isContractCall() {
		return t.tx.Ext.V == 0
	}
	return t.tx.Ext.V == 1 && t.resourceFee() >= 0 && t.resourceFee() < 1<<40
}

func (t *transaction) hasSequenceAge() bool {
	age, gap := t.envelope.MinSeqAge(), t.envelope.MinSeqLedgerGap()
	return age != nil && *age != 0 || gap != nil && *gap != 0
}

// checkSource asks about the account whose sequence number is used.
func (t *transaction) checkSource(s state, p *pending) xdr.TransactionResultCode {
	source := account(s, t.source)
	if source == nil {
		return xdr.TransactionResultCodeTxNoAccount
	}
	last, waiting := p.seqNums[accountKey(t.source)]
	if !waiting {
		last = int64(source.SeqNum)
	}
	if int64(t.tx.SeqNum)-1 != last {
		return xdr.TransactionResultCodeTxBadSeq
	}
	if !t.sourceSigned {
		return xdr.TransactionResultCodeTxBadAuth
	}
	return xdr.TransactionResultCodeTxSuccess
}

func (t *transaction) canPayFee(s state, p *pending) bool {
	payer := account(s, t.feeSource)
	return payer != nil && available(payer)-p.feeBids[accountKey(t.feeSource)] >= t.feeBid
}

// checkRest asks about the operations, each by itself, and then about signatures nobody needed.
func (t *transaction) checkRest(s state) *xdr.TransactionResult {
	for i := range t.tx.Operations {
		result := t.checkOperation(s, i)
		if result == nil {
			continue
		}
		results := make([]xdr.OperationResult, len(t.tx.Operations))
		for j := range results {
			results[j] = successOf(t.tx.Operations[j].Body.Type)
		}
		results[i] = *result
		return t.refuseInner(xdr.TransactionResultCodeTxFailed, results)
	}
	if t.spareSignature {
		return t.refuseInner(xdr.TransactionResultCodeTxBadAuthExtra, nil)
	}
	return nil
}

func (t *transaction) checkOperation(s state, i int) *xdr.OperationResult {
	op := t.tx.Operations[i]
	kind, known := operations[op.Body.Type]
	switch {
	case !known || kind.unsupported != nil && kind.unsupported(op.Body):
		return &xdr.OperationResult{Code: xdr.OperationResultCodeOpNotSupported}
	case !t.opSigned[i]:
		// A source that does not exist yet passes when its key signed: an operation before may create it.
		if account(s, t.opSource(i)) == nil {
			return &xdr.OperationResult{Code: xdr.OperationResultCodeOpNoAccount}
		}
		return &xdr.OperationResult{Code: xdr.OperationResultCodeOpBadAuth}
	}
	if result, ok := kind.check(t.opSource(i), op.Body); !ok {
		return &result
	}
	return nil
}

// refuse is the result of a transaction that never got into a ledger.
func (t *transaction) refuse(code xdr.TransactionResultCode) *xdr.TransactionResult {
	r := t.result(code, nil, t.minFee())
	return &r
}

// refuseInner blames the inner transaction of a fee bump, or the transaction itself when there
// is none.
func (t *transaction) refuseInner(
	code xdr.TransactionResultCode, results []xdr.OperationResult,
) *xdr.TransactionResult {
	r := t.innerResult(code, results, t.minFee())
	return &r
}

func (t *transaction) result(
	code xdr.TransactionResultCode, results []xdr.OperationResult, fee int64,
) xdr.TransactionResult {
	r := xdr.TransactionResult{
		FeeCharged: xdr.Int64(fee),
		Result:     xdr.TransactionResultResult{Code: code},
	}
	if hasResults(code) {
		r.Result.Results = &results
	}
	return r
}

func (t *transaction) innerResult(
	code xdr.TransactionResultCode, results []xdr.OperationResult, fee int64,
) xdr.TransactionResult {
	if !t.isFeeBump() {
		return t.result(code, results, fee)
	}
	inner := xdr.InnerTransactionResult{Result: xdr.InnerTransactionResultResult{Code: code}}
	if hasResults(code) {
		inner.Result.Results = &results
	}
	outer := xdr.TransactionResultCodeTxFeeBumpInnerFailed
	if code == xdr.TransactionResultCodeTxSuccess {
		outer = xdr.TransactionResultCodeTxFeeBumpInnerSuccess
	}
	r := t.result(outer, nil, fee)
	r.Result.InnerResultPair = &xdr.InnerTransactionResultPair{
		TransactionHash: t.txHash,
		Result:          inner,
	}
	return r
}

func hasResults(code xdr.TransactionResultCode) bool {
	return code == xdr.TransactionResultCodeTxSuccess || code == xdr.TransactionResultCodeTxFailed
}
