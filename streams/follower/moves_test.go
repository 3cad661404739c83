package follower_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/intake"
)

// moved returns the moves in the topic "payments", in the order of the ledgers.
func (r *rig) moved() (all []domain.BalanceMove) {
	r.t.Helper()
	for _, record := range r.read(schemas.TopicPayments) {
		m, is, err := intake.Move(record)
		if err != nil {
			r.t.Fatal(err)
		}
		if is {
			all = append(all, m.Move)
		}
	}
	return all
}

// moving is the configuration of a follower whose source gives moves.
func (r *rig) moving() follower.Config {
	r.t.Helper()
	config := r.config()
	s := reader(r.t, r.rpc(), r.network.Passphrase())
	s.GiveMoves()
	config.Source = s
	return config
}

// isMove matches the n-th move, from 1.
func isMove(n int) func(streams.Record) bool {
	return func(r streams.Record) bool {
		if schemas.IsBalanceMoved(r) {
			n--
		}
		return n == 0
	}
}

// Whatever record the follower crashes at, each move of the watched wallet is appended once, before
// the cursor of its ledger, and begins where the one before ended; of other wallets there are none.
func TestEachMoveOfAWatchedWalletIsAppendedOnce(t *testing.T) {
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	first := r.pay(watched, "1")
	last := r.pay(watched, "2")
	config := r.moving()
	config.Start = follower.Start{Sequence: first.Ledger}
	for i, at := range []func(streams.Record) bool{
		isMove(1),
		func(record streams.Record) bool { return record.Topic == schemas.TopicMatches },
		func(record streams.Record) bool { return isCursor(record, first.Ledger) },
		isMove(1),
		func(record streams.Record) bool { return isCursor(record, last.Ledger) },
		func(record streams.Record) bool { return isCursor(record, last.Ledger+1) },
	} {
		if err := r.life(config, at); !errors.Is(err, errKilled) {
			t.Fatalf("life %d ended with %v", i, err)
		}
	}
	observed, moves := r.observed(), r.moved()
	if len(observed) != 2 || len(moves) != 2 {
		t.Fatalf("%d payments and %d moves, want 2 of each: %+v", len(observed), len(moves), moves)
	}
	for i, m := range moves {
		p := observed[i]
		if m.Wallet != watched || m.Kind != domain.MovePaymentIn || m.TxHash != p.TxHash ||
			!slices.Equal(m.PaymentIDs, []string{p.ID}) || m.ChangeStroops() != p.AmountStroops {
			t.Errorf("the move of %+v is %+v", p, m)
		}
	}
	if moves[0].AfterStroops != moves[1].BeforeStroops {
		t.Errorf("%+v does not follow %+v", moves[1], moves[0])
	}
}

// A follower whose source gives no moves, as before, appends none.
func TestMovesAreAppendedOnlyWhereTheyAreGiven(t *testing.T) {
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	paid := r.pay(watched, "1")
	config := r.config()
	config.Start = follower.Start{Sequence: paid.Ledger}
	at := func(record streams.Record) bool { return isCursor(record, paid.Ledger+1) }
	if err := r.life(config, at); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	if len(r.observed()) != 1 || len(r.moved()) != 0 {
		t.Errorf("%v, moves %v", r.observed(), r.moved())
	}
}
