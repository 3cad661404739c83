package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// Path payments trade through the order book, hop by hop. From the first ledger on it has a market
// for the demo asset: two offers of the issuer at one rate, one in each direction.

// pathPayment holds the fields that both kinds of path payments share.
type pathPayment struct {
	strictSend    bool // the amount to send is fixed; otherwise the amount to receive is
	destination   xdr.AccountId
	send, receive xdr.Asset
	sent          xdr.Int64 // at most, unless it is fixed
	received      xdr.Int64 // at least, unless it is fixed
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

// hops are the changes of asset along the path.
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

// The codes of path payments: those of payments, which both kinds have too, and these.
const (
	pathMalformed    = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendMalformed
	pathTooFewOffers = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendTooFewOffers
	pathOwnOffer     = xdr.PathPaymentStrictSendResultCodePathPaymentStrictSendOfferCrossSelf
	// pathTooDear is also the code of a strict receive that would send more than allowed.
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

// applyPath moves the fixed amount first, trades, and then moves the other one, in the network's
// order. Without a hop it is a payment.
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
	moved, claimed, end := l.tradeAlong(source, pairs, amount, p.strictSend)
	switch {
	case end == dealTooLong:
		return general(xdr.OperationResultCodeOpExceededWorkLimit)
	case end == dealOwnOffer:
		return because(pathOwnOffer)
	case end == dealPartly:
		return because(pathTooFewOffers)
	case p.strictSend && moved < int64(p.received), !p.strictSend && moved > int64(p.sent):
		return because(pathTooDear)
	}
	received := int64(p.received)
	if p.strictSend {
		received = moved
	}
	return p.outcome(other(moved), received, claimed)
}

// tradeAlong converts the amount that is sent, or backwards the one that is received.
func (l *layer) tradeAlong(
	source xdr.AccountId, pairs [][2]xdr.Asset, amount int64, forward bool,
) (moved int64, claimed []xdr.ClaimAtom, end dealEnd) {
	for i := range pairs {
		pair := pairs[i]
		var d deal
		if forward {
			d = l.trade(source, pair[1], pair[0], unlimited, amount, roundSend, nil)
			amount, claimed = d.wheat, append(claimed, d.claimed...)
		} else {
			pair = pairs[len(pairs)-1-i]
			d = l.trade(source, pair[1], pair[0], amount, unlimited, roundReceive, nil)
			amount, claimed = d.sheep, append(d.claimed, claimed...)
		}
		if d.end != dealDone {
			return 0, nil, d.end
		}
	}
	return amount, claimed, dealDone
}

// outcome has the success of a strict send: that of a strict receive has the same form.
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
