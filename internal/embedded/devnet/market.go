package devnet

import (
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// The market has one offer in each direction, from the issuer of the demo asset, at one fixed rate and of
// any size: the issuer takes lumens and issues the asset, or takes the asset and pays lumens it has.
const (
	// MarketLumensPerDemo is what one unit of the demo asset costs, and brings.
	MarketLumensPerDemo = 10

	lumensOfferID = 1 // buys lumens
	demoOfferID   = 2 // buys the demo asset
)

// trade is what became of a path, hop by hop.
type trade struct {
	sent, received int64
	offers         []xdr.ClaimAtom
}

// tradeOutcome says why there is no trade.
type tradeOutcome int

const (
	traded tradeOutcome = iota
	noOffers
	crossedSelf
	tooSmall
)

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

// sendAlong converts an amount that is known at the start of a path. Rounding is to the offer's favour.
func (l *layer) sendAlong(source xdr.AccountId, pairs [][2]xdr.Asset, amount int64) (trade, tradeOutcome) {
	t := trade{sent: amount, received: amount}
	for _, pair := range pairs {
		bought, outcome := l.marketGives(source, pair, t.received)
		if outcome != traded {
			return trade{}, outcome
		}
		t.offers = append(t.offers, l.claim(pair, t.received, bought))
		t.received = bought
	}
	return t, traded
}

// receiveAlong converts backwards from an amount that is known at the end of a path.
func (l *layer) receiveAlong(source xdr.AccountId, pairs [][2]xdr.Asset, amount int64) (trade, tradeOutcome) {
	t := trade{sent: amount, received: amount}
	for i := len(pairs) - 1; i >= 0; i-- {
		sold, outcome := l.marketTakes(source, pairs[i], t.sent)
		if outcome != traded {
			return trade{}, outcome
		}
		t.offers = append([]xdr.ClaimAtom{l.claim(pairs[i], sold, t.sent)}, t.offers...)
		t.sent = sold
	}
	return t, traded
}

func (l *layer) marketGives(source xdr.AccountId, pair [2]xdr.Asset, sold int64) (bought int64, outcome tradeOutcome) {
	switch outcome = l.marketMakes(source, pair); {
	case outcome != traded:
	case pair[0].IsNative():
		bought = sold / MarketLumensPerDemo
	case sold > math.MaxInt64/MarketLumensPerDemo:
		outcome = noOffers
	default:
		bought = sold * MarketLumensPerDemo
	}
	if outcome == traded && bought == 0 {
		outcome = tooSmall
	}
	return bought, outcome
}

func (l *layer) marketTakes(source xdr.AccountId, pair [2]xdr.Asset, bought int64) (sold int64, outcome tradeOutcome) {
	switch outcome = l.marketMakes(source, pair); {
	case outcome != traded:
	case !pair[0].IsNative():
		sold = bought/MarketLumensPerDemo + min(bought%MarketLumensPerDemo, 1)
	case bought > math.MaxInt64/MarketLumensPerDemo:
		outcome = noOffers
	default:
		sold = bought * MarketLumensPerDemo
	}
	return sold, outcome
}

// marketMakes asks whether the market trades these two, with this account. Nobody trades with themselves.
func (l *layer) marketMakes(source xdr.AccountId, pair [2]xdr.Asset) tradeOutcome {
	demo := l.rules.demo
	switch {
	case !(pair[0].IsNative() && pair[1].Equals(demo)) && !(pair[1].IsNative() && pair[0].Equals(demo)):
		return noOffers
	case isIssuer(source, demo):
		return crossedSelf
	case account(l, demo.AlphaNum4.Issuer) == nil:
		return noOffers
	}
	return traded
}

func (l *layer) claim(pair [2]xdr.Asset, sold, bought int64) xdr.ClaimAtom {
	id := xdr.Int64(lumensOfferID)
	if !pair[0].IsNative() {
		id = demoOfferID
	}
	return xdr.ClaimAtom{Type: xdr.ClaimAtomTypeClaimAtomTypeOrderBook, OrderBook: &xdr.ClaimOfferAtom{
		SellerId: l.rules.demo.AlphaNum4.Issuer, OfferId: id,
		AssetSold: pair[1], AmountSold: xdr.Int64(bought), AssetBought: pair[0], AmountBought: xdr.Int64(sold),
	}}
}

// settle moves what a path payment moves: the destination's credit first, as the network does, then the
// sender's debit, and what the market gave and took.
func (l *layer) settle(source, destination xdr.AccountId, send, receive xdr.Asset, t trade) xdr.PaymentResultCode {
	maker := l.rules.demo.AlphaNum4.Issuer
	if len(t.offers) == 0 {
		return l.pay(source, destination, send, t.sent)
	}
	if code := l.pay(maker, destination, receive, t.received); code != xdr.PaymentResultCodePaymentSuccess {
		if code == xdr.PaymentResultCodePaymentUnderfunded {
			return marketIsEmpty
		}
		return code
	}
	return l.pay(source, maker, send, t.sent)
}

// marketIsEmpty stands for an offer that has no lumens left; no payment has this code.
const marketIsEmpty = xdr.PaymentResultCode(1)

func (l *layer) pay(source, destination xdr.AccountId, asset xdr.Asset, amount int64) xdr.PaymentResultCode {
	op := xdr.PaymentOp{Destination: destination.ToMuxedAccount(), Asset: asset, Amount: xdr.Int64(amount)}
	result, _ := applyPayment(l, source, xdr.OperationBody{Type: xdr.OperationTypePayment, PaymentOp: &op})
	return result.Tr.PaymentResult.Code
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

func applyStrictSend(l *layer, source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictSendOp
	t, outcome := l.sendAlong(source, hops(op.SendAsset, op.Path, op.DestAsset), int64(op.SendAmount))
	switch {
	case outcome == noOffers:
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendTooFewOffers, nil)
	case outcome == crossedSelf:
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendOfferCrossSelf, nil)
	case outcome == tooSmall || t.received < int64(op.DestMin):
		return strictSendResult(xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendUnderDestmin, nil)
	}
	destination := op.Destination.ToAccountId()
	code, known := strictSendCodes[l.settle(source, destination, op.SendAsset, op.DestAsset, t)]
	if !known {
		code = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendTooFewOffers
	}
	last := xdr.SimplePaymentResult{Destination: destination, Asset: op.DestAsset, Amount: xdr.Int64(t.received)}
	return strictSendResult(code, &xdr.PathPaymentStrictSendResultSuccess{Offers: t.offers, Last: last})
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
		return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveMalformed, nil)
	}
	return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess, nil)
}

