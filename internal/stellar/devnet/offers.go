package devnet

import (
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

// wish is what the operations that manage offers have in common: sell at most so much, buy at most
// so much, at no worse than this price, and leave what is not traded at once in the book.
type wish struct {
	selling, buying xdr.Asset
	price           xdr.Price // of what is sold, in what is bought
	sell, buy       int64     // unlimited where the operation does not say
	id              xdr.Int64 // of the offer to change; 0 for a new one
	remove, passive bool
}

// granted is what became of a wish: a code of the operation as a whole, or one that offers have.
// Selling and buying offers have the same codes under other names. The zero is success.
type granted struct {
	operation xdr.OperationResultCode
	code      xdr.ManageSellOfferResultCode
}

func (g granted) ok() bool { return g == granted{} }

func (w wish) malformed() bool {
	return !validAsset(w.selling) || !validAsset(w.buying) || w.selling.Equals(w.buying) ||
		w.price.N <= 0 || w.price.D <= 0 ||
		w.sell < 0 || w.buy < 0 ||
		w.id < 0 ||
		w.remove && w.id == 0
}

// manage carries a wish out.
func (l *layer) manage(
	source xdr.AccountId, w wish,
) (success xdr.ManageOfferSuccessResult, g granted) {
	entry := xdr.OfferEntry{
		SellerId: source,
		OfferId:  w.id,
		Selling:  w.selling,
		Buying:   w.buying,
		Price:    w.price,
	}
	if w.passive {
		entry.Flags = xdr.Uint32(xdr.OfferEntryFlagsPassiveFlag)
	}
	if g = l.mayOffer(source, w); !g.ok() {
		return success, g
	}
	if g = l.begin(source, w, &entry); !g.ok() {
		return success, g
	}
	if w.remove {
		l.removeOffer(entry)
		success.Offer.Effect = xdr.ManageOfferEffectManageOfferDeleted
		return success, g
	}
	d, g := l.match(source, w)
	if !g.ok() {
		return success, g
	}
	return xdr.ManageOfferSuccessResult{OffersClaimed: d.claimed, Offer: l.leave(w, d, entry)}, g
}

// mayOffer asks for the trustlines that an offer needs.
func (l *layer) mayOffer(source xdr.AccountId, w wish) granted {
	if w.remove {
		return granted{}
	}
	if !w.selling.IsNative() && !isIssuer(source, w.selling) {
		line := trustline(l, source, w.selling)
		switch {
		case line == nil:
			return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferSellNoTrust}
		case line.Balance == 0:
			return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded}
		}
	}
	if !w.buying.IsNative() && !isIssuer(source, w.buying) &&
		trustline(l, source, w.buying) == nil {
		return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferBuyNoTrust}
	}
	return granted{}
}

// begin takes the offer to change out of the book and gives free what it promised, or makes place
// for a new one.
func (l *layer) begin(source xdr.AccountId, w wish, entry *xdr.OfferEntry) granted {
	if w.id != 0 {
		key := offerKey(source, w.id)
		old := offer(l, key)
		if old == nil {
			return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferNotFound}
		}
		l.promise(*old, -1)
		l.set(key, nil)
		entry.Flags = old.Flags
		return granted{}
	}
	switch holder := account(l, source); {
	case holder.NumSubEntries >= maxSubEntries:
		return granted{operation: xdr.OperationResultCodeOpTooManySubentries}
	case available(holder) < BaseReserveStroops:
		return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferLowReserve}
	}
	l.editAccount(source).NumSubEntries++
	return granted{}
}

// match trades what can be traded at once.
func (l *layer) match(source xdr.AccountId, w wish) (deal, granted) {
	give, take := l.canGive(source, w.selling), l.canTake(source, w.buying)
	promises := promised(w.price, w.sell, w.buy)
	switch {
	case take < promises.sheep || take == 0:
		return deal{}, granted{code: xdr.ManageSellOfferResultCodeManageSellOfferLineFull}
	case give < promises.wheat:
		return deal{}, granted{code: xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded}
	}
	limit := inverse(w.price)
	d := l.trade(
		source,
		w.buying,
		w.selling,
		min(take, w.buy),
		min(give, w.sell),
		roundNormal,
		func(o xdr.OfferEntry) bool {
			return dearer(o.Price, limit) || w.passive && !dearer(limit, o.Price)
		},
	)
	switch d.outcome {
	case dealOwnOffer:
		return d, granted{code: xdr.ManageSellOfferResultCodeManageSellOfferCrossSelf}
	case dealTooLong:
		return d, granted{operation: xdr.OperationResultCodeOpExceededWorkLimit}
	case dealDone, dealPartly:
	}
	l.add(source, w.selling, -d.sheep)
	l.add(source, w.buying, d.wheat)
	return d, granted{}
}

