package source_test

import (
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// Over consecutive ledgers with every kind of operation, each balance must begin where it ended
// before, so that every move is explained. RPC and the lake must yield the same moves.
func TestMovesChainAcrossLedgers(t *testing.T) {
	c := open(t, nil)
	last := uint32(firstLedger+chainLedgers-1) | 7
	c.grow(t, last)
	passphrase := c.network.Passphrase()
	every := func(string) (bool, error) { return true, nil }
	balances, ids, kinds := map[string]int64{}, map[string]bool{}, map[domain.MoveKind]int{}
	var all []domain.BalanceMove
	for _, l := range readMoving(t, c.rpc(t), passphrase, firstLedger, last) {
		got, err := l.Moves(every)
		if err != nil || len(got.Unread) > 0 {
			t.Fatalf("ledger %d: %v, unread %v", l.Sequence, err, got.Unread)
		}
		for _, m := range got.Moves {
			balance := m.Wallet + " " + m.BalanceName()
			if before, known := balances[balance]; known && before != m.BeforeStroops {
				t.Errorf("ledger %d: %s has %d, and had %d after the last move", m.Ledger, balance,
					m.BeforeStroops, before)
			}
			if ids[m.ID] {
				t.Errorf("the identifier %s comes twice", m.ID)
			}
			balances[balance], ids[m.ID] = m.AfterStroops, true
			kinds[m.Kind]++
		}
		all = append(all, got.Moves...)
	}
	for _, kind := range []domain.MoveKind{
		domain.MovePaymentIn, domain.MoveOutgoing, domain.MoveCreate, domain.MoveMerge, domain.MoveFee,
		domain.MoveTrade, domain.MoveClaim, domain.MoveContract,
	} {
		if kinds[kind] == 0 {
			t.Errorf("no move is of the kind %s: %v", kind, kinds)
		}
	}
	if kinds[domain.MoveOther] > 0 {
		t.Errorf("moves that nothing explains: %v", kinds)
	}
	var lake []domain.BalanceMove
	for _, l := range readMoving(t, c.lake(t), passphrase, firstLedger, last) {
		got, err := l.Moves(every)
		if err != nil {
			t.Fatal(err)
		}
		lake = append(lake, got.Moves...)
	}
	if !slices.EqualFunc(all, lake, func(a, b domain.BalanceMove) bool {
		same := slices.Equal(a.PaymentIDs, b.PaymentIDs)
		a.PaymentIDs, b.PaymentIDs = nil, nil
		return same && a.ID == b.ID && a.Place == b.Place && a.AfterStroops == b.AfterStroops
	}) {
		t.Error("RPC and lake tell of different moves")
	}
}
