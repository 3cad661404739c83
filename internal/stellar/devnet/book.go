package devnet

import (
	"github.com/stellar/go-stellar-sdk/xdr"
)

// The order book: offers are entries of the state like others. What an offer promises to give and
// to take is reserved in its seller's account and trustlines (liabilities, CAP-3), so that it can
// always be taken.

// maxOffersCrossed bounds the offers that one operation takes, as the network does.
const maxOffersCrossed = 1000

// book knows the keys of all offers that a ledger may meet: those of the state before it, and
// those made in it. Whether an offer still stands, and at which price, is a question to the layer.
type book struct {
	base ground
	keys []entryKey
	read bool
}

func (b *book) offers() []entryKey {
	if !b.read {
		b.keys, b.read = append(b.base.offers(), b.keys...), true
	}
	return b.keys
}

func offerKey(seller xdr.AccountId, id xdr.Int64) entryKey {
	return keyOf(
		xdr.LedgerKey{
			Type:  xdr.LedgerEntryTypeOffer,
			Offer: &xdr.LedgerKeyOffer{SellerId: seller, OfferId: id},
		},
	)
}

func offer(s state, key entryKey) *xdr.OfferEntry {
	if row := s.load(key); row != nil {
		return row.Data.Offer
	}
	return nil
}

func (l *layer) putOffer(o xdr.OfferEntry) {
	key := offerKey(o.SellerId, o.OfferId)
	if l.load(key) == nil {
		l.book.keys = append(l.book.keys, key)
	}
	l.set(
		key,
		&xdr.LedgerEntry{Data: xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeOffer, Offer: &o}},
	)
}

// best is the offer to take next: the cheapest, and the oldest of those; nil when there is none.
func (l *layer) best(wheat, sheep xdr.Asset) (found *xdr.OfferEntry) {
	for _, key := range l.book.offers() {
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

// canGive is how much of an asset an account can part with; canTake how much it can receive.
func (l *layer) canGive(id xdr.AccountId, asset xdr.Asset) int64 {
	return l.capacity(id, asset, available, lineAvailable)
}

func (l *layer) canTake(id xdr.AccountId, asset xdr.Asset) int64 {
	return l.capacity(id, asset, roomFor, lineRoom)
}

func (l *layer) capacity(
	id xdr.AccountId,
	asset xdr.Asset,
	lumens func(*xdr.AccountEntry) int64,
	line func(*xdr.TrustLineEntry) int64,
) int64 {
	switch {
	case asset.IsNative():
		return max(0, lumens(account(l, id)))
	case isIssuer(id, asset):
		return unlimited
	}
	if held := trustline(l, id, asset); held != nil {
		return max(0, line(held))
	}
	return 0
}

// add changes a balance by what capacity allows. An issuer's own asset is made and burnt.
func (l *layer) add(id xdr.AccountId, asset xdr.Asset, amount int64) {
	switch {
	case amount == 0 || isIssuer(id, asset):
	case asset.IsNative():
		l.editAccount(id).Balance += xdr.Int64(amount)
	default:
		l.editTrustline(id, asset).Balance += xdr.Int64(amount)
	}
}

// promise reserves what an offer promises; sign -1 gives it free again.
func (l *layer) promise(o xdr.OfferEntry, sign xdr.Int64) {
	p := promised(o.Price, int64(o.Amount), unlimited)
	l.reserve(o.SellerId, o.Selling, xdr.Liabilities{Selling: sign * xdr.Int64(p.wheat)})
	l.reserve(o.SellerId, o.Buying, xdr.Liabilities{Buying: sign * xdr.Int64(p.sheep)})
}

func (l *layer) reserve(id xdr.AccountId, asset xdr.Asset, change xdr.Liabilities) {
	var kept *xdr.Liabilities
	switch {
	case isIssuer(id, asset):
		return
	case asset.IsNative():
		kept = &extensionV1(l.editAccount(id)).Liabilities
	default:
		line := l.editTrustline(id, asset)
		if line.Ext.V1 == nil {
			line.Ext = xdr.TrustLineEntryExt{V: 1, V1: &xdr.TrustLineEntryV1{}}
		}
		kept = &line.Ext.V1.Liabilities
	}
	kept.Selling += change.Selling
	kept.Buying += change.Buying
}

// removeOffer takes an offer that promises nothing any more out of the book.
func (l *layer) removeOffer(o xdr.OfferEntry) {
	l.set(offerKey(o.SellerId, o.OfferId), nil)
	l.editAccount(o.SellerId).NumSubEntries--
}

// cross takes an offer, in part or whole.
func (l *layer) cross(
	o xdr.OfferEntry, wheatReceive, sheepSend int64, round rounding,
) (xdr.ClaimAtom, exchanged) {
	l.promise(o, -1)
	b := bounds{
		wheatSend:    min(int64(o.Amount), l.canGive(o.SellerId, o.Selling)),
		sheepReceive: l.canTake(o.SellerId, o.Buying),
		wheatReceive: wheatReceive,
		sheepSend:    sheepSend,
	}
	e := exchange(o.Price, b, round)
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

// deal is what became of a wish to trade.
type deal struct {
	wheat, sheep int64
	claimed      []xdr.ClaimAtom
	outcome      dealOutcome
}

type dealOutcome int

const (
	dealDone     dealOutcome = iota // all that was wanted
	dealPartly                      // there are no more offers, or none at the price
	dealOwnOffer                    // the next offer is the trader's own
	dealTooLong                     // more offers than one operation may take
)

// trade takes offers, the best first, until the bounds are met. stop ends it before an offer.
func (l *layer) trade(
	trader xdr.AccountId,
	wheat, sheep xdr.Asset,
	wheatReceive, sheepSend int64,
	round rounding,
	stop func(xdr.OfferEntry) bool,
) (d deal) {
	for {
		switch {
		case round != roundReceive && d.sheep == sheepSend,
			round != roundSend && d.wheat == wheatReceive:
			return d
		case len(d.claimed) == maxOffersCrossed:
			d.outcome = dealTooLong
			return d
		}
		o := l.best(wheat, sheep)
		switch {
		case o == nil || stop != nil && stop(*o):
			d.outcome = dealPartly
			return d
		case o.SellerId.Equals(trader):
			d.outcome = dealOwnOffer
			return d
		}
		claim, e := l.cross(*o, wheatReceive-d.wheat, sheepSend-d.sheep, round)
		d.wheat, d.sheep, d.claimed = d.wheat+e.wheat, d.sheep+e.sheep, append(d.claimed, claim)
		if e.wheatStays {
			if round == roundSend && d.sheep != sheepSend ||
				round == roundReceive && d.wheat != wheatReceive {
				d.outcome = dealPartly
			}
			return d
		}
	}
}
