package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// offerRequest holds the fields that all offer operations share: sell at most so much, buy at most
// so much, at no worse than this price, and put into the book what is not traded at once.
type offerRequest struct {
	selling, buying xdr.Asset
	price           xdr.Price // of what is sold, in what is bought
	sell, buy       int64     // unlimited if the operation does not say
	id              xdr.Int64 // of the offer to change; 0 for a new one
	remove, passive bool
}

func offerOf(body xdr.OperationBody) offerRequest {
	switch body.Type {
	case xdr.OperationTypeManageBuyOffer:
		op := body.ManageBuyOfferOp
		return offerRequest{
			op.Selling, op.Buying, inverse(op.Price), unlimited, int64(op.BuyAmount), op.OfferId,
			op.BuyAmount == 0, false,
		}
	case xdr.OperationTypeCreatePassiveSellOffer:
		op := body.CreatePassiveSellOfferOp
		return offerRequest{
			op.Selling, op.Buying, op.Price, int64(op.Amount), unlimited, 0, false, true,
		}
	default:
		op := body.ManageSellOfferOp
		return offerRequest{
			op.Selling, op.Buying, op.Price, int64(op.Amount), unlimited, op.OfferId,
			op.Amount == 0, false,
		}
	}
}

func checkOffer(_ xdr.AccountId, body xdr.OperationBody) outcome {
	r := offerOf(body)
	if !validAsset(r.selling) || !validAsset(r.buying) || r.selling.Equals(r.buying) ||
		r.price.N <= 0 || r.price.D <= 0 || r.sell < 0 || r.buy < 0 || r.id < 0 ||
		r.remove && r.id == 0 {
		return because(xdr.ManageSellOfferResultCodeManageSellOfferMalformed)
	}
	return outcome{}
}

// applyOffer fails with the codes of offers to sell: offers to buy have the same under other names.
func applyOffer(l *layer, source xdr.AccountId, body xdr.OperationBody) outcome {
	r := offerOf(body)
	entry := xdr.OfferEntry{
		SellerId: source,
		OfferId:  r.id,
		Selling:  r.selling,
		Buying:   r.buying,
		Price:    r.price,
	}
	if r.passive {
		entry.Flags = xdr.Uint32(xdr.OfferEntryFlagsPassiveFlag)
	}
	if o := l.hasTrustlines(source, r); !o.ok() {
		return o
	}
	if o := l.beginOffer(source, r, &entry); !o.ok() {
		return o
	}
	if r.remove {
		l.removeOffer(entry)
		return outcome{value: xdr.ManageOfferSuccessResult{Offer: offerDeleted}}
	}
	d, o := l.match(source, r)
	if !o.ok() {
		return o
	}
	return outcome{value: xdr.ManageOfferSuccessResult{
		OffersClaimed: d.claimed,
		Offer:         l.putRest(r, d, entry),
	}}
}

var offerDeleted = xdr.ManageOfferSuccessResultOffer{
	Effect: xdr.ManageOfferEffectManageOfferDeleted,
}

// hasTrustlines asks for the trustlines that an offer needs.
func (l *layer) hasTrustlines(source xdr.AccountId, r offerRequest) outcome {
	needs := func(asset xdr.Asset) bool {
		return !r.remove && !asset.IsNative() && !isIssuer(source, asset)
	}
	if needs(r.selling) {
		switch line := trustline(l, source, r.selling); {
		case line == nil:
			return because(xdr.ManageSellOfferResultCodeManageSellOfferSellNoTrust)
		case line.Balance == 0:
			return because(xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded)
		}
	}
	if needs(r.buying) && trustline(l, source, r.buying) == nil {
		return because(xdr.ManageSellOfferResultCodeManageSellOfferBuyNoTrust)
	}
	return outcome{}
}

// beginOffer takes the offer to change out of the book and releases what it promised, or reserves
// an entry for a new one.
func (l *layer) beginOffer(source xdr.AccountId, r offerRequest, entry *xdr.OfferEntry) outcome {
	if r.id == 0 {
		switch tooMany, low := l.reserveEntry(source); {
		case tooMany:
			return tooManyOwned
		case low:
			return because(xdr.ManageSellOfferResultCodeManageSellOfferLowReserve)
		}
		return outcome{}
	}
	key := offerKey(source, r.id)
	old := offer(l, key)
	if old == nil {
		return because(xdr.ManageSellOfferResultCodeManageSellOfferNotFound)
	}
	l.promise(*old, -1)
	l.set(key, nil)
	entry.Flags = old.Flags
	return outcome{}
}

// match trades what can be traded at once.
func (l *layer) match(source xdr.AccountId, r offerRequest) (deal, outcome) {
	give, take := l.canGive(source, r.selling), l.canTake(source, r.buying)
	promises := promised(r.price, r.sell, r.buy)
	switch {
	case take < promises.sheep || take == 0:
		return deal{}, because(xdr.ManageSellOfferResultCodeManageSellOfferLineFull)
	case give < promises.wheat:
		return deal{}, because(xdr.ManageSellOfferResultCodeManageSellOfferUnderfunded)
	}
	limit := inverse(r.price)
	d := l.trade(source, r.buying, r.selling, min(take, r.buy), min(give, r.sell), roundNormal,
		func(o xdr.OfferEntry) bool {
			return dearer(o.Price, limit) || r.passive && !dearer(limit, o.Price)
		})
	switch d.end {
	case dealOwnOffer:
		return d, because(xdr.ManageSellOfferResultCodeManageSellOfferCrossSelf)
	case dealTooLong:
		return d, general(xdr.OperationResultCodeOpExceededWorkLimit)
	case dealDone, dealPartly:
	}
	l.add(source, r.selling, -d.sheep)
	l.add(source, r.buying, d.wheat)
	return d, outcome{}
}

// putRest puts what was not traded into the book.
func (l *layer) putRest(
	r offerRequest, d deal, entry xdr.OfferEntry,
) xdr.ManageOfferSuccessResultOffer {
	left := int64(0)
	if d.end == dealPartly {
		give := min(rest(r.sell, d.sheep), l.canGive(entry.SellerId, r.selling))
		left = adjusted(r.price, give, min(rest(r.buy, d.wheat), l.canTake(entry.SellerId, r.buying)))
	}
	switch {
	case left == 0 && entry.OfferId != 0:
		l.removeOffer(entry)
		return offerDeleted
	case left == 0:
		l.editAccount(entry.SellerId).NumSubEntries--
		return offerDeleted
	}
	effect := xdr.ManageOfferEffectManageOfferUpdated
	if entry.OfferId == 0 {
		effect = xdr.ManageOfferEffectManageOfferCreated
		l.lastOffer++
		entry.OfferId = l.lastOffer
	}
	entry.Amount = xdr.Int64(left)
	l.putOffer(entry)
	l.promise(entry, 1)
	return xdr.ManageOfferSuccessResultOffer{Effect: effect, Offer: &entry}
}

func rest(limit, used int64) int64 {
	if limit == unlimited {
		return limit
	}
	return limit - used
}
