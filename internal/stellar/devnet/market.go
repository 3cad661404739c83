package devnet

import (
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Path payments trade through the order book, hop by hop. From the first ledger on there is a
// market in it for the demo asset: two offers of its issuer at one rate, one in each direction,
// as large as everything that there is.
const (
	// MarketLumensPerDemo is what one unit of the demo asset costs, and brings.
	MarketLumensPerDemo = 10

	marketDemo   = "10000000000" // what the issuer sells of the asset
	marketLumens = "999000000"   // and of its lumens

	unlimited = math.MaxInt64
)

// trip is what became of a path: what goes in, what comes out, and the offers taken.
type trip struct {
	sent, received int64
	offers         []xdr.ClaimAtom
	outcome        dealOutcome
}

// hops are the changes of asset along a path.
func hops(send xdr.Asset, path []xdr.Asset, receive xdr.Asset) (pairs [][2]xdr.Asset) {
	before := send
	for _, next := range append(path[:len(path):len(path)], receive) {
		if !next.Equals(before) {
			pairs = append(pairs, [2]xdr.Asset{before, next})
		}
		before = next
	}
	return pairs
}

// sendAlong converts an amount that is known at the start of a path.
func (l *layer) sendAlong(source xdr.AccountId, pairs [][2]xdr.Asset, amount int64) trip {
	t := trip{sent: amount, received: amount}
	for _, pair := range pairs {
		d := l.trade(source, pair[1], pair[0], unlimited, t.received, roundSend, nil)
		if t.offers, t.received = append(t.offers, d.claimed...), d.wheat; d.outcome != dealDone {
			return trip{outcome: d.outcome}
		}
	}
	return t
}

// receiveAlong converts backwards from an amount that is known at the end of a path.
func (l *layer) receiveAlong(source xdr.AccountId, pairs [][2]xdr.Asset, amount int64) trip {
	t := trip{sent: amount, received: amount}
	for i := len(pairs) - 1; i >= 0; i-- {
		d := l.trade(source, pairs[i][1], pairs[i][0], t.sent, unlimited, roundReceive, nil)
		if t.offers, t.sent = append(d.claimed, t.offers...), d.sheep; d.outcome != dealDone {
			return trip{outcome: d.outcome}
		}
	}
	return t
}

func (l *layer) pay(
	source, destination xdr.AccountId, asset xdr.Asset, amount int64,
) xdr.PaymentResultCode {
	op := xdr.PaymentOp{
		Destination: destination.ToMuxedAccount(),
		Asset:       asset,
		Amount:      xdr.Int64(amount),
	}
	result, _ := applyPayment(l, source,
		xdr.OperationBody{Type: xdr.OperationTypePayment, PaymentOp: &op})
	return result.Tr.PaymentResult.Code
}

// credit and debit are the two halves of a payment, with its codes.
func (l *layer) credit(id xdr.AccountId, asset xdr.Asset, amount int64) xdr.PaymentResultCode {
	switch {
	case isIssuer(id, asset):
		return xdr.PaymentResultCodePaymentSuccess
	case !asset.IsNative():
		return creditAsset(l, id, &xdr.PaymentOp{Asset: asset, Amount: xdr.Int64(amount)})
	case account(l, id) == nil:
		return xdr.PaymentResultCodePaymentNoDestination
	case roomFor(account(l, id)) < amount:
		return xdr.PaymentResultCodePaymentLineFull
	}
	l.add(id, asset, amount)
	return xdr.PaymentResultCodePaymentSuccess
}

func (l *layer) debit(id xdr.AccountId, asset xdr.Asset, amount int64) xdr.PaymentResultCode {
	switch {
	case isIssuer(id, asset):
		return xdr.PaymentResultCodePaymentSuccess
	case !asset.IsNative():
		return debitAsset(l, id, &xdr.PaymentOp{Asset: asset, Amount: xdr.Int64(amount)})
	case available(account(l, id)) < amount:
		return xdr.PaymentResultCodePaymentUnderfunded
	}
	l.add(id, asset, -amount)
	return xdr.PaymentResultCodePaymentSuccess
}

func validPath(send, receive xdr.Asset, path []xdr.Asset, amounts ...xdr.Int64) bool {
	for _, asset := range append([]xdr.Asset{send, receive}, path...) {
		if !validAsset(asset) {
			return false
		}
	}
	for _, amount := range amounts {
		if amount <= 0 {
			return false
		}
	}
	return true
}

func checkStrictSend(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictSendOp
	if !validPath(op.SendAsset, op.DestAsset, op.Path, op.SendAmount, op.DestMin) {
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendMalformed, nil)
	}
	return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess, nil)
}

// applyStrictSend debits the source, trades, and credits the destination, in the network's
// order. Without a hop it is a payment.
func applyStrictSend(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictSendOp
	destination := op.Destination.ToAccountId()
	pairs := hops(op.SendAsset, op.Path, op.DestAsset)
	if len(pairs) == 0 {
		code := l.pay(source, destination, op.SendAsset, int64(op.SendAmount))
		if code == xdr.PaymentResultCodePaymentSuccess && op.SendAmount < op.DestMin {
			return strictSendResult(
				xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendUnderDestmin, nil)
		}
		return strictSent(op, code, trip{received: int64(op.SendAmount)})
	}
	if account(l, destination) == nil {
		return strictSendResult(
			xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendNoDestination, nil)
	}
	code := l.debit(source, op.SendAsset, int64(op.SendAmount))
	if code != xdr.PaymentResultCodePaymentSuccess {
		return strictSent(op, code, trip{})
	}
	t := l.sendAlong(source, pairs, int64(op.SendAmount))
	switch {
	case t.outcome == dealTooLong:
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpExceededWorkLimit}, false
	case t.outcome == dealOwnOffer:
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendOfferCrossSelf,
			nil)
	case t.outcome != dealDone:
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendTooFewOffers, nil)
	case t.received < int64(op.DestMin):
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendUnderDestmin, nil)
	}
	return strictSent(op, l.credit(destination, op.DestAsset, t.received), t)
}

