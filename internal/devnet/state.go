package devnet

import (
	"fmt"
	"math"

	"github.com/stellar/go-stellar-sdk/xdr"
)

const unlimited = math.MaxInt64

type entryKey string

func keyOf(k xdr.LedgerKey) entryKey { return entryKey(mustEncode(k)) }

// mustEncode encodes values that can't fail, because they were created here or decoded before.
func mustEncode(v encodable) []byte {
	raw, err := v.MarshalBinary()
	if err != nil {
		panic(fmt.Sprintf("devnet: %T does not encode: %v", v, err))
	}
	return raw
}

func accountKey(id xdr.AccountId) entryKey {
	key := xdr.LedgerKeyAccount{AccountId: id}
	return keyOf(xdr.LedgerKey{Type: xdr.LedgerEntryTypeAccount, Account: &key})
}

func trustlineKey(id xdr.AccountId, asset xdr.Asset) entryKey {
	key := xdr.LedgerKeyTrustLine{AccountId: id, Asset: asset.ToTrustLineAsset()}
	return keyOf(xdr.LedgerKey{Type: xdr.LedgerEntryTypeTrustline, TrustLine: &key})
}

func claimableKey(id xdr.ClaimableBalanceId) entryKey {
	key := xdr.LedgerKeyClaimableBalance{BalanceId: id}
	return keyOf(xdr.LedgerKey{Type: xdr.LedgerEntryTypeClaimableBalance, ClaimableBalance: &key})
}

// state returns ledger entries or nil. Callers must not modify them.
type state interface {
	load(key entryKey) *xdr.LedgerEntry
}

type entries map[entryKey]*xdr.LedgerEntry

func (e entries) load(key entryKey) *xdr.LedgerEntry { return e[key] }

// merge applies the changes of a ledger. A nil row deletes an entry.
func (e entries) merge(changed map[entryKey]*xdr.LedgerEntry) {
	for key, row := range changed {
		if row == nil {
			delete(e, key)
		} else {
			e[key] = row
		}
	}
}

type closing struct {
	passphrase string
	demo       xdr.Asset
	sequence   uint32
	closeTime  int64 // Unix seconds
}

func newClosing(cfg Config, sequence uint32, closeTime int64) *closing {
	return &closing{
		passphrase: cfg.Passphrase,
		demo:       xdr.MustNewCreditAsset(DemoAssetCode, cfg.Identities.IssuerAddress()),
		sequence:   sequence,
		closeTime:  closeTime,
	}
}

// layer holds changes on top of an unchanged state: those of a ledger on top of the previous state,
// those of a transaction on top of the ledger's, and those of an operation on top of the
// transaction's. To undo the changes, discard the layer.
type layer struct {
	*closing
	below state
	rows  map[entryKey]*xdr.LedgerEntry // nil: deleted
	order []entryKey                    // order of first changes, which makes the meta deterministic

	// ID and events of the operation being applied.
	operation xdr.HashIdPreimageOperationId
	events    []xdr.ContractEvent
}

func newLayer(below state, c *closing) *layer {
	return &layer{closing: c, below: below, rows: map[entryKey]*xdr.LedgerEntry{}}
}

func (l *layer) over() *layer { return newLayer(l, l.closing) }

func (l *layer) mergeInto(below *layer) {
	for _, key := range l.order {
		below.set(key, l.rows[key])
	}
}

func (l *layer) load(key entryKey) *xdr.LedgerEntry {
	if row, ok := l.rows[key]; ok {
		return row
	}
	return l.below.load(key)
}

func (l *layer) set(key entryKey, row *xdr.LedgerEntry) {
	if _, ok := l.rows[key]; !ok {
		l.order = append(l.order, key)
	}
	if row != nil {
		row.LastModifiedLedgerSeq = xdr.Uint32(l.sequence)
	}
	l.rows[key] = row
}

func (l *layer) put(key entryKey, data xdr.LedgerEntryData) {
	l.set(key, &xdr.LedgerEntry{Data: data})
}

// edit returns a copy of an existing entry, which the caller may modify.
func (l *layer) edit(key entryKey) *xdr.LedgerEntryData {
	row := new(xdr.LedgerEntry)
	if err := xdr.SafeUnmarshal(mustEncode(l.load(key)), row); err != nil {
		panic(fmt.Sprintf("devnet: a ledger entry does not decode: %v", err))
	}
	l.set(key, row)
	return &row.Data
}

func (l *layer) editAccount(id xdr.AccountId) *xdr.AccountEntry {
	return l.edit(accountKey(id)).Account
}

func account(s state, id xdr.AccountId) *xdr.AccountEntry {
	if row := s.load(accountKey(id)); row != nil {
		return row.Data.Account
	}
	return nil
}

func trustline(s state, id xdr.AccountId, asset xdr.Asset) *xdr.TrustLineEntry {
	if row := s.load(trustlineKey(id, asset)); row != nil {
		return row.Data.TrustLine
	}
	return nil
}

func (l *layer) createAccount(id xdr.AccountId, balance, seqNum int64) {
	l.put(accountKey(id), xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeAccount,
		Account: &xdr.AccountEntry{
			AccountId:  id,
			Balance:    xdr.Int64(balance),
			SeqNum:     xdr.SequenceNumber(seqNum),
			Thresholds: xdr.Thresholds{1, 0, 0, 0},
		},
	})
}

