package ledger

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of the parts of a TOID (SEP-35).
const (
	transactionsMax = 1<<20 - 1
	operationsMax   = 1<<12 - 1
)

// body is the part of an envelope that payments are made of: of a fee bump, the
// transaction inside.
type body struct {
	source     xdr.MuxedAccount
	memo       domain.Memo
	operations []xdr.OperationView
}

// reading is a transaction while its payments are read.
type reading struct {
	extractor *Extractor
	ledger    Header
	order     int // 1 is the first
	tx        transaction
	body      body
	payments  []domain.Payment
}

// paymentsOf reads the payments of one transaction. order counts from 1 in the
// order of application.
func (e *Extractor) paymentsOf(l Header, order int, tx transaction) ([]domain.Payment, error) {
	if tx.failed || tx.fault != nil {
		return nil, tx.fault
	}
	ok, err := succeeded(tx.result)
	if err != nil || !ok {
		return nil, err
	}
	r := reading{extractor: e, ledger: l, order: order, tx: tx}
	var failure error
	if err := xdr.TryVoid(func() { failure = r.read() }); err != nil {
		return nil, err
	}
	return r.payments, failure
}

// read collects the payments. Like the SDK's Must functions it may panic with a
// *xdr.ViewError.
func (r *reading) read() error {
	if err := r.readBody(); err != nil {
		return err
	}
	results := operationResults(r.tx.result)
	if len(results) != len(r.body.operations) {
		return fmt.Errorf("it has %d operations and %d results", len(r.body.operations), len(results))
	}
	if r.order > transactionsMax || len(results) > operationsMax {
		return errors.New("its place in the ledger has no identifier (SEP-35)")
	}
	if r.tx.call != nil {
		return r.contractCall(0)
	}
	for i, operation := range r.body.operations {
		if err := r.operation(i, operation, results[i]); err != nil {
			return fmt.Errorf("operation %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *reading) readBody() (err error) {
	if r.tx.call != nil {
		r.body = *r.tx.call
		return nil
	}
	r.body, err = readBody(r.tx.envelope)
	return err
}

func readBody(envelope xdr.TransactionEnvelopeView) (b body, err error) {
	var memo xdr.MemoView
	switch envelope.MustType() {
	case xdr.EnvelopeTypeEnvelopeTypeTxV0:
		f := must(envelope.MustV0().MustTx().Fields())
		key := f.SourceAccountEd25519.MustValue()
		b.source = xdr.MuxedAccount{Type: xdr.CryptoKeyTypeKeyTypeEd25519, Ed25519: &key}
		b.operations, memo = f.Operations.MustAll(), f.Memo
	case xdr.EnvelopeTypeEnvelopeTypeTx:
		b.operations, memo, err = readBodyV1(envelope.MustV1().MustTx(), &b.source)
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		b.operations, memo, err = readBodyV1(
			envelope.MustFeeBump().MustTx().MustInnerTx().MustV1().MustTx(), &b.source,
		)
	}
	if err != nil {
		return body{}, err
	}
	b.memo, err = readMemo(memo)
	return b, err
}

func readBodyV1(
	tx xdr.TransactionView, source *xdr.MuxedAccount,
) ([]xdr.OperationView, xdr.MemoView, error) {
	f := must(tx.Fields())
	return f.Operations.MustAll(), f.Memo, decode("the source account", source,
		f.SourceAccount.MustRaw())
}

// readCall reads what comes before the operation's arguments in a transaction that is one contract
// call; nil when it is something else, or that is not known either. The envelope's end may be of
// any form: XDR is read from its beginning.
func readCall(envelope xdr.TransactionEnvelopeView) (call *body) {
	err := xdr.TryVoid(func() {
		var tx xdr.TransactionView
		switch envelope.MustType() {
		case xdr.EnvelopeTypeEnvelopeTypeTx:
			tx = envelope.MustV1().MustTx()
		case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
			tx = envelope.MustFeeBump().MustTx().MustInnerTx().MustV1().MustTx()
		default:
			return
		}
		operations := tx.MustOperations()
		if operations.MustCount() != 1 ||
			operations.MustAt(0).MustBody().MustType() != xdr.OperationTypeInvokeHostFunction {
			return
		}
		memo, err := readMemo(tx.MustMemo())
		if err == nil {
			call = &body{memo: memo, operations: make([]xdr.OperationView, 1)}
		}
	})
	if err != nil {
		return nil
	}
	return call
}

func readMemo(view xdr.MemoView) (domain.Memo, error) {
	var memo xdr.Memo
	if err := decode("the memo", &memo, view.MustRaw()); err != nil {
		return domain.Memo{}, err
	}
	switch memo.Type {
	case xdr.MemoTypeMemoText:
		return domain.Memo{Type: domain.MemoText, Raw: []byte(memo.MustText())}, nil
	case xdr.MemoTypeMemoId:
		return domain.Memo{Type: domain.MemoID, Raw: strconv.AppendUint(nil, uint64(memo.MustId()),
			10)}, nil
	case xdr.MemoTypeMemoHash:
		hash := memo.MustHash()
		return domain.Memo{Type: domain.MemoHash, Raw: hash[:]}, nil
	case xdr.MemoTypeMemoReturn:
		hash := memo.MustRetHash()
		return domain.Memo{Type: domain.MemoReturn, Raw: hash[:]}, nil
	}
	return domain.Memo{}, nil
}

// operation collects the payments of the operation at index i.
func (r *reading) operation(i int, view xdr.OperationView, result xdr.OperationResultView) error {
	kind := view.MustBody().MustType()
	switch kind {
	case xdr.OperationTypeInvokeHostFunction:
		return r.contractCall(i)
	case xdr.OperationTypeCreateAccount, xdr.OperationTypePayment,
		xdr.OperationTypePathPaymentStrictReceive,
		xdr.OperationTypePathPaymentStrictSend, xdr.OperationTypeAccountMerge:
	default:
		return nil
	}
	var op xdr.Operation
	if err := decode("the operation", &op, view.MustRaw()); err != nil {
		return err
	}
	moved, err := movementOf(op.Body, result)
	if err != nil {
		return err
	}
	from := r.body.source
	if op.SourceAccount != nil {
		from = *op.SourceAccount
	}
	p := r.payment(i, moved.name)
	p.From, _, err = address(from)
	if err != nil {
		return err
	}
	p.To, p.ToMuxedID, err = address(moved.to)
	if err != nil {
		return err
	}
	p.Asset, err = assetOf(moved.asset)
	if err != nil {
		return err
	}
	p.AmountStroops = int64(moved.amount)
	if p.AmountStroops < 0 {
		return fmt.Errorf("the amount %d is negative", p.AmountStroops)
	}
	r.payments = append(r.payments, p)
	return nil
}

// payment begins the payment of the operation at index i.
func (r *reading) payment(i int, name string) domain.Payment {
	id := uint64(r.ledger.Sequence)<<32 | uint64(r.order)<<12 | uint64(i+1)
	return domain.Payment{
		ID:             strconv.FormatUint(id, 10),
		TxHash:         r.tx.hexHash(),
		Ledger:         r.ledger.Sequence,
		ClosedAtMillis: r.ledger.ClosedAtMillis,
		Operation:      name,
		Memo:           r.body.memo,
	}
}

// movement is what a classic operation moved, and to whom.
type movement struct {
	name   string
	to     xdr.MuxedAccount
	asset  xdr.Asset
	amount xdr.Int64
}

var native = xdr.Asset{Type: xdr.AssetTypeAssetTypeNative}

// movementOf reads an operation that succeeded. The amounts of merges and of
// strict-send path payments are known only from the result.
func movementOf(op xdr.OperationBody, result xdr.OperationResultView) (movement, error) {
	switch op.Type {
	case xdr.OperationTypeCreateAccount:
		o := op.MustCreateAccountOp()
		return movement{"create_account", o.Destination.ToMuxedAccount(), native, o.StartingBalance}, nil
	case xdr.OperationTypePayment:
		o := op.MustPaymentOp()
		return movement{"payment", o.Destination, o.Asset, o.Amount}, nil
	case xdr.OperationTypePathPaymentStrictReceive:
		o := op.MustPathPaymentStrictReceiveOp()
		return movement{"path_payment_strict_receive", o.Destination, o.DestAsset, o.DestAmount}, nil
	}
	var outcome xdr.OperationResult
	if err := decode("the operation's result", &outcome, result.MustRaw()); err != nil {
		return movement{}, err
	}
	tr, _ := outcome.GetTr()
	if op.Type == xdr.OperationTypeAccountMerge {
		merge, _ := tr.GetAccountMergeResult()
		if merge.SourceAccountBalance == nil {
			return movement{}, errors.New("its transaction succeeded, but its result is not that of a " +
				"merge that did")
		}
		return movement{"account_merge", op.MustDestination(), native, *merge.SourceAccountBalance}, nil
	}
	o := op.MustPathPaymentStrictSendOp()
	send, _ := tr.GetPathPaymentStrictSendResult()
	if send.Success == nil {
		return movement{}, errors.New("its transaction succeeded, but its result is not that of a path " +
			"payment that did")
	}
	sent := send.Success.Last.Amount
	return movement{"path_payment_strict_send", o.Destination, o.DestAsset, sent}, nil
}

// address writes an account as a G address, and the identifier that an M address
// carries besides.
func address(a xdr.MuxedAccount) (account, muxedID string, err error) {
	key := a.Ed25519
	if a.Type == xdr.CryptoKeyTypeKeyTypeMuxedEd25519 {
		key, muxedID = &a.Med25519.Ed25519, strconv.FormatUint(uint64(a.Med25519.Id), 10)
	}
	if key == nil {
		return "", "", fmt.Errorf("accounts of type %d are not known", a.Type)
	}
	account, err = strkey.Encode(strkey.VersionByteAccountID, key[:])
	return account, muxedID, err
}

// assetOf names an asset. Codes are padded with NUL on the wire, and made of
// letters and digits alone.
func assetOf(a xdr.Asset) (domain.Asset, error) {
	if a.Type == xdr.AssetTypeAssetTypeNative {
		return domain.NativeAsset(), nil
	}
	code := strings.TrimRight(a.GetCode(), "\x00")
	for _, c := range []byte(code) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return domain.Asset{}, fmt.Errorf("the asset code %q is none", code)
		}
	}
	if code == "" {
		return domain.Asset{}, errors.New("the asset has no code")
	}
	return domain.Asset{Code: code, Issuer: a.GetIssuer()}, nil
}

// decode reads one value from exactly these bytes.
func decode(what string, into interface{ UnmarshalBinary([]byte) error }, raw []byte) error {
	if err := into.UnmarshalBinary(raw); err != nil {
		return fmt.Errorf("%s cannot be read: %w", what, err)
	}
	return nil
}
