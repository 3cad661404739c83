package devnet

import (
	"fmt"
	"math"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// entryKey is a LedgerKey in XDR: the name of a row of the state.
type entryKey string

func keyOf(k xdr.LedgerKey) entryKey {
	raw, err := k.MarshalBinary()
	if err != nil {
		// accounts and credit assets always do
		panic(fmt.Sprintf("devnet: a ledger key does not encode: %v", err))
	}
	return entryKey(raw)
}

func accountKey(id xdr.AccountId) entryKey {
	return keyOf(xdr.LedgerKey{
		Type:    xdr.LedgerEntryTypeAccount,
		Account: &xdr.LedgerKeyAccount{AccountId: id},
	})
}

func trustlineKey(id xdr.AccountId, asset xdr.Asset) entryKey {
	return keyOf(xdr.LedgerKey{
		Type:      xdr.LedgerEntryTypeTrustline,
		TrustLine: &xdr.LedgerKeyTrustLine{AccountId: id, Asset: asset.ToTrustLineAsset()},
	})
}

// state is something that rows can be read from. The row belongs to the state and must not be
// changed. A row that is not there is nil. A failed read of the disk panics with a readFault,
// which closeLedger and submit turn into an error: it cannot be handled anywhere between.
type state interface {
	load(key entryKey) *xdr.LedgerEntry
}

// ground is a state between two ledgers, which can list all its offers.
type ground interface {
	state
	offers() []entryKey
}

type readFault struct{ err error }

// catchReadFault turns the panic of a failed disk read into the error of the function that
// defers it.
func catchReadFault(err *error) {
	switch r := recover().(type) {
	case nil:
	case readFault:
		*err = r.err
	default:
		panic(r)
	}
}

// diskState reads the state of the last ledger.
type diskState struct{ r pebble.Reader }

func (d diskState) load(key entryKey) *xdr.LedgerEntry {
	entry, err := readEntry(d.r, key)
	if err != nil {
		panic(readFault{err})
	}
	return entry
}

func (d diskState) offers() []entryKey {
	keys, err := readKeys(d.r, xdr.LedgerEntryTypeOffer)
	if err != nil {
		panic(readFault{err})
	}
	return keys
}

// layer holds changes over a state that is not changed itself: a ledger's over the disk, a
// transaction's over the ledger's, an operation's over the transaction's. A layer that is
// thrown away never happened.
type layer struct {
	below    state
	sequence uint32                        // of the ledger being made, stamped on what is changed
	rows     map[entryKey]*xdr.LedgerEntry // nil: deleted
	order    []entryKey                    // of first change, so that meta repeats
	cache    bool                          // keep what was read from below
	read     map[entryKey]*xdr.LedgerEntry
	rules    rules

	closeTime int64  // of the ledger being made, Unix seconds
	lastOffer uint64 // identifier of the newest offer
	book      *book  // of the ledger, shared by its layers

	// Of the operation that is being applied: its name, and the events it emits.
	operation xdr.HashIdPreimageOperationId
	events    []xdr.ContractEvent
}

// rules are what operations need to know of the network.
type rules struct {
	passphrase string
	demo       xdr.Asset
}

func newLayer(below state, sequence uint32) *layer {
	l := &layer{below: below, sequence: sequence, rows: map[entryKey]*xdr.LedgerEntry{}}
	if under, ok := below.(*layer); ok {
		l.rules, l.lastOffer, l.book = under.rules, under.lastOffer, under.book
		l.closeTime = under.closeTime
	}
	return l
}

func (l *layer) load(key entryKey) *xdr.LedgerEntry {
	if row, ok := l.rows[key]; ok {
		return row
	}
	if row, ok := l.read[key]; ok {
		return row
	}
	row := l.below.load(key)
	if l.cache {
		if l.read == nil {
			l.read = map[entryKey]*xdr.LedgerEntry{}
		}
		l.read[key] = row
	}
	return row
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

// account returns the account to read, nil when there is none.
func account(s state, id xdr.AccountId) *xdr.AccountEntry {
	if row := s.load(accountKey(id)); row != nil {
		return row.Data.Account
	}
	return nil
}

// editAccount returns the account to change; it must exist.
func (l *layer) editAccount(id xdr.AccountId) *xdr.AccountEntry {
	key := accountKey(id)
	row := *l.load(key)
	row.Data.Account = copyAccount(row.Data.Account)
	l.set(key, &row)
	return row.Data.Account
}

// copyAccount copies an account with all that hangs from it.
func copyAccount(of *xdr.AccountEntry) *xdr.AccountEntry {
	a := *of
	a.Signers = slices.Clone(a.Signers)
	if a.Ext.V1 == nil {
		return &a
	}
	v1 := *a.Ext.V1
	a.Ext.V1 = &v1
	if v1.Ext.V2 == nil {
		return &a
	}
	v2 := *v1.Ext.V2
	v2.SignerSponsoringIDs = slices.Clone(v2.SignerSponsoringIDs)
	a.Ext.V1.Ext.V2 = &v2
	if v2.Ext.V3 != nil {
		v3 := *v2.Ext.V3
		v2.Ext.V3 = &v3
	}
	return &a
}

func trustline(s state, id xdr.AccountId, asset xdr.Asset) *xdr.TrustLineEntry {
	if row := s.load(trustlineKey(id, asset)); row != nil {
		return row.Data.TrustLine
	}
	return nil
}

// editTrustline returns the trustline to change; it must exist.
func (l *layer) editTrustline(id xdr.AccountId, asset xdr.Asset) *xdr.TrustLineEntry {
	key := trustlineKey(id, asset)
	row := *l.load(key)
	copied := *row.Data.TrustLine
	if copied.Ext.V1 != nil {
		v1 := *copied.Ext.V1
		copied.Ext.V1 = &v1
	}
	row.Data.TrustLine = &copied
	l.set(key, &row)
	return &copied
}

func (l *layer) createAccount(id xdr.AccountId, balance, seqNum int64) {
	l.set(accountKey(id), &xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeAccount,
		Account: &xdr.AccountEntry{
			AccountId:  id,
			Balance:    xdr.Int64(balance),
			SeqNum:     xdr.SequenceNumber(seqNum),
			Thresholds: xdr.Thresholds{1, 0, 0, 0},
		},
	}})
}