func applyStrictReceive(l *layer, source xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
	op := body.PathPaymentStrictReceiveOp
	t, outcome := l.receiveAlong(source, hops(op.SendAsset, op.Path, op.DestAsset), int64(op.DestAmount))
	switch {
	case outcome == noOffers:
		return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveTooFewOffers, nil)
	case outcome == crossedSelf:
		return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveOfferCrossSelf, nil)
	case t.sent > int64(op.SendMax):
		return strictReceiveResult(xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveOverSendmax, nil)
	}
	destination := op.Destination.ToAccountId()
	code, known := strictReceiveCodes[l.settle(source, destination, op.SendAsset, op.DestAsset, t)]
	if !known {
		code = xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveTooFewOffers
	}
	last := xdr.SimplePaymentResult{Destination: destination, Asset: op.DestAsset, Amount: op.DestAmount}
	return strictReceiveResult(code, &xdr.PathPaymentStrictReceiveResultSuccess{Offers: t.offers, Last: last})
}

var strictReceiveCodes = map[xdr.PaymentResultCode]xdr.PathPaymentStrictReceiveResultCode{
	xdr.PaymentResultCodePaymentSuccess:       xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess,
	xdr.PaymentResultCodePaymentUnderfunded:   xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveUnderfunded,
	xdr.PaymentResultCodePaymentSrcNoTrust:    xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSrcNoTrust,
	xdr.PaymentResultCodePaymentNoDestination: xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveNoDestination,
	xdr.PaymentResultCodePaymentNoTrust:       xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveNoTrust,
	xdr.PaymentResultCodePaymentLineFull:      xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveLineFull,
}

func strictSendResult(code xdr.PathPaymentStrictSendResultCode, success *xdr.PathPaymentStrictSendResultSuccess) (xdr.OperationResult, bool) {
	result := xdr.PathPaymentStrictSendResult{Code: code}
	ok := code == xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess
	if ok {
		result.Success = success
	}
	return inner(xdr.OperationResultTr{Type: xdr.OperationTypePathPaymentStrictSend, PathPaymentStrictSendResult: &result}), ok
}

func strictReceiveResult(code xdr.PathPaymentStrictReceiveResultCode, success *xdr.PathPaymentStrictReceiveResultSuccess) (xdr.OperationResult, bool) {
	result := xdr.PathPaymentStrictReceiveResult{Code: code}
	ok := code == xdr.PathPaymentStrictReceiveResultCodePathPaymentStrictReceiveSuccess
	if ok {
		result.Success = success
	}
	return inner(xdr.OperationResultTr{Type: xdr.OperationTypePathPaymentStrictReceive, PathPaymentStrictReceiveResult: &result}), ok
}
