package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

func everyWallet(string) (bool, error) { return true, nil }

// movesOf returns the moves in a ledger, read as a follower does.
func movesOf(
	t testing.TB, passphrase string, raw []byte, watched func(string) (bool, error),
) domain.LedgerMoves {
	t.Helper()
	e := newExtractor(t, passphrase)
	e.EnableMoves()
	l, err := e.Extract(raw)
	if err != nil {
		t.Fatal(err)
	}
	moves, err := l.Moves(watched)
	if err != nil {
		t.Fatal(err)
	}
	return moves
}

// checkChain checks that each move begins where the previous move of the same balance ended, that
// moves are in order, and that no identifier occurs twice.
func checkChain(t *testing.T, moves []domain.BalanceMove, last map[string]int64) {
	t.Helper()
	ids := map[string]bool{}
	for i, m := range moves {
		balance := m.Wallet + " " + m.BalanceName()
		if before, known := last[balance]; known && before != m.BeforeStroops {
			t.Errorf("ledger %d, %s: %s has %d, and had %d after the last move", m.Ledger, m.TxHash,
				balance, m.BeforeStroops, before)
		}
		last[balance] = m.AfterStroops
		if m.ChangeStroops() == 0 || ids[m.ID] || i > 0 && moves[i-1].Place >= m.Place {
			t.Errorf("a move of nothing, an identifier that came before, or out of order: %+v", m)
		}
		ids[m.ID] = true
	}
}

func TestMovesOfRealLedgersChain(t *testing.T) {
	for _, sequence := range slices.Concat(realLedgers, otherLedgers) {
		raw := readReal(t, sequence)
		got := movesOf(t, publicNetwork, raw, everyWallet)
		// one of the oldest ledgers is empty
		if empty := sequence == otherLedgers[0]; len(got.Unread) > 0 || empty != (len(got.Moves) == 0) {
			t.Errorf("ledger %d: %d moves, unread: %+v", sequence, len(got.Moves), got.Unread)
		}
		checkChain(t, got.Moves, map[string]int64{})
		want := movesBySDK(t, raw)
		var short []string
		for _, m := range got.Moves {
			short = append(short, shortMove(m))
		}
		if !slices.Equal(short, want) {
			t.Errorf("ledger %d: %d moves, and the SDK's decoding has %d", sequence, len(short), len(want))
		}
	}
}

// Each payment in a real ledger that is income must change a balance of its receiver by its
// amount. If the receiver issued the asset, no balance changes.
func TestPaymentsOfRealLedgersAreMoves(t *testing.T) {
	for _, sequence := range realLedgers {
		raw := readReal(t, sequence)
		found := map[string]domain.BalanceMove{}
		for _, m := range movesOf(t, publicNetwork, raw, everyWallet).Moves {
			for _, id := range m.PaymentIDs {
				found[id] = m
			}
			if m.Kind == "" || m.Kind == domain.MovePaymentIn && len(m.PaymentIDs) == 0 {
				t.Errorf("%+v", m)
			}
		}
		income := 0
		for _, p := range extract(t, publicNetwork, raw).Payments {
			if p.AmountStroops == 0 || p.IsSelfPayment() || p.To == p.Asset.Issuer {
				continue
			}
			income++
			m, is := found[p.ID]
			if !is || m.Wallet != p.To || m.Asset != p.Asset || m.TxHash != p.TxHash ||
				len(m.PaymentIDs) == 1 && m.Kind == domain.MovePaymentIn &&
					m.ChangeStroops() != p.AmountStroops {
				t.Errorf("the payment %+v has the move %+v", p, m)
			}
		}
		if income == 0 {
			t.Errorf("ledger %d has no income", sequence)
		}
	}
}

func shortMove(m domain.BalanceMove) string {
	return fmt.Sprintf("%s %d %s %s %d %d", m.TxHash, m.Operation, m.Wallet, m.BalanceName(),
		m.BeforeStroops, m.AfterStroops)
}