// createTrustline makes an authorized trustline: no issuer here can demand authorization, since
// that takes SetOptions.
func (l *layer) createTrustline(id xdr.AccountId, asset xdr.Asset, limit int64) {
	l.set(trustlineKey(id, asset), &xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeTrustline,
		TrustLine: &xdr.TrustLineEntry{
			AccountId: id,
			Asset:     asset.ToTrustLineAsset(),
			Limit:     xdr.Int64(limit),
			Flags:     xdr.Uint32(xdr.TrustLineFlagsAuthorizedFlag),
		},
	}})
}

// changes tells the layer as ledger entry changes: STATE and UPDATED, STATE and REMOVED, or
// CREATED.
func (l *layer) changes() xdr.LedgerEntryChanges {
	out := make(xdr.LedgerEntryChanges, 0, 2*len(l.order))
	for _, key := range l.order {
		before, after := l.below.load(key), l.rows[key]
		if before != nil {
			out = append(out,
				xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryState, State: before})
		}
		switch {
		case before == nil && after != nil:
			out = append(out,
				xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated, Created: after})
		case after != nil:
			out = append(out,
				xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryUpdated, Updated: after})
		case before != nil:
			removed, err := before.LedgerKey()
			if err != nil {
				panic(fmt.Sprintf("devnet: a stored ledger entry has no key: %v", err))
			}
			out = append(out,
				xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryRemoved, Removed: &removed})
		}
	}
	return out
}

// mergeInto moves the layer's changes to the layer it stands on.
func (l *layer) mergeInto(below *layer) {
	for _, key := range l.order {
		below.set(key, l.rows[key])
	}
	below.lastOffer = l.lastOffer
}

// minBalance is what an account must keep: two base reserves and one for each entry of its own.
func minBalance(a *xdr.AccountEntry) int64 {
	return (2 + int64(a.NumSubEntries)) * BaseReserveStroops
}

// available is what an account can spend, beyond what its offers promise; negative when it is
// below its reserve.
func available(a *xdr.AccountEntry) int64 {
	return int64(a.Balance) - minBalance(a) - int64(a.Liabilities().Selling)
}

// roomFor is how many lumens an account can take: what its offers buy is kept free.
func roomFor(a *xdr.AccountEntry) int64 {
	return math.MaxInt64 - int64(a.Balance) - int64(a.Liabilities().Buying)
}

// lineRoom and lineAvailable are the same of a trustline.
func lineRoom(line *xdr.TrustLineEntry) int64 {
	return int64(line.Limit) - int64(line.Balance) - int64(line.Liabilities().Buying)
}

func lineAvailable(line *xdr.TrustLineEntry) int64 {
	return int64(line.Balance) - int64(line.Liabilities().Selling)
}

// bumpSequence uses a sequence number and notes when, as CAP-21 has every transaction do.
func (l *layer) bumpSequence(id xdr.AccountId, seqNum, closeTime int64) {
	a := l.editAccount(id)
	a.SeqNum = xdr.SequenceNumber(seqNum)
	v2 := extensionV2(a)
	v2.Ext = xdr.AccountEntryExtensionV2Ext{V: 3, V3: &xdr.AccountEntryExtensionV3{
		SeqLedger: xdr.Uint32(l.sequence),
		SeqTime:   xdr.TimePoint(closeTime),
	}}
}

// extensionV1 and extensionV2 are parts of an account that only come when they are needed.
func extensionV1(a *xdr.AccountEntry) *xdr.AccountEntryExtensionV1 {
	if a.Ext.V1 == nil {
		a.Ext = xdr.AccountEntryExt{V: 1, V1: &xdr.AccountEntryExtensionV1{}}
	}
	return a.Ext.V1
}

func extensionV2(a *xdr.AccountEntry) *xdr.AccountEntryExtensionV2 {
	v1 := extensionV1(a)
	if v1.Ext.V2 == nil {
		v1.Ext = xdr.AccountEntryExtensionV1Ext{V: 2, V2: &xdr.AccountEntryExtensionV2{
			SignerSponsoringIDs: make([]xdr.SponsorshipDescriptor, len(a.Signers)),
		}}
	}
	return v1.Ext.V2
}
