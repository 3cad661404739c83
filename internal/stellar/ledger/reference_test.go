package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/network"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// ReadBySDK is like Extract, but the SDK decodes the payments. It is the reference for our own
// decoding.
func ReadBySDK(raw []byte, passphrase string) (domain.Ledger, error) {
	e, err := NewExtractor(passphrase)
	if err != nil {
		return domain.Ledger{}, err
	}
	normal, closeTimeMillis, err := normalise(raw)
	if err != nil {
		return domain.Ledger{}, err
	}
	parts, err := locateBySDK(normal, passphrase)
	if err != nil {
		return domain.Ledger{}, err
	}
	head, err := readHeader(parts.header, closeTimeMillis)
	if err != nil {
		return domain.Ledger{}, err
	}
	l := domain.Ledger{
		Sequence:       head.Sequence,
		Hash:           head.Hash,
		ClosedAtMillis: head.ClosedAtMillis,
		Transactions:   len(parts.transactions),
	}
	for i, tx := range parts.transactions {
		payments, err := e.sdkPaymentsOf(head, i+1, tx)
		if err != nil {
			l.Quarantined = append(l.Quarantined, domain.QuarantinedTransaction{
				TxHash: tx.hexHash(),
				Order:  i + 1,
				Reason: err.Error(),
			})
			continue
		}
		l.Payments = append(l.Payments, payments...)
	}
	return l, nil
}

func locateBySDK(raw []byte, passphrase string) (parts located, err error) {
	var envelopes []xdr.TransactionEnvelopeView
	err = xdr.TryVoid(func() { parts, envelopes = splitLedger(raw) })
	if isUnknownForm(err) {
		return salvage(raw, passphrase, believing)
	}
	if err != nil {
		return located{}, err
	}
	if parts.header == nil || len(envelopes) != len(parts.transactions) {
		return located{}, errors.New("it is no ledger")
	}
	hasher, err := network.NewTransactionViewHasher(passphrase)
	if err != nil {
		return located{}, err
	}
	byHash := map[xdr.Hash]xdr.TransactionEnvelopeView{}
	for _, envelope := range envelopes {
		hash, err := hasher.Hash(envelope)
		if err != nil {
			return located{}, err
		}
		byHash[hash] = envelope
	}
	for i := range parts.transactions {
		tx := &parts.transactions[i]
		if tx.envelope = byHash[tx.hash]; tx.envelope == nil {
			return located{}, errNoEnvelope
		}
	}
	return parts, nil
}

func sdkSucceeded(result xdr.TransactionResultView) (bool, error) {
	return xdr.Try(func() bool {
		body := result.MustResult()
		switch body.MustCode() {
		case xdr.TransactionResultCodeTxSuccess:
			return true
		case xdr.TransactionResultCodeTxFeeBumpInnerSuccess:
			inner := body.MustInnerResultPair().MustResult().MustResult()
			return inner.MustCode() == xdr.TransactionResultCodeTxSuccess
		}
		return false
	})
}

func sdkResults(result xdr.TransactionResultView) []xdr.OperationResultView {
	body := result.MustResult()
	if body.MustCode() == xdr.TransactionResultCodeTxFeeBumpInnerSuccess {
		return body.MustInnerResultPair().MustResult().MustResult().MustResults().MustAll()
	}
	return body.MustResults().MustAll()
}

func (r *sdkReading) call(i int) error {
	tx := r.tx
	made := reading{
		extractor: r.extractor,
		names:     newNames(),
		ledger:    r.ledger,
		order:     r.order,
		tx:        &tx,
		body:      body{memo: r.body.memo, operations: len(r.body.operations)},
	}
	err := made.readCall(i)
	r.payments = append(r.payments, made.payments...)
	return err
}

// sdkBody is the part of an envelope that contains the payments. For a fee bump, it is the inner
// transaction.
type sdkBody struct {
	source     xdr.MuxedAccount
	memo       domain.Memo
	operations []xdr.OperationView
}

type sdkReading struct {
	extractor *Extractor
	ledger    Header
	order     int // beginning at 1
	tx        transaction
	body      sdkBody
	payments  []domain.Payment
}

// sdkPaymentsOf reads the payments of one transaction. order counts from 1, in the order of
// application.
func (e *Extractor) sdkPaymentsOf(l Header, order int, tx transaction) ([]domain.Payment, error) {
	if tx.failed || tx.fault != nil {
		return nil, tx.fault
	}
	ok, err := sdkSucceeded(tx.result)
	if err != nil || !ok {
		return nil, err
	}
	r := sdkReading{extractor: e, ledger: l, order: order, tx: tx}
	var failure error
	if err := xdr.TryVoid(func() { failure = r.read() }); err != nil {
		return nil, err
	}
	return r.payments, failure
}

// read collects the payments. Like the SDK's Must functions, it may panic with a *xdr.ViewError.
func (r *sdkReading) read() error {
	if err := r.sdkReadBody(); err != nil {
		return err
	}
	results := sdkResults(r.tx.result)
	if len(results) != len(r.body.operations) {
		return fmt.Errorf("it has %d operations and %d results", len(r.body.operations), len(results))
	}
	if r.order > transactionsMax || len(results) > operationsMax {
		return errors.New("its place in the ledger has no identifier (SEP-35)")
	}
	if r.tx.call != nil {
		return r.call(0)
	}
	for i, operation := range r.body.operations {
		if err := r.operation(i, operation, results[i]); err != nil {
			return fmt.Errorf("operation %d: %w", i+1, err)
		}
	}
	return nil
}