// movesBySDK decodes a whole ledger with the SDK and formats its moves like shortMove.
func movesBySDK(t *testing.T, raw []byte) (all []string) {
	t.Helper()
	var meta xdr.LedgerCloseMeta
	if err := meta.UnmarshalBinary(raw); err != nil {
		t.Fatal(err)
	}
	take := func(i, operation int, changes xdr.LedgerEntryChanges) {
		hash := meta.TransactionHash(i)
		before := map[string]int64{}
		for _, c := range changes {
			key, err := c.LedgerKey()
			if err != nil {
				t.Fatal(err)
			}
			of := string(marshal(t, key))
			name, ok := balanceBySDK(t, key)
			if !ok {
				continue
			}
			after := int64(0)
			if entry, ok := c.GetLedgerEntry(); ok {
				after = stroopsBySDK(entry.Data)
			}
			if c.Type != xdr.LedgerEntryChangeTypeLedgerEntryState && after != before[of] {
				all = append(all, fmt.Sprintf("%s %d %s %d %d", hash.HexString(), operation, name, before[of],
					after))
			}
			before[of] = after
		}
	}
	for i := range meta.CountTransactions() {
		take(i, 0, meta.FeeProcessing(i))
	}
	for i := range meta.CountTransactions() {
		before, operations, after := partsBySDK(meta.TxApplyProcessing(i))
		take(i, 0, before)
		for n, changes := range operations {
			take(i, n+1, changes)
		}
		take(i, 0, after)
	}
	for i := range meta.CountTransactions() {
		if meta.V == 2 {
			take(i, 0, meta.V2.TxProcessing[i].PostTxApplyFeeProcessing)
		}
	}
	return all
}

func stroopsBySDK(entry xdr.LedgerEntryData) int64 {
	if entry.Type == xdr.LedgerEntryTypeAccount {
		return int64(entry.Account.Balance)
	}
	return int64(entry.TrustLine.Balance)
}

func balanceBySDK(t *testing.T, key xdr.LedgerKey) (name string, ok bool) {
	t.Helper()
	switch key.Type {
	case xdr.LedgerEntryTypeAccount:
		return key.Account.AccountId.Address() + " XLM", true
	case xdr.LedgerEntryTypeTrustline:
		wallet, asset := key.TrustLine.AccountId.Address(), key.TrustLine.Asset
		if asset.Type == xdr.AssetTypeAssetTypePoolShare {
			return fmt.Sprintf("%s pool:%x", wallet, asset.LiquidityPoolId[:]), true
		}
		return wallet + " " + asset.ToAsset().StringCanonical(), true
	}
	return "", false
}

func partsBySDK(
	meta xdr.TransactionMeta,
) (before xdr.LedgerEntryChanges, all []xdr.LedgerEntryChanges, after xdr.LedgerEntryChanges) {
	var of []xdr.OperationMeta
	switch meta.V {
	case 0:
		of = *meta.Operations
	case 1:
		before, of = meta.V1.TxChanges, meta.V1.Operations
	case 2:
		before, of, after = meta.V2.TxChangesBefore, meta.V2.Operations, meta.V2.TxChangesAfter
	case 3:
		before, of, after = meta.V3.TxChangesBefore, meta.V3.Operations, meta.V3.TxChangesAfter
	case 4:
		before, after = meta.V4.TxChangesBefore, meta.V4.TxChangesAfter
		for _, o := range meta.V4.Operations {
			all = append(all, o.Changes)
		}
	}
	for _, o := range of {
		all = append(all, o.Changes)
	}
	return before, all, after
}

