package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The order book: offers are entries of the state like others. What an offer promises to give and
// to take is reserved in its seller's account and trustlines (liabilities, CAP-3), so that it can
// always be taken.

// maxOffersCrossed bounds the offers that one operation takes, as the network does.
const maxOffersCrossed = 1000

func offer(s state, key entryKey) *xdr.OfferEntry {
	if row := s.load(key); row != nil {
		return row.Data.Offer
	}
	return nil
}

func (l *layer) putOffer(o xdr.OfferEntry) {
	key := offerKey(o.SellerId, o.OfferId)
	if l.load(key) == nil {
		l.offers = append(l.offers, key)
	}
	l.put(key, xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeOffer, Offer: &o})
}

// removeOffer deletes an offer that promises nothing any more.
func (l *layer) removeOffer(o xdr.OfferEntry) {
	l.set(offerKey(o.SellerId, o.OfferId), nil)
	l.editAccount(o.SellerId).NumSubEntries--
}

// best is the offer to take next: the cheapest, and the oldest of those; nil if there is none.
func (l *layer) best(wheat, sheep xdr.Asset) (found *xdr.OfferEntry) {
	for _, key := range l.offers {
		o := offer(l, key)
		if o == nil || !o.Selling.Equals(wheat) || !o.Buying.Equals(sheep) {
			continue
		}
		if found == nil || dearer(found.Price, o.Price) ||
			!dearer(o.Price, found.Price) && o.OfferId < found.OfferId {
			found = o
		}
	}
	return found
}

// promise reserves what an offer promises; sign -1 releases it.
func (l *layer) promise(o xdr.OfferEntry, sign xdr.Int64) {
	p := promised(o.Price, int64(o.Amount), unlimited)
	l.reserve(o.SellerId, o.Selling, xdr.Liabilities{Selling: sign * xdr.Int64(p.wheat)})
	l.reserve(o.SellerId, o.Buying, xdr.Liabilities{Buying: sign * xdr.Int64(p.sheep)})
}

func (l *layer) reserve(id xdr.AccountId, asset xdr.Asset, change xdr.Liabilities) {
	var reserved *xdr.Liabilities
	switch {
	case isIssuer(id, asset):
		return
	case asset.IsNative():
		reserved = &extension(l.editAccount(id)).Liabilities
	default:
		line := l.edit(trustlineKey(id, asset)).TrustLine
		if line.Ext.V1 == nil {
			line.Ext = xdr.TrustLineEntryExt{V: 1, V1: &xdr.TrustLineEntryV1{}}
		}
		reserved = &line.Ext.V1.Liabilities
	}
	reserved.Selling += change.Selling
	reserved.Buying += change.Buying
}

// cross takes an offer, in part or whole.
func (l *layer) cross(
	o xdr.OfferEntry, wheatReceive, sheepSend int64, round rounding,
) (xdr.ClaimAtom, exchanged) {
	l.promise(o, -1)
	e := exchange(o.Price, limits{
		wheatSend:    min(int64(o.Amount), l.canGive(o.SellerId, o.Selling)),
		sheepReceive: l.canTake(o.SellerId, o.Buying),
		wheatReceive: wheatReceive,
		sheepSend:    sheepSend,
	}, round)
	l.add(o.SellerId, o.Selling, -e.wheat)
	l.add(o.SellerId, o.Buying, e.sheep)
	left := int64(0)
	if e.wheatStays {
		give := min(int64(o.Amount)-e.wheat, l.canGive(o.SellerId, o.Selling))
		left = adjusted(o.Price, give, l.canTake(o.SellerId, o.Buying))
	}
	if o.Amount = xdr.Int64(left); left == 0 {
		l.removeOffer(o)
	} else {
		l.putOffer(o)
		l.promise(o, 1)
	}
	return xdr.ClaimAtom{
		Type: xdr.ClaimAtomTypeClaimAtomTypeOrderBook,
		OrderBook: &xdr.ClaimOfferAtom{
			SellerId:     o.SellerId,
			OfferId:      o.OfferId,
			AssetSold:    o.Selling,
			AmountSold:   xdr.Int64(e.wheat),
			AssetBought:  o.Buying,
			AmountBought: xdr.Int64(e.sheep),
		},
	}, e
}

// deal is what became of a request to trade.
type deal struct {
	wheat, sheep int64
	claimed      []xdr.ClaimAtom
	end          dealEnd
}

type dealEnd int

const (
	dealDone     dealEnd = iota // all that was wanted
	dealPartly                  // there are no more offers, or none at the price
	dealOwnOffer                // the next offer is the trader's own
	dealTooLong                 // more offers than one operation may take
)

// trade takes offers, the best first, until a limit is met. stop ends it before an offer.
func (l *layer) trade(
	trader xdr.AccountId, wheat, sheep xdr.Asset, wheatReceive, sheepSend int64,
	round rounding, stop func(xdr.OfferEntry) bool,
) (d deal) {
	sent := func() bool { return round != roundReceive && d.sheep == sheepSend }
	received := func() bool { return round != roundSend && d.wheat == wheatReceive }
	for !sent() && !received() {
		o := l.best(wheat, sheep)
		switch {
		case len(d.claimed) == maxOffersCrossed:
			d.end = dealTooLong
			return d
		case o == nil || stop != nil && stop(*o):
			d.end = dealPartly
			return d
		case o.SellerId.Equals(trader):
			d.end = dealOwnOffer
			return d
		}
		claim, e := l.cross(*o, wheatReceive-d.wheat, sheepSend-d.sheep, round)
		d.wheat, d.sheep, d.claimed = d.wheat+e.wheat, d.sheep+e.sheep, append(d.claimed, claim)
		if e.wheatStays {
			if round != roundNormal && !sent() && !received() {
				d.end = dealPartly
			}
			return d
		}
	}
	return d
}
