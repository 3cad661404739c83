package devnet

import (
	"slices"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// Path payments trade hop by hop at a single market: the issuer of the demo asset sells and buys it
// for lumens at a fixed rate. Results contain the issuer's two offers, as on the real network, but
// they are not ledger entries, because there is no order book.
const (
	lumensPerDemo  = 10
	sellsDemoOffer = 1
	buysDemoOffer  = 2
)

type pathPayment struct {
	strictSend    bool // the amount sent is fixed; otherwise, the amount received is
	destination   xdr.AccountId
	send, receive xdr.Asset
	sent          xdr.Int64 // fixed, or the maximum
	received      xdr.Int64 // fixed, or the minimum
	path          []xdr.Asset
}

func pathOf(body xdr.OperationBody) pathPayment {
	if op := body.PathPaymentStrictSendOp; op != nil {
		return pathPayment{
			true, op.Destination.ToAccountId(), op.SendAsset, op.DestAsset, op.SendAmount,
			op.DestMin, op.Path,
		}
	}
	op := body.PathPaymentStrictReceiveOp
	return pathPayment{
		false, op.Destination.ToAccountId(), op.SendAsset, op.DestAsset, op.SendMax,
		op.DestAmount, op.Path,
	}
}

func (p pathPayment) hops() (pairs [][2]xdr.Asset) {
	before := p.send
	for _, next := range append(p.path[:len(p.path):len(p.path)], p.receive) {
		if !next.Equals(before) {
			pairs = append(pairs, [2]xdr.Asset{before, next})
		}
		before = next
	}
	return pairs
}

// Result codes of both kinds of path payments, in addition to those of payments.
const (
	pathSuccess      = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendSuccess
	pathMalformed    = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendMalformed
	pathTooFewOffers = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendTooFewOffers
	pathOwnOffer     = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendOfferCrossSelf
	// pathTooDear is also the code of a strict-receive payment that exceeds its maximum.
	pathTooDear = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendUnderDestmin
)

func checkPath(_ xdr.AccountId, body xdr.OperationBody) outcome {
	p := pathOf(body)
	valid := p.sent > 0 && p.received > 0
	for _, asset := range append([]xdr.Asset{p.send, p.receive}, p.path...) {
		valid = valid && validAsset(asset)
	}
	if !valid {
		return because(pathMalformed)
	}
	return outcome{}
}

// applyPath moves the fixed amount first, then trades, and then moves the other amount, like the
// real network. Without a hop, it is a payment.
func applyPath(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	p := pathOf(body)
	pairs, sent, received := p.hops(), int64(p.sent), int64(p.received)
	if len(pairs) > 0 {
		return l.applyHops(source, p, pairs)
	}
	amount := received
	if p.strictSend {
		amount = sent
	}
	code := l.pay(source, p.destination, p.send, amount)
	if code == xdr.PaymentResultCodePaymentSuccess && sent < received {
		return because(pathTooDear)
	}
	return p.outcome(code, amount, nil)
}

func (l *layer) applyHops(source xdr.AccountId, p pathPayment, pairs [][2]xdr.Asset) outcome {
	if account(l, p.destination) == nil {
		return because(xdr.PaymentResultCodePaymentNoDestination)
	}
	give := func(amount int64) xdr.PaymentResultCode { return l.debit(source, p.send, amount) }
	take := func(amount int64) xdr.PaymentResultCode {
		return l.credit(p.destination, p.receive, amount)
	}
	fixed, other, amount := take, give, int64(p.received)
	if p.strictSend {
		fixed, other, amount = give, take, int64(p.sent)
	}
	if code := fixed(amount); code != xdr.PaymentResultCodePaymentSuccess {
		return because(code)
	}
	moved, claimed, code := l.tradeAlong(source, pairs, amount, p.strictSend)
	switch {
	case code != pathSuccess:
		return because(code)
	case p.strictSend && moved < int64(p.received), !p.strictSend && moved > int64(p.sent):
		return because(pathTooDear)
	}
	received := int64(p.received)
	if p.strictSend {
		received = moved
	}
	return p.outcome(other(moved), received, claimed)
}

func (l *layer) tradeAlong(
	source xdr.AccountId, pairs [][2]xdr.Asset, amount int64, forward bool,
) (moved int64, claimed []xdr.ClaimAtom, code xdr.PathPaymentStrictSendResultCode) {
	if !forward {
		pairs = slices.Clone(pairs)
		slices.Reverse(pairs)
	}
	for _, pair := range pairs {
		claim, code := l.trade(source, pair, amount, forward)
		if code != pathSuccess {
			return 0, nil, code
		}
		amount = int64(claim.AmountBought)
		if forward {
			amount = int64(claim.AmountSold)
		}
		claimed = append(claimed, xdr.ClaimAtom{
			Type:      xdr.ClaimAtomTypeClaimAtomTypeOrderBook,
			OrderBook: claim,
		})
	}
	if !forward {
		slices.Reverse(claimed) // results list trades from source to destination
	}
	return amount, claimed, pathSuccess
}

// trade exchanges the first asset of pair for the second at the market. amount is in the first
// asset or, if forward is false, in the second. It rounds in favor of the market.
func (l *layer) trade(
	trader xdr.AccountId, pair [2]xdr.Asset, amount int64, forward bool,
) (*xdr.ClaimOfferAtom, xdr.PathPaymentStrictSendResultCode) {
	sellsDemo := pair[0].IsNative() && pair[1].Equals(l.demo)
	buysDemo := pair[0].Equals(l.demo) && pair[1].IsNative()
	maker, _ := l.demo.GetIssuerAccountId()
	multiplies := forward == buysDemo
	switch {
	case !sellsDemo && !buysDemo, account(l, maker) == nil,
		multiplies && amount > unlimited/lumensPerDemo:
		return nil, pathTooFewOffers
	case maker.Equals(trader):
		return nil, pathOwnOffer
	}
	paid, got := amount, amount
	switch {
	case forward && multiplies:
		got = amount * lumensPerDemo
	case forward:
		got = amount / lumensPerDemo
	case multiplies:
		paid = amount * lumensPerDemo
	default:
		paid = (amount-1)/lumensPerDemo + 1
	}
	if l.canGive(maker, pair[1]) < got || l.canTake(maker, pair[0]) < paid {
		return nil, pathTooFewOffers
	}
	l.add(maker, pair[0], paid)
	l.add(maker, pair[1], -got)
	offer := xdr.Int64(buysDemoOffer)
	if sellsDemo {
		offer = sellsDemoOffer
	}
	return &xdr.ClaimOfferAtom{
		SellerId:     maker,
		OfferId:      offer,
		AssetSold:    pair[1],
		AmountSold:   xdr.Int64(got),
		AssetBought:  pair[0],
		AmountBought: xdr.Int64(paid),
	}, pathSuccess
}

// outcome returns the outcome of both kinds of path payments, which have the same form.
func (p pathPayment) outcome(
	code xdr.PaymentResultCode, received int64, claimed []xdr.ClaimAtom,
) outcome {
	o := because(code)
	o.value = xdr.PathPaymentStrictSendResultSuccess{
		Offers: claimed,
		Last: xdr.SimplePaymentResult{
			Destination: p.destination,
			Asset:       p.receive,
			Amount:      xdr.Int64(received),
		},
	}
	return o
}
