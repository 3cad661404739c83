package devnet

import (
	"math/big"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// The arithmetic of one trade (CAP-4). An offer sells wheat for sheep at a price of n/d sheep for
// a unit of wheat. Rounding favours the offer that stays in the book, so that what is promised
// there can always be kept.

// rounding says what is fixed in a trade.
type rounding int

const (
	roundNormal  rounding = iota // nothing: two offers meet
	roundSend                    // all sheep are sent: a path payment's strict send
	roundReceive                 // all wheat is received: its strict receive
)

// exchanged is what changes hands. wheatStays says that the offer is not used up.
type exchanged struct {
	wheat, sheep int64
	wheatStays   bool
}

// limits are the most that each side gives and takes.
type limits struct {
	wheatSend, sheepReceive int64 // the offer
	wheatReceive, sheepSend int64 // the account that takes it
}

func product(a int64, b xdr.Int32) *big.Int {
	return new(big.Int).Mul(big.NewInt(a), big.NewInt(int64(b)))
}

func smaller(a, b *big.Int) *big.Int {
	if a.Cmp(b) <= 0 {
		return a
	}
	return b
}

// quotient fits an int64: what is divided is a limit of that size times a part of a price.
func quotient(a *big.Int, b xdr.Int32, up bool) int64 {
	q, rest := new(big.Int).QuoRem(a, big.NewInt(int64(b)), new(big.Int))
	if up && rest.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

// exchange trades as much as the limits allow; nothing if rounding would move the price by more
// than one per cent.
func exchange(price xdr.Price, b limits, round rounding) exchanged {
	e := exchangeAtAnyPrice(price, b, round)
	asked, paid := product(e.wheat, price.N), product(e.sheep, price.D)
	off := new(big.Int).Sub(asked, paid)
	unfair := off.Abs(off).Mul(off, big.NewInt(100)).Cmp(asked) > 0
	switch {
	case round == roundSend && e.sheep > 0:
	case e.wheat == 0 || e.sheep == 0, round == roundNormal && unfair:
		e.wheat, e.sheep = 0, 0
	}
	return e
}

func exchangeAtAnyPrice(price xdr.Price, b limits, round rounding) (e exchanged) {
	offered := smaller(product(b.wheatSend, price.N), product(b.sheepReceive, price.D))
	wanted := smaller(product(b.sheepSend, price.D), product(b.wheatReceive, price.N))
	e.wheatStays = offered.Cmp(wanted) > 0
	switch {
	case e.wheatStays && round == roundSend:
		e.wheat = quotient(wanted, price.N, false)
		e.sheep = min(b.sheepSend, b.sheepReceive)
	case e.wheatStays && (price.N > price.D || round == roundReceive):
		e.wheat = quotient(wanted, price.N, false)
		e.sheep = quotient(product(e.wheat, price.N), price.D, true)
	case e.wheatStays:
		e.sheep = quotient(wanted, price.D, false)
		e.wheat = quotient(product(e.sheep, price.D), price.N, false)
	case price.N > price.D:
		e.wheat = quotient(offered, price.N, false)
		e.sheep = quotient(product(e.wheat, price.N), price.D, false)
	default:
		e.sheep = quotient(offered, price.D, false)
		e.wheat = quotient(product(e.sheep, price.D), price.N, true)
	}
	return e
}

// promised is what an offer may still give and take at most: its liabilities.
func promised(price xdr.Price, wheatSend, sheepReceive int64) exchanged {
	l := limits{wheatSend, sheepReceive, unlimited, unlimited}
	return exchangeAtAnyPrice(price, l, roundNormal)
}

// adjusted is the amount that an offer can have in the book.
func adjusted(price xdr.Price, wheatSend, sheepReceive int64) int64 {
	return exchange(price, limits{wheatSend, sheepReceive, unlimited, unlimited}, roundNormal).wheat
}

func inverse(price xdr.Price) xdr.Price { return xdr.Price{N: price.D, D: price.N} }

// dearer reports whether one price is higher than another.
func dearer(a, b xdr.Price) bool { return int64(a.N)*int64(b.D) > int64(b.N)*int64(a.D) }