// changes returns the layer's changes: STATE and UPDATED, STATE and REMOVED, or CREATED.
func (l *layer) changes() xdr.LedgerEntryChanges {
	out := make(xdr.LedgerEntryChanges, 0, 2*len(l.order))
	add := func(c xdr.LedgerEntryChange) { out = append(out, c) }
	for _, key := range l.order {
		before, after := l.below.load(key), l.rows[key]
		if before != nil {
			add(xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryState, State: before})
		}
		switch {
		case before == nil && after != nil:
			add(xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated, Created: after})
		case after != nil:
			add(xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryUpdated, Updated: after})
		case before != nil:
			removed := key.decode()
			add(xdr.LedgerEntryChange{
				Type:    xdr.LedgerEntryChangeTypeLedgerEntryRemoved,
				Removed: &removed,
			})
		}
	}
	return out
}

func (k entryKey) decode() (key xdr.LedgerKey) {
	if err := xdr.SafeUnmarshal([]byte(k), &key); err != nil {
		panic(fmt.Sprintf("devnet: a ledger key does not decode: %v", err))
	}
	return key
}

// minBalance returns an account's minimum balance: two base reserves, and one per entry.
func minBalance(a *xdr.AccountEntry) int64 {
	return (2 + int64(a.NumSubEntries)) * BaseReserveStroops
}

// available returns the amount that an account can spend, which is negative below its minimum.
func available(a *xdr.AccountEntry) int64 { return int64(a.Balance) - minBalance(a) }

func (l *layer) canGive(id xdr.AccountId, asset xdr.Asset) int64 {
	switch {
	case asset.IsNative():
		return max(0, available(account(l, id)))
	case isIssuer(id, asset):
		return unlimited
	}
	if held := trustline(l, id, asset); held != nil {
		return int64(held.Balance)
	}
	return 0
}

func (l *layer) canTake(id xdr.AccountId, asset xdr.Asset) int64 {
	switch {
	case asset.IsNative():
		return unlimited - int64(account(l, id).Balance)
	case isIssuer(id, asset):
		return unlimited
	}
	if held := trustline(l, id, asset); held != nil {
		return int64(held.Limit - held.Balance)
	}
	return 0
}

// add changes a balance, without checking limits. Issuers have no balance of their own asset.
func (l *layer) add(id xdr.AccountId, asset xdr.Asset, amount int64) {
	switch {
	case amount == 0 || isIssuer(id, asset):
	case asset.IsNative():
		l.editAccount(id).Balance += xdr.Int64(amount)
	default:
		l.edit(trustlineKey(id, asset)).TrustLine.Balance += xdr.Int64(amount)
	}
}

// credit is the receiving half of a payment, and debit the sending half. A payment to the issuer
// burns the asset, and succeeds even if the issuer's account doesn't exist any more.
func (l *layer) credit(id xdr.AccountId, asset xdr.Asset, amount int64) xdr.PaymentResultCode {
	switch {
	case isIssuer(id, asset):
		return xdr.PaymentResultCodePaymentSuccess
	case account(l, id) == nil:
		return xdr.PaymentResultCodePaymentNoDestination
	case !asset.IsNative() && trustline(l, id, asset) == nil:
		return xdr.PaymentResultCodePaymentNoTrust
	case l.canTake(id, asset) < amount:
		return xdr.PaymentResultCodePaymentLineFull
	}
	l.add(id, asset, amount)
	return xdr.PaymentResultCodePaymentSuccess
}

func (l *layer) debit(id xdr.AccountId, asset xdr.Asset, amount int64) xdr.PaymentResultCode {
	switch {
	case isIssuer(id, asset):
		return xdr.PaymentResultCodePaymentSuccess
	case !asset.IsNative() && trustline(l, id, asset) == nil:
		return xdr.PaymentResultCodePaymentSrcNoTrust
	case l.canGive(id, asset) < amount:
		return xdr.PaymentResultCodePaymentUnderfunded
	}
	l.add(id, asset, -amount)
	return xdr.PaymentResultCodePaymentSuccess
}

// pay credits the destination before it debits the source, like the real network. If both would
// fail, it returns the destination's error.
func (l *layer) pay(
	source, destination xdr.AccountId, asset xdr.Asset, amount int64,
) xdr.PaymentResultCode {
	if asset.IsNative() && source.Equals(destination) {
		return xdr.PaymentResultCodePaymentSuccess // regardless of the balance, and without changes
	}
	code := l.credit(destination, asset, amount)
	if code == xdr.PaymentResultCodePaymentSuccess {
		code = l.debit(source, asset, amount)
	}
	return code
}

func (l *layer) reserveEntry(id xdr.AccountId) (tooMany, lowReserve bool) {
	switch holder := account(l, id); {
	case holder.NumSubEntries >= maxSubEntries:
		return true, false
	case available(holder) < BaseReserveStroops:
		return false, true
	}
	l.editAccount(id).NumSubEntries++
	return false, false
}

// bumpSequence uses a sequence number and records when, as CAP-21 requires.
func (l *layer) bumpSequence(id xdr.AccountId, seqNum xdr.SequenceNumber) {
	a := l.editAccount(id)
	a.SeqNum = seqNum
	v1 := extension(a)
	if v1.Ext.V2 == nil {
		v1.Ext = xdr.AccountEntryExtensionV1Ext{V: 2, V2: &xdr.AccountEntryExtensionV2{}}
	}
	v1.Ext.V2.Ext = xdr.AccountEntryExtensionV2Ext{V: 3, V3: &xdr.AccountEntryExtensionV3{
		SeqLedger: xdr.Uint32(l.sequence),
		SeqTime:   xdr.TimePoint(l.closeTime),
	}}
}

func extension(a *xdr.AccountEntry) *xdr.AccountEntryExtensionV1 {
	if a.Ext.V1 == nil {
		a.Ext = xdr.AccountEntryExt{V: 1, V1: &xdr.AccountEntryExtensionV1{}}
	}
	return a.Ext.V1
}
