package follower_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func (r *rig) moved() (all []domain.BalanceMove) {
	r.t.Helper()
	for _, record := range r.read(schemas.TopicPayments) {
		if !schemas.IsBalanceMoved(record) {
			continue
		}
		m, err := intake.Move(record)
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m.Move)
	}
	return all
}

func (r *rig) moving() follower.Config {
	r.t.Helper()
	config := r.config()
	s := reader(r.t, r.rpc(), r.network.Passphrase())
	s.EnableMoves()
	config.Source = s
	return config
}

// isMove returns a function that matches the n-th move, counted from 1.
func isMove(n int) func(kafka.Record) bool {
	return func(r kafka.Record) bool {
		if schemas.IsBalanceMoved(r) {
			n--
		}
		return n == 0
	}
}

// Whatever record the follower crashes at, each move of the watched wallet is appended once and
// before its ledger's cursor. Each begins where the previous one ended. Moves of other wallets are
// not appended.
func TestEachMoveOfAWatchedWalletIsAppendedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	first := r.pay(watched, "1")
	last := r.pay(watched, "2")
	config := r.moving()
	config.Start = follower.Start{Sequence: first.Ledger}
	for i, at := range []func(kafka.Record) bool{
		isMove(1),
		func(record kafka.Record) bool { return record.Topic == schemas.TopicMatches },
		func(record kafka.Record) bool { return isCursor(record, first.Ledger) },
		isMove(1),
		func(record kafka.Record) bool { return isCursor(record, last.Ledger) },
		func(record kafka.Record) bool { return isCursor(record, last.Ledger+1) },
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
	for _, c := range r.cursors() {
		if c.MovesSince != first.Ledger || c.MovesSinceMillis == 0 {
			t.Errorf("the cursor %d says that moves are recorded since %d", c.Sequence, c.MovesSince)
		}
	}
}

// A follower whose source reports no moves appends none.
func TestMovesAreAppendedOnlyWhereTheyAreGiven(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	paid := r.pay(watched, "1")
	config := r.config()
	config.Start = follower.Start{Sequence: paid.Ledger}
	at := func(record kafka.Record) bool { return isCursor(record, paid.Ledger+1) }
	if err := r.life(config, at); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	for _, c := range r.cursors() {
		if c.MovesSince != 0 {
			t.Errorf("the cursor %d says that moves are recorded", c.Sequence)
		}
	}
	if len(r.observed()) != 1 || len(r.moved()) != 0 {
		t.Errorf("%v, moves %v", r.observed(), r.moved())
	}
}

// Across restarts, every cursor says which ledgers were read. This excludes the ledger that
// following was anchored to, because its content was not read.
func TestTheCursorSaysWhatWasRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	config := r.moving()
	admission := func(record kafka.Record) bool { return record.Topic == schemas.TopicCommands }
	if err := r.life(config, admission); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	paid := r.pay(watched, "1")
	for _, last := range []uint32{paid.Ledger, paid.Ledger + 2} {
		at := func(record kafka.Record) bool { return isCursor(record, last) }
		if err := r.life(config, at); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
	}
	all := r.cursors()
	if all[0].Coverage != nil || all[0].MovesSince != 0 {
		t.Errorf("the cursor of the anchor says %v", all[0].Coverage)
	}
	first := all[0].Sequence + 1
	for _, c := range all[1:] {
		want := domain.Coverage{{
			Range:    domain.Range{From: first, To: c.Sequence},
			Verified: true,
		}}
		if !slices.Equal(c.Coverage, want) || c.MovesSince != first {
			t.Errorf("the cursor %d says %v and %d, want %v and %d", c.Sequence, c.Coverage, c.MovesSince,
				want, first)
		}
	}
	if last := all[len(all)-1].Sequence; last != paid.Ledger+1 {
		t.Errorf("the last cursor is %d, not %d", last, paid.Ledger+1)
	}
}