// Each wallet must be looked up once, and nothing reported about an unwatched one.
func TestOnlyWatchedWalletsMove(t *testing.T) {
	raw := readReal(t, realLedgers[2])
	all := movesOf(t, publicNetwork, raw, everyWallet).Moves
	one := all[len(all)/2].Wallet
	asked := map[string]int{}
	got := movesOf(t, publicNetwork, raw, func(wallet string) (bool, error) {
		asked[wallet]++
		return wallet == one, nil
	})
	want := slices.DeleteFunc(slices.Clone(all),
		func(m domain.BalanceMove) bool { return m.Wallet != one })
	if fmt.Sprint(got.Moves) != fmt.Sprint(want) || len(want) == 0 {
		t.Errorf("%v, want %v", got.Moves, want)
	}
	for wallet, n := range asked {
		if n != 1 {
			t.Errorf("%s was asked for %d times", wallet, n)
		}
	}
	failure := errors.New("the directory is away")
	e := newExtractor(t, publicNetwork)
	e.EnableMoves()
	l, err := e.Extract(raw)
	if err != nil {
		t.Fatal(err)
	}
	if moves, err := l.Moves(func(string) (bool, error) { return false, failure }); err != failure ||
		moves.Moves != nil {
		t.Errorf("%v, %v", moves, err)
	}
}

// A ledger has moves only if its extractor has enabled them.
func TestMovesAreAskedFor(t *testing.T) {
	if l := extract(t, publicNetwork, readReal(t, realLedgers[0])); l.Moves != nil {
		t.Error("a ledger keeps its bytes for moves that nobody wants")
	}
}

func accountEntry(wallet string, stroops int64) xdr.LedgerEntry {
	return xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeAccount,
		Account: &xdr.AccountEntry{
			AccountId: xdr.MustAddress(wallet),
			Balance:   xdr.Int64(stroops),
		},
	}}
}

// trustEntry returns a trust line for an asset or, without an asset, for shares in a pool.
func trustEntry(wallet string, asset *xdr.Asset, stroops int64) xdr.LedgerEntry {
	trusted := xdr.TrustLineAsset{
		Type:            xdr.AssetTypeAssetTypePoolShare,
		LiquidityPoolId: &xdr.PoolId{0xab},
	}
	if asset != nil {
		trusted = asset.ToTrustLineAsset()
	}
	return xdr.LedgerEntry{Data: xdr.LedgerEntryData{
		Type: xdr.LedgerEntryTypeTrustline,
		TrustLine: &xdr.TrustLineEntry{
			AccountId: xdr.MustAddress(wallet),
			Asset:     trusted,
			Balance:   xdr.Int64(stroops),
			Limit:     1 << 40,
		},
	}}
}

func state(e xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryState, State: &e}
}

func updated(e xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryUpdated, Updated: &e}
}

func createdEntry(e xdr.LedgerEntry) xdr.LedgerEntryChange {
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryCreated, Created: &e}
}

func removed(t testing.TB, e xdr.LedgerEntry) xdr.LedgerEntryChange {
	t.Helper()
	key, err := e.LedgerKey()
	if err != nil {
		t.Fatal(err)
	}
	return xdr.LedgerEntryChange{Type: xdr.LedgerEntryChangeTypeLedgerEntryRemoved, Removed: &key}
}

// lumens returns the changes that update an account's balance.
func lumens(wallet string, before, after int64) xdr.LedgerEntryChanges {
	return xdr.LedgerEntryChanges{
		state(accountEntry(wallet, before)), updated(accountEntry(wallet, after)),
	}
}

// held returns the changes that update a trust line's balance or, without an asset, its shares in
// a pool.
func held(wallet string, asset *xdr.Asset, before, after int64) xdr.LedgerEntryChanges {
	return xdr.LedgerEntryChanges{
		state(trustEntry(wallet, asset, before)), updated(trustEntry(wallet, asset, after)),
	}
}

// metaOf returns a meta in the given version, in which the only operation made the given changes.
func metaOf(version int32, changes xdr.LedgerEntryChanges, events ...xdr.ContractEvent,
) xdr.TransactionMeta {
	of := []xdr.OperationMeta{{Changes: changes}}
	before := lumens(sender, 5, 5) // using a sequence number changes no balance
	switch version {
	case 0:
		return xdr.TransactionMeta{V: 0, Operations: &of}
	case 1:
		return xdr.TransactionMeta{V: 1, V1: &xdr.TransactionMetaV1{TxChanges: before, Operations: of}}
	case 2:
		return xdr.TransactionMeta{V: 2,
			V2: &xdr.TransactionMetaV2{TxChangesBefore: before, Operations: of}}
	case 3:
		meta := metaV3(events...)
		meta.V3.TxChangesBefore, meta.V3.Operations = before, of
		return meta
	}
	return xdr.TransactionMeta{V: 4, V4: &xdr.TransactionMetaV4{
		TxChangesBefore: before,
		Operations:      []xdr.OperationMetaV2{{Changes: changes, Events: events}},
	}}
}