func strictSent(
	op *xdr.PathPaymentStrictSendOp, code xdr.PaymentResultCode, t trip,
) (xdr.OperationResult, bool) {
	last := xdr.SimplePaymentResult{
		Destination: op.Destination.ToAccountId(),
		Asset:       op.DestAsset,
		Amount:      xdr.Int64(t.received),
	}
	return strictSendResult(strictSendCodes[code],
		&xdr.PathPaymentStrictSendResultSuccess{Offers: t.offers, Last: last})
}

// The payments that a path payment is made of fail for the reasons of a payment.
var strictSendCodes = map[xdr.PaymentResultCode]xdr.PathPaymentStrictSendResultCode{
	xdr.PaymentResultCodePaymentSuccess:       xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess,
	xdr.PaymentResultCodePaymentUnderfunded:   xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendUnderfunded,
	xdr.PaymentResultCodePaymentSrcNoTrust:    xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSrcNoTrust,
	xdr.PaymentResultCodePaymentNoDestination: xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendNoDestination,
	xdr.PaymentResultCodePaymentNoTrust:       xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendNoTrust,
	xdr.PaymentResultCodePaymentLineFull:      xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendLineFull,
}

func checkStrictReceive(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictReceiveOp
	if !validPath(op.SendAsset, op.DestAsset, op.Path, op.SendMax, op.DestAmount) {
		return strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveMalformed, nil)
	}
	return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess,
		nil)
}

// applyStrictReceive credits the destination, trades backwards, and debits the source.
func applyStrictReceive(
	l *layer, source xdr.AccountId, body xdr.OperationBody,
) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictReceiveOp
	destination := op.Destination.ToAccountId()
	pairs := hops(op.SendAsset, op.Path, op.DestAsset)
	if len(pairs) == 0 {
		code := l.pay(source, destination, op.SendAsset, int64(op.DestAmount))
		if code == xdr.PaymentResultCodePaymentSuccess && op.DestAmount > op.SendMax {
			return strictReceiveResult(
				xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveOverSendmax, nil,
			)
		}
		return strictReceived(op, code, trip{})
	}
	if account(l, destination) == nil {
		return strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveNoDestination, nil,
		)
	}
	code := l.credit(destination, op.DestAsset, int64(op.DestAmount))
	if code != xdr.PaymentResultCodePaymentSuccess {
		return strictReceived(op, code, trip{})
	}
	t := l.receiveAlong(source, pairs, int64(op.DestAmount))
	switch {
	case t.outcome == dealTooLong:
		return xdr.OperationResult{Code: xdr.OperationResultCodeOpExceededWorkLimit}, false
	case t.outcome == dealOwnOffer:
		return strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveOfferCrossSelf, nil,
		)
	case t.outcome != dealDone:
		return strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveTooFewOffers, nil,
		)
	case t.sent > int64(op.SendMax):
		return strictReceiveResult(
			xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveOverSendmax, nil,
		)
	}
	return strictReceived(op, l.debit(source, op.SendAsset, t.sent), t)
}

func strictReceived(
	op *xdr.PathPaymentStrictReceiveOp, code xdr.PaymentResultCode, t trip,
) (xdr.OperationResult, bool) {
	last := xdr.SimplePaymentResult{
		Destination: op.Destination.ToAccountId(),
		Asset:       op.DestAsset,
		Amount:      op.DestAmount,
	}
	return strictReceiveResult(strictReceiveCodes[code],
		&xdr.PathPaymentStrictReceiveResultSuccess{Offers: t.offers, Last: last})
}

var strictReceiveCodes = map[xdr.PaymentResultCode]xdr.PathPaymentStrictReceiveResultCode{
	xdr.PaymentResultCodePaymentSuccess:       xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess,
	xdr.PaymentResultCodePaymentUnderfunded:   xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveUnderfunded,
	xdr.PaymentResultCodePaymentSrcNoTrust:    xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSrcNoTrust,
	xdr.PaymentResultCodePaymentNoDestination: xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveNoDestination,
	xdr.PaymentResultCodePaymentNoTrust:       xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveNoTrust,
	xdr.PaymentResultCodePaymentLineFull:      xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveLineFull,
}

func strictSendResult(
	code xdr.PathPaymentStrictSendResultCode, success *xdr.PathPaymentStrictSendResultSuccess,
) (xdr.OperationResult, bool) {
	ok := code == xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess
	if !ok {
		success = nil
	}
	return inner(xdr.OperationResultTr{
		Type:                        xdr.OperationTypePathPaymentStrictSend,
		PathPaymentStrictSendResult: &xdr.PathPaymentStrictSendResult{Code: code, Success: success},
	}), ok
}

func strictReceiveResult(
	code xdr.PathPaymentStrictReceiveResultCode,
	success *xdr.PathPaymentStrictReceiveResultSuccess,
) (xdr.OperationResult, bool) {
	ok := code == xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess
	if !ok {
		success = nil
	}
	return inner(xdr.OperationResultTr{
		Type:                           xdr.OperationTypePathPaymentStrictReceive,
		PathPaymentStrictReceiveResult: &xdr.PathPaymentStrictReceiveResult{Code: code, Success: success},
	}), ok
}