// leave puts what was not traded into the book.
func (l *layer) leave(w wish, d deal, entry xdr.OfferEntry) xdr.ManageOfferSuccessResultOffer {
	left := int64(0)
	if d.outcome == dealPartly {
		give := min(rest(w.sell, d.sheep), l.canGive(entry.SellerId, w.selling))
		left = adjusted(w.price, give, min(rest(w.buy, d.wheat), l.canTake(entry.SellerId, w.buying)))
	}
	effect := xdr.ManageOfferEffectManageOfferUpdated
	if entry.OfferId == 0 {
		effect = xdr.ManageOfferEffectManageOfferCreated
	}
	if left == 0 {
		if entry.OfferId != 0 {
			l.removeOffer(entry)
		} else {
			l.editAccount(entry.SellerId).NumSubEntries--
		}
		return xdr.ManageOfferSuccessResultOffer{Effect: xdr.ManageOfferEffectManageOfferDeleted}
	}
	if entry.OfferId == 0 {
		l.lastOffer++
		entry.OfferId = xdr.Int64(l.lastOffer)
	}
	entry.Amount = xdr.Int64(left)
	l.putOffer(entry)
	l.promise(entry, 1)
	return xdr.ManageOfferSuccessResultOffer{Effect: effect, Offer: &entry}
}

func rest(limit, used int64) int64 {
	if limit == math.MaxInt64 {
		return limit
	}
	return limit - used
}

func sellWish(body xdr.OperationBody) wish {
	op := body.ManageSellOfferOp
	return wish{
		selling: op.Selling,
		buying:  op.Buying,
		price:   op.Price,
		sell:    int64(op.Amount),
		buy:     unlimited,
		id:      op.OfferId,
		remove:  op.Amount == 0,
	}
}

func buyWish(body xdr.OperationBody) wish {
	op := body.ManageBuyOfferOp
	return wish{
		selling: op.Selling,
		buying:  op.Buying,
		price:   inverse(op.Price),
		sell:    unlimited,
		buy:     int64(op.BuyAmount),
		id:      op.OfferId,
		remove:  op.BuyAmount == 0,
	}
}

func passiveWish(body xdr.OperationBody) wish {
	op := body.CreatePassiveSellOfferOp
	return wish{
		selling: op.Selling,
		buying:  op.Buying,
		price:   op.Price,
		sell:    int64(op.Amount),
		buy:     unlimited,
		passive: true,
	}
}

// offering returns the kind of operations that make an offer, change it or take it back.
func offering(
	wishOf func(xdr.OperationBody) wish,
	resultOf func(granted, xdr.ManageOfferSuccessResult) (xdr.OperationResult, bool),
) operationKind {
	return operationKind{
		check: func(_ xdr.AccountId, body xdr.OperationBody) (xdr.OperationResult, bool) {
			return resultOf(checkWish(wishOf(body)), xdr.ManageOfferSuccessResult{})
		},
		apply: func(
			l *layer, source xdr.AccountId, body xdr.OperationBody,
		) (xdr.OperationResult, bool) {
			success, g := l.manage(source, wishOf(body))
			return resultOf(g, success)
		},
	}
}

func checkWish(w wish) granted {
	if w.malformed() {
		return granted{code: xdr.ManageSellOfferResultCodeManageSellOfferMalformed}
	}
	return granted{}
}

func sellOfferResult(g granted, success xdr.ManageOfferSuccessResult) (xdr.OperationResult, bool) {
	result := xdr.ManageSellOfferResult{Code: g.code, Success: successful(g, success)}
	return offerResult(
		g,
		xdr.OperationResultTr{Type: xdr.OperationTypeManageSellOffer, ManageSellOfferResult: &result},
	)
}

func buyOfferResult(g granted, success xdr.ManageOfferSuccessResult) (xdr.OperationResult, bool) {
	result := xdr.ManageBuyOfferResult{
		Code:    xdr.ManageBuyOfferResultCode(g.code),
		Success: successful(g, success),
	}
	return offerResult(
		g,
		xdr.OperationResultTr{Type: xdr.OperationTypeManageBuyOffer, ManageBuyOfferResult: &result},
	)
}

func successful(g granted, success xdr.ManageOfferSuccessResult) *xdr.ManageOfferSuccessResult {
	if !g.ok() {
		return nil
	}
	return &success
}

func offerResult(g granted, tr xdr.OperationResultTr) (xdr.OperationResult, bool) {
	if g.operation != xdr.OperationResultCodeOpInner {
		return xdr.OperationResult{Code: g.operation}, false
	}
	return inner(tr), g.ok()
}