func briefMove(m domain.BalanceMove) string {
	name := strings.Replace(m.BalanceName(), issuer, "ISSUER", 1)
	return fmt.Sprintf("%s %s %s %d>%d op%d %v", m.Kind, short(m.Wallet), name, m.BeforeStroops,
		m.AfterStroops, m.Operation, m.PaymentIDs)
}

func checkMoves(t *testing.T, got domain.LedgerMoves, want ...string) {
	t.Helper()
	var brief []string
	for _, m := range got.Moves {
		brief = append(brief, briefMove(m))
	}
	if !slices.Equal(brief, want) {
		t.Errorf("the moves are\n%s\nwant\n%s", strings.Join(brief, "\n"), strings.Join(want, "\n"))
	}
	if len(got.Unread) > 0 {
		t.Errorf("unread: %+v", got.Unread)
	}
}

type moveCase struct {
	operation xdr.Operation
	result    xdr.OperationResult
	changes   xdr.LedgerEntryChanges
	events    []xdr.ContractEvent
	want      []string
}

func TestEveryKindOfMove(t *testing.T) {
	id := in100(1, 1)
	r, s := short(receiver), short(sender)
	for name, c := range moveCases(t, id, r, s) {
		for _, version := range []int32{0, 1, 2, 3, 4} {
			if len(c.events) > 0 && version < 3 {
				continue // there were no contracts
			}
			t.Run(fmt.Sprintf("%s, meta V%d", name, version), func(t *testing.T) {
				x := testTx{
					operations: []xdr.Operation{c.operation},
					results:    []xdr.OperationResult{c.result},
					meta:       metaOf(version, c.changes, c.events...),
				}
				for _, closed := range []int32{0, 1, 2} {
					raw := closeLedger(t, closed, x)
					checkMoves(t, movesOf(t, passphrase, raw, everyWallet), c.want...)
				}
			})
		}
	}
}

func both(a, b xdr.LedgerEntryChanges) xdr.LedgerEntryChanges { return slices.Concat(a, b) }