func (r *sdkReading) sdkReadBody() (err error) {
	if r.tx.call != nil {
		r.body.memo, r.body.operations = r.tx.call.memo, make([]xdr.OperationView, 1)
		return nil
	}
	r.body, err = sdkReadBody(r.tx.envelope)
	return err
}

func sdkReadBody(envelope xdr.TransactionEnvelopeView) (b sdkBody, err error) {
	var memo xdr.MemoView
	switch envelope.MustType() {
	case xdr.EnvelopeTypeEnvelopeTypeTxV0:
		f := must(envelope.MustV0().MustTx().Fields())
		key := f.SourceAccountEd25519.MustValue()
		b.source = xdr.MuxedAccount{Type: xdr.CryptoKeyTypeKeyTypeEd25519, Ed25519: &key}
		b.operations, memo = f.Operations.MustAll(), f.Memo
	case xdr.EnvelopeTypeEnvelopeTypeTx:
		b.operations, memo, err = sdkReadBodyV1(envelope.MustV1().MustTx(), &b.source)
	case xdr.EnvelopeTypeEnvelopeTypeTxFeeBump:
		b.operations, memo, err = sdkReadBodyV1(
			envelope.MustFeeBump().MustTx().MustInnerTx().MustV1().MustTx(), &b.source,
		)
	}
	if err != nil {
		return sdkBody{}, err
	}
	b.memo, err = sdkReadMemo(memo)
	return b, err
}

func sdkReadBodyV1(
	tx xdr.TransactionView, source *xdr.MuxedAccount,
) ([]xdr.OperationView, xdr.MemoView, error) {
	f := must(tx.Fields())
	return f.Operations.MustAll(), f.Memo, decode("the source account", source,
		f.SourceAccount.MustRaw())
}

func sdkReadMemo(view xdr.MemoView) (domain.Memo, error) {
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

func (r *sdkReading) operation(
	i int, view xdr.OperationView, result xdr.OperationResultView,
) error {
	kind := view.MustBody().MustType()
	switch kind {
	case xdr.OperationTypeInvokeHostFunction:
		return r.call(i)
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
	p.From, _, err = sdkAddress(from)
	if err != nil {
		return err
	}
	p.To, p.ToMuxedID, err = sdkAddress(moved.to)
	if err != nil {
		return err
	}
	p.Asset, err = sdkAssetOf(moved.asset)
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

// payment returns a payment of the operation at index i without the amount and the parties.
func (r *sdkReading) payment(i int, name string) domain.Payment {
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

// movement is the asset, the amount and the recipient of a classic operation.
type movement struct {
	name   string
	to     xdr.MuxedAccount
	asset  xdr.Asset
	amount xdr.Int64
}

// movementOf reads a successful operation. For merges and strict-send path payments, only the
// result contains the amount.
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
				"successful merge")
		}
		return movement{"account_merge", op.MustDestination(), native, *merge.SourceAccountBalance}, nil
	}
	o := op.MustPathPaymentStrictSendOp()
	send, _ := tr.GetPathPaymentStrictSendResult()
	if send.Success == nil {
		return movement{}, errors.New("its transaction succeeded, but its result is not that of a " +
			"successful path payment")
	}
	sent := send.Success.Last.Amount
	return movement{"path_payment_strict_send", o.Destination, o.DestAsset, sent}, nil
}

// sdkAddress returns the G address of an account, and the id in an M address.
func sdkAddress(a xdr.MuxedAccount) (account, muxedID string, err error) {
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

// sdkAssetOf returns an asset. On the wire, codes are padded with NUL and otherwise contain only
// letters and digits.
func sdkAssetOf(a xdr.Asset) (domain.Asset, error) {
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

// Renamed gives each result of a ledger the hash of an envelope. Envelopes without a result are
// assigned to the results without an envelope, in order.
func Renamed(raw []byte, passphrase string) (renamed []byte, err error) {
	var parts located
	var views []xdr.TransactionEnvelopeView
	if err := xdr.TryVoid(func() { parts, views = splitLedger(raw) }); err != nil {
		return nil, err
	}
	hasher, err := network.NewTransactionViewHasher(passphrase)
	if err != nil {
		return nil, err
	}
	named := map[xdr.Hash]bool{}
	for i := range parts.transactions {
		named[parts.transactions[i].hash] = true
	}
	var unnamed []xdr.Hash
	envelopes := map[xdr.Hash]bool{}
	for _, view := range views {
		hash, err := hasher.Hash(view)
		if err != nil {
			return nil, err
		}
		if envelopes[hash] = true; !named[hash] {
			unnamed = append(unnamed, hash)
		}
	}
	renamed = bytes.Clone(raw)
	for i := range parts.transactions {
		tx := &parts.transactions[i]
		if !envelopes[tx.hash] && len(unnamed) > 0 {
			at := cap(raw) - cap(tx.pair)
			copy(renamed[at:], unnamed[0][:])
			unnamed = unnamed[1:]
		}
	}
	return renamed, nil
}
