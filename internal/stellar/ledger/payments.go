package ledger

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

// Bounds of the parts of a TOID (SEP-35).
const (
	transactionsMax = 1<<20 - 1
	operationsMax   = 1<<12 - 1
)

var errEnvelope = errors.New("its envelope cannot be read")

// body is the part of an envelope that payments are made of: of a fee bump, the
// transaction inside.
type body struct {
	source     party
	memo       domain.Memo
	operations int
	rest       scanner // at the first operation
}

// reading is a transaction while its payments are read.
type reading struct {
	extractor *Extractor
	*workspace
	ledger Header
	order  int // 1 is the first
	tx     *transaction
	body   body
	hash   string // the transaction's, once there is a payment
}

// paymentsOf reads the payments of one transaction. order counts from 1 in the
// order of application.
func (e *Extractor) paymentsOf(l Header, order int, tx *transaction, w *workspace) error {
	if tx.failed || tx.fault != nil {
		return tx.fault
	}
	ok, err := succeeded(tx.result)
	if err != nil || !ok {
		return err
	}
	r := reading{extractor: e, workspace: w, ledger: l, order: order, tx: tx}
	return r.read()
}

// read collects the payments; when it fails, some may be there.
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

// readCall reads the part before the operation's arguments of a transaction that is a single
// contract call; nil if it is something else, or if that part is unknown too. The envelope's end
// may be of any form, because XDR is read from its beginning.
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

// operation collects the payments of the operation at index i, which is the next.
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

// pay adds the payment that an operation is.
func (r *reading) pay(i int, o *operation) error {
	from := r.body.source
	if o.source.key != nil {
		from = o.source
	}
	p := r.payment(i, operationName(o.kind), "")
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

// payment begins the payment of the operation at index i. It is the last of those that were
// collected.
func (r *reading) payment(i int, name, suffix string) *domain.Payment {
	var text [2*hashSizeBytes + 32]byte
	number := uint64(r.ledger.Sequence)<<32 | uint64(r.order)<<12 | uint64(i+1)
	id := append(strconv.AppendUint(text[:2*hashSizeBytes], number, 10), suffix...)
	p := domain.Payment{
		TxHash:         r.hash,
		Ledger:         r.ledger.Sequence,
		ClosedAtMillis: r.ledger.ClosedAtMillis,
		Operation:      name,
		Memo:           r.body.memo,
	}
	if r.hash == "" {
		// one piece of memory for both: most transactions make one payment
		hex.Encode(id, r.tx.hash[:])
		both := string(id)
		r.hash, p.ID = both[:2*hashSizeBytes], both[2*hashSizeBytes:]
		p.TxHash = r.hash
	} else {
		p.ID = string(id[2*hashSizeBytes:])
	}
	r.payments = append(r.payments, p)
	return &r.payments[len(r.payments)-1]
}

func operationName(kind xdr.OperationType) string {
	switch kind {
	case xdr.OperationTypeCreateAccount:
		return "create_account"
	case xdr.OperationTypePayment:
		return "payment"
	case xdr.OperationTypePathPaymentStrictReceive:
		return "path_payment_strict_receive"
	case xdr.OperationTypePathPaymentStrictSend:
		return "path_payment_strict_send"
	case xdr.OperationTypeAccountMerge:
		return "account_merge"
	}
	return ""
}