func moveCases(t *testing.T, id, r, s string) map[string]moveCase {
	t.Helper()
	transfer := event(native, "transfer", amountValue(0, 7), sender, receiver)
	back := event(native, "transfer", amountValue(0, 2), receiver, sender)
	return map[string]moveCase{
		"payment": {
			operation: payTo(receiver, native, 5), result: paid(),
			changes: both(lumens(sender, 50, 45), lumens(receiver, 1, 6)),
			want: []string{"outgoing " + s + " XLM 50>45 op1 []",
				"payment_in " + r + " XLM 1>6 op1 [" + id + "]"},
		},
		"payment of an asset": {
			operation: payTo(receiver, longCode, 5), result: paid(),
			changes: held(receiver, &longCode, 0, 5),
			want:    []string{"payment_in " + r + " LUMENHOOK:ISSUER 0>5 op1 [" + id + "]"},
		},
		"account created": {
			operation: createAccount(receiver, 9), result: created(),
			changes: append(lumens(sender, 50, 41), createdEntry(accountEntry(receiver, 9))),
			want: []string{"create " + s + " XLM 50>41 op1 []",
				"payment_in " + r + " XLM 0>9 op1 [" + id + "]"},
		},
		"account merged": {
			operation: mergeInto(receiver), result: merged(41),
			changes: append(lumens(receiver, 9, 50), state(accountEntry(sender, 41)),
				removed(t, accountEntry(sender, 41))),
			want: []string{"payment_in " + r + " XLM 9>50 op1 [" + id + "]",
				"merge " + s + " XLM 41>0 op1 []"},
		},
		"path payment over an offer": {
			operation: strictReceive(receiver, 5), result: received(5),
			changes: slices.Concat(lumens(sender, 50, 40), held(payer, &usd, 5, 0),
				held(receiver, &usd, 0, 5), lumens(payer, 0, 10)),
			want: []string{"outgoing " + s + " XLM 50>40 op1 []",
				"trade " + short(payer) + " USD:ISSUER 5>0 op1 []",
				"payment_in " + r + " USD:ISSUER 0>5 op1 [" + id + "]",
				"trade " + short(payer) + " XLM 0>10 op1 []"},
		},
		"path payment to oneself": {
			operation: strictSend(sender, 5), result: sent(5),
			changes: both(lumens(sender, 50, 40), held(sender, &usd, 0, 5)),
			want: []string{"trade " + s + " XLM 50>40 op1 []",
				"trade " + s + " USD:ISSUER 0>5 op1 []"},
		},
		"contract transfer": {
			operation: invoke(), result: invoked(),
			changes: both(lumens(sender, 50, 43), lumens(receiver, 0, 7)),
			events:  []xdr.ContractEvent{transfer},
			want: []string{"contract " + s + " XLM 50>43 op1 []",
				"payment_in " + r + " XLM 0>7 op1 [" + id + "-0]"},
		},
		"contract transfers both ways": {
			operation: invoke(), result: invoked(),
			changes: both(lumens(sender, 50, 45), lumens(receiver, 9, 14)),
			events:  []xdr.ContractEvent{transfer, back},
			want: []string{"contract " + s + " XLM 50>45 op1 [" + id + "-1]",
				"contract " + r + " XLM 9>14 op1 [" + id + "-0]"},
		},
		"trade": {
			operation: operation(xdr.OperationTypeManageSellOffer,
				xdr.ManageSellOfferOp{Selling: native, Buying: usd, Price: xdr.Price{N: 1, D: 1}}),
			result: resultOf(xdr.OperationTypeManageSellOffer, xdr.ManageSellOfferResult{
				Success: &xdr.ManageOfferSuccessResult{Offer: xdr.ManageOfferSuccessResultOffer{
					Effect: xdr.ManageOfferEffectManageOfferDeleted}}}),
			changes: lumens(sender, 50, 40),
			want:    []string{"trade " + s + " XLM 50>40 op1 []"},
		},
		"claim": {
			operation: operation(xdr.OperationTypeClaimClaimableBalance,
				xdr.ClaimClaimableBalanceOp{BalanceId: xdr.ClaimableBalanceId{V0: &xdr.Hash{1}}}),
			result: resultOf(xdr.OperationTypeClaimClaimableBalance,
				xdr.ClaimClaimableBalanceResult{}),
			changes: lumens(sender, 50, 60),
			want:    []string{"claim " + s + " XLM 50>60 op1 []"},
		},
		"pool": {
			operation: operation(xdr.OperationTypeLiquidityPoolDeposit,
				xdr.LiquidityPoolDepositOp{MinPrice: xdr.Price{N: 1, D: 1}, MaxPrice: xdr.Price{N: 1, D: 1}}),
			result:  resultOf(xdr.OperationTypeLiquidityPoolDeposit, xdr.LiquidityPoolDepositResult{}),
			changes: slices.Concat(lumens(sender, 50, 40), held(sender, nil, 0, 10)),
			want: []string{"pool " + s + " XLM 50>40 op1 []",
				"pool " + s + " pool:ab" + strings.Repeat("0", 62) + " 0>10 op1 []"},
		},
		"clawback": {
			operation: operation(xdr.OperationTypeClawback,
				xdr.ClawbackOp{Asset: usd, From: xdr.MustMuxedAddress(receiver), Amount: 3}),
			result:  resultOf(xdr.OperationTypeClawback, xdr.ClawbackResult{}),
			changes: held(receiver, &usd, 8, 5),
			want:    []string{"clawback " + r + " USD:ISSUER 8>5 op1 []"},
		},
		"other": {
			operation: operation(xdr.OperationTypeInflation, nil),
			result: resultOf(xdr.OperationTypeInflation,
				xdr.InflationResult{Payouts: &[]xdr.InflationPayout{}}),
			changes: lumens(receiver, 8, 9),
			want:    []string{"other " + r + " XLM 8>9 op1 []"},
		},
	}
}

