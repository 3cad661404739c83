package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Maximum values in a TOID (SEP-35).
const (
	transactionsMax = 1<<20 - 1
	operationsMax   = 1<<12 - 1
)

var errEnvelope = errors.New("its envelope cannot be read")

// body holds the parts of an envelope that payments need. For a fee bump, it holds the parts of
// the inner transaction.
type body struct {
	source     party
	memo       domain.Memo
	operations int
	rest       scanner // at the first operation
}

type reading struct {
	names
	extractor *Extractor
	ledger    Header
	order     int // of the transaction, from 1
	tx        *transaction
	body      body
	payments  []domain.Payment
}

// paymentsOf appends the payments of the transaction that was applied as number order, from 1.
func (e *Extractor) paymentsOf(
	l Header, order int, tx *transaction, known names, to []domain.Payment,
) ([]domain.Payment, error) {
	if tx.failed || tx.fault != nil {
		return to, tx.fault
	}
	ok, err := succeeded(tx.result)
	if err != nil || !ok {
		return to, err
	}
	r := reading{extractor: e, names: known, ledger: l, order: order, tx: tx, payments: to}
	err = r.read()
	return r.payments, err
}

// read collects the payments. It may have added some of them when it fails.
func (r *reading) read() error {
	if err := r.readBody(); err != nil {
		return err
	}
	results := resultsOf(r.tx.result)
	if results.bad {
		return errResult
	}
	if results.count != r.body.operations {
		return fmt.Errorf("it has %d operations and %d results", r.body.operations, results.count)
	}
	if r.order > transactionsMax || results.count > operationsMax {
		return errors.New("its place in the ledger has no identifier (SEP-35)")
	}
	if r.tx.call != nil {
		return r.contractCall(0)
	}
	for i := range r.body.operations {
		if err := r.operation(i, &results); err != nil {
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

func readBody(view xdr.TransactionEnvelopeView) (b body, err error) {
	s := scanner{raw: view}
	kind := xdr.EnvelopeType(s.uint32())
	if kind == xdr.EnvelopeTypeEnvelopeTypeTxFeeBump {
		s.bump()
		kind = xdr.EnvelopeTypeEnvelopeTypeTx
	}
	var m memo
	b.source, m = s.transactionHead(kind)
	if b.operations = s.count(listed); s.bad {
		return body{}, errEnvelope
	}
	b.memo, b.rest = m.domain(), s
	return b, nil
}

// readCall reads the part before the arguments of a transaction that is a single contract call. It
// returns nil if it isn't, or if that part has an unknown form as well.
func readCall(view xdr.TransactionEnvelopeView) *body {
	if kind, err := view.Type(); err != nil || kind == xdr.EnvelopeTypeEnvelopeTypeTxV0 {
		return nil
	}
	b, err := readBody(view)
	if err != nil || b.operations != 1 {
		return nil
	}
	if o := b.rest.operationHead(); b.rest.bad || o.kind != xdr.OperationTypeInvokeHostFunction {
		return nil
	}
	return &body{memo: b.memo, operations: 1}
}

func (m memo) domain() domain.Memo {
	switch m.kind {
	case xdr.MemoTypeMemoText:
		return domain.Memo{Type: domain.MemoText, Raw: append([]byte{}, m.text...)}
	case xdr.MemoTypeMemoId:
		return domain.Memo{Type: domain.MemoID, Raw: strconv.AppendUint(nil, m.id, 10)}
	case xdr.MemoTypeMemoHash:
		return domain.Memo{Type: domain.MemoHash, Raw: bytes.Clone(m.text)}
	case xdr.MemoTypeMemoReturn:
		return domain.Memo{Type: domain.MemoReturn, Raw: bytes.Clone(m.text)}
	}
	return domain.Memo{}
}

// operation adds the payments of operation i, at which the scanner is positioned.
func (r *reading) operation(i int, results *results) error {
	s := &r.body.rest
	o := s.operationHead()
	switch {
	case s.bad:
		return errEnvelope
	case o.kind == xdr.OperationTypeInvokeHostFunction:
		if err := r.contractCall(i); err != nil {
			return err
		}
		fallthrough
	case !isPayment(o.kind):
		if i+1 < r.body.operations {
			s.stepOverBody()
		}
		return nil
	}
	s.operationBody(&o)
	if s.bad {
		return errEnvelope
	}
	if o.byResult {
		if err := results.amountOf(&o, i); err != nil {
			return err
		}
	}
	return r.pay(i, &o)
}

func (r *reading) pay(i int, o *operation) error {
	from := r.body.source
	if o.source.key != nil {
		from = o.source
	}
	p := r.payment(i, operationNames[o.kind], "")
	var err error
	if p.From, err = r.address(from.key); err != nil {
		return err
	}
	if p.To, err = r.address(o.to.key); err != nil {
		return err
	}
	if o.to.muxed {
		p.ToMuxedID = strconv.FormatUint(o.to.id, 10)
	}
	if p.Asset, err = r.asset(o.asset); err != nil {
		return err
	}
	if p.AmountStroops = o.amount; p.AmountStroops < 0 {
		return fmt.Errorf("the amount %d is negative", p.AmountStroops)
	}
	return nil
}

// payment appends a payment of operation i, which the caller completes.
func (r *reading) payment(i int, name, suffix string) *domain.Payment {
	toid := uint64(r.ledger.Sequence)<<32 | uint64(r.order)<<12 | uint64(i+1)
	r.payments = append(r.payments, domain.Payment{
		ID:             strconv.FormatUint(toid, 10) + suffix,
		TxHash:         r.tx.hexHash(),
		Ledger:         r.ledger.Sequence,
		ClosedAtMillis: r.ledger.ClosedAtMillis,
		Operation:      name,
		Memo:           r.body.memo,
	})
	return &r.payments[len(r.payments)-1]
}

var operationNames = map[xdr.OperationType]string{
	xdr.OperationTypeCreateAccount:            "create_account",
	xdr.OperationTypePayment:                  "payment",
	xdr.OperationTypePathPaymentStrictReceive: "path_payment_strict_receive",
	xdr.OperationTypePathPaymentStrictSend:    "path_payment_strict_send",
	xdr.OperationTypeAccountMerge:             "account_merge",
}

func isPayment(kind xdr.OperationType) bool { return operationNames[kind] != "" }
