package devnet

import (
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// entryKey is a LedgerKey in XDR: the name of a row of the state.
type entryKey string

func keyOf(k xdr.LedgerKey) entryKey {
	raw, err := k.MarshalBinary()
	if err != nil {
		panic(fmt.Sprintf("devnet: a ledger key does not encode: %v", err)) // accounts and credit assets always do
	}
	return entryKey(raw)
}

func accountKey(id xdr.AccountId) entryKey {
	return keyOf(xdr.LedgerKey{Type: xdr.LedgerEntryTypeAccount, Account: &xdr.LedgerKeyAccount{AccountId: id}})
}

func trustlineKey(id xdr.AccountId, asset xdr.Asset) entryKey {
	return keyOf(xdr.LedgerKey{Type: xdr.LedgerEntryTypeTrustline, TrustLine: &xdr.LedgerKeyTrustLine{AccountId: id, Asset: asset.ToTrustLineAsset()}})
}

// state is something that rows can be read from. The row belongs to the state and must not be changed.
// A row that is not there is nil. A failed read of the disk panics with a readFault, which closeLedger and
// submit turn into an error: it cannot be handled anywhere between.
type state interface {
	load(key entryKey) *xdr.LedgerEntry
}

type readFault struct{ err error }

// catchReadFault turns the panic of a failed disk read into the error of the function that defers it.
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

// layer holds changes over a state that is not changed itself: a ledger's over the disk, a transaction's
// over the ledger's, an operation's over the transaction's. A layer that is thrown away never happened.
type layer struct {
	below    state
	sequence uint32                        // of the ledger being made, stamped on what is changed
	rows     map[entryKey]*xdr.LedgerEntry // nil: deleted
	order    []entryKey                    // of first change, so that meta repeats
	cache    bool                          // keep what was read from below
	read     map[entryKey]*xdr.LedgerEntry
	rules    rules

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
		l.rules = under.rules
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
	copied := *row.Data.Account
	row.Data.Account = &copied
	l.set(key, &row)
	return &copied
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
	row.Data.TrustLine = &copied
	l.set(key, &row)
	return &copied
}

func (l *layer) createAccount(id xdr.AccountId, balance, seqNum int64) {
	l.set(accountKey(id), &xdr.LedgerEntry{Data: xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeAccount, Account: &xdr.AccountEntry{
		AccountId:  id,
		Balance:    xdr.Int64(balance),
		SeqNum:     xdr.SequenceNumber(seqNum),
		Thresholds: xdr.Thresholds{1, 0, 0, 0},
	}}})
}

// createTrustline makes an authorized trustline: no issuer here can demand authorization, since that takes
// SetOptions.
func (l *layer) createTrustline(id xdr.AccountId, asset xdr.Asset, limit int64) {
	l.set(trustlineKey(id, asset), &xdr.LedgerEntry{Data: xdr.LedgerEntryData{Type: xdr.LedgerEntryTypeTrustline, TrustLine: &xdr.TrustLineEntry{
		AccountId: id,
		Asset:     asset.ToTrustLineAsset(),
		Limit:     xdr.Int64(limit),
		Flags:     xdr.Uint32(xdr.TrustLineFlagsAuthorizedFlag),
	}}})
}

// changes tells the layer as ledger entry changes: STATE and UPDATED, STATE and REMOVED, or CREATED.
func (l *layer) changes() xdr.LedgerEntryChanges {
	out := make(xdr.LedgerEntryChanges, 0, 2*len(l.order))
	for _, key := range l.order {
		before, after := l.below.load(key), l.rows[key]
		if before != nil {
			out = append(out, xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryState, State: before})
		}
		switch {
		case before == nil && after != nil:
			out = append(out, xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated, Created: after})
		case after != nil:
			out = append(out, xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryUpdated, Updated: after})
		case before != nil:
			removed, err := before.LedgerKey()
			if err != nil {
				panic(fmt.Sprintf("devnet: a stored ledger entry has no key: %v", err))
			}
			out = append(out, xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryRemoved, Removed: &removed})
		}
	}
	return out
}

// mergeInto moves the layer's changes to the layer it stands on.
func (l *layer) mergeInto(below *layer) {
	for _, key := range l.order {
		below.set(key, l.rows[key])
	}
}

// minBalance is what an account must keep: two base reserves and one for each trustline.
func minBalance(a *xdr.AccountEntry) int64 {
	return (2 + int64(a.NumSubEntries)) * BaseReserveStroops
}

// available is what an account can spend; negative when it is below its reserve.
func available(a *xdr.AccountEntry) int64 { return int64(a.Balance) - minBalance(a) }

// fits reports whether an amount can be added to a balance without passing a limit or the range of int64.
func fits(balance xdr.Int64, amount, limit int64) bool {
	return int64(balance) <= math.MaxInt64-amount && int64(balance)+amount <= limit
}

// bumpSequence uses a sequence number and notes when, as CAP-21 has every transaction do.
func (l *layer) bumpSequence(id xdr.AccountId, seqNum, closeTime int64) {
	a := l.editAccount(id)
	a.SeqNum = xdr.SequenceNumber(seqNum)
	a.Ext = xdr.AccountEntryExt{V: 1, V1: &xdr.AccountEntryExtensionV1{
		Ext: xdr.AccountEntryExtensionV1Ext{V: 2, V2: &xdr.AccountEntryExtensionV2{
			Ext: xdr.AccountEntryExtensionV2Ext{V: 3, V3: &xdr.AccountEntryExtensionV3{
				SeqLedger: xdr.Uint32(l.sequence),
				SeqTime:   xdr.TimePoint(closeTime),
			}},
		}},
	}}
}