// The fees of all transactions come first, and refunds come after all transactions. A list that
// changes a balance twice yields two moves.
func TestFeesAndRefunds(t *testing.T) {
	x := testTx{
		operations: []xdr.Operation{payTo(receiver, native, 5)},
		results:    []xdr.OperationResult{paid()},
		meta: xdr.TransactionMeta{V: 4, V4: &xdr.TransactionMetaV4{
			Operations: []xdr.OperationMetaV2{{Changes: append(lumens(sender, 80, 76),
				updated(accountEntry(sender, 75)))}},
			TxChangesAfter: lumens(sender, 75, 77),
		}},
	}
	y := testTx{
		operations: []xdr.Operation{payTo(payer, native, 1)},
		results:    []xdr.OperationResult{paid()},
		failed:     true,
		meta:       metaV2(),
	}
	var meta xdr.LedgerCloseMeta
	if err := meta.UnmarshalBinary(closeLedger(t, 2, x, y)); err != nil {
		t.Fatal(err)
	}
	txs := meta.V2.TxProcessing
	txs[0].FeeProcessing, txs[1].FeeProcessing = lumens(sender, 100, 90), lumens(sender, 90, 80)
	txs[1].PostTxApplyFeeProcessing = lumens(sender, 77, 79)
	got := movesOf(t, passphrase, marshal(t, meta), everyWallet)
	s := short(sender)
	checkMoves(t, got,
		"fee "+s+" XLM 100>90 op0 []",
		"fee "+s+" XLM 90>80 op0 []",
		"outgoing "+s+" XLM 80>76 op1 []",
		"outgoing "+s+" XLM 76>75 op1 []",
		"fee "+s+" XLM 75>77 op0 []",
		"fee "+s+" XLM 77>79 op0 []")
	checkChain(t, got.Moves, map[string]int64{})
}

// A change without the earlier value must be reported, and so must a transaction of an unknown
// form. All other changes are read.
func TestMovesThatCannotBeReadAreNamed(t *testing.T) {
	x := payOne(5)
	x.meta = metaOf(4, append(lumens(receiver, 1, 6), updated(accountEntry(sender, 3))))
	got := movesOf(t, passphrase, closeLedger(t, 2, x), everyWallet)
	if len(got.Unread) != 1 || got.Unread[0].Order != 1 ||
		!strings.Contains(got.Unread[0].Reason, "no earlier value") {
		t.Errorf("%+v", got.Unread)
	}
	got.Unread = nil
	checkMoves(t, got, "payment_in "+short(receiver)+" XLM 1>6 op1 ["+in100(1, 1)+"]")

	unknown := marked(1)
	raw := makeUnknown(t, closeLedger(t, 2, unknown, x), unknown, 1)
	got = movesOf(t, passphrase, raw, everyWallet)
	if len(got.Moves) != 1 || len(got.Unread) != 2 ||
		!strings.Contains(got.Unread[0].Reason, "upgrade lumenhook") {
		t.Errorf("%+v", got)
	}
}

func BenchmarkMoves(b *testing.B) {
	for _, watched := range []struct {
		name string
		is   bool
	}{{"no wallet", false}, {"every wallet", true}} {
		for _, sequence := range realLedgers {
			b.Run(fmt.Sprintf("%s/%d", watched.name, sequence), func(b *testing.B) {
				e := newExtractor(b, publicNetwork)
				e.EnableMoves()
				raw := readReal(b, sequence)
				l, err := e.Extract(raw)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := l.Moves(func(string) (bool, error) { return watched.is, nil }); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
