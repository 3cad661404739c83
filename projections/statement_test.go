package projections_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

// move appends a balance move of the wallet in the n-th ledger, which closes n seconds after the
// first.
func (r *rig) move(n uint32, before, after int64, change func(*domain.BalanceMove)) {
	r.t.Helper()
	m := domain.BalanceMove{
		Wallet:         "GWALLET",
		Ledger:         n,
		ClosedAtMillis: startMillis + int64(n)*1000,
		Place:          1 << 63,
		TxHash:         strings.Repeat("ab", 32),
		Operation:      1,
		Kind:           domain.MoveOutgoing,
		Asset:          domain.NativeAsset(),
		BeforeStroops:  before,
		AfterStroops:   after,
	}
	if change != nil {
		change(&m)
	}
	m.ID = domain.MoveID(m.Wallet, m.BalanceName(), m.TxHash, fmt.Sprint(n), int(m.Place>>62), 0)
	r.appendRecord(schemas.TopicPayments, m.Wallet,
		schemas.EncodeBalanceMoved(schemas.BalanceMoved{Move: m, ObservedAtMillis: startMillis}))
}

func (r *rig) statements() *history.History {
	return history.New(history.Config{
		DB:           r.db,
		Ends:         r.journalEnds,
		PaymentsEnds: r.paymentsEnds,
		WaitMax:      eventualMax,
		ReadMax:      readMax,
	})
}

func wholeStatement() readmodel.StatementFilter {
	return readmodel.StatementFilter{
		AccountID:   testAccount,
		Wallet:      "GWALLET",
		RecordSince: 1,
		FirstLedger: 1,
		LastLedger:  100,
	}
}

func TestAStatementHasEveryMoveAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	pool := func(m *domain.BalanceMove) {
		m.Asset, m.Pool, m.Place = domain.Asset{}, strings.Repeat("ef", 32), 7
	}
	for range 2 { // each record arrives twice
		r.move(2, 10, 20, nil)
		r.move(3, 20, 25, nil)
		r.move(3, 0, 5, pool)
		r.move(5, 30, 22, nil) // 5 more than the previous move left
		r.move(6, 22, 0, nil)
		r.move(9, 1, 2, func(m *domain.BalanceMove) { m.Wallet = "GOTHER" })
	}
	history := r.statements()
	poolName := "pool:" + strings.Repeat("ef", 32)
	balance := func(
		name string, moves uint64, opening, closing, unexplained int64,
	) readmodel.Balance {
		return readmodel.Balance{
			Balance:            name,
			Moves:              moves,
			OpeningStroops:     opening,
			ClosingStroops:     closing,
			UnexplainedStroops: unexplained,
		}
	}
	for name, c := range map[string]struct {
		change func(*readmodel.StatementFilter)
		want   []readmodel.Balance
		gaps   []int64
	}{
		"all": {
			func(*readmodel.StatementFilter) {},
			[]readmodel.Balance{balance("XLM", 4, 10, 0, 5), balance(poolName, 1, 0, 5, 0)},
			[]int64{0, 0, 0, 5, 0},
		},
		"one balance": {
			func(f *readmodel.StatementFilter) { f.Balance = poolName },
			[]readmodel.Balance{balance(poolName, 1, 0, 5, 0)}, []int64{0},
		},
		"another wallet": {
			func(f *readmodel.StatementFilter) { f.Wallet = "GOTHER" },
			[]readmodel.Balance{balance("XLM", 1, 1, 2, 0)}, []int64{0},
		},
		"from a ledger, with what was before it": {
			func(f *readmodel.StatementFilter) { f.FirstLedger = 5 },
			[]readmodel.Balance{balance("XLM", 2, 25, 0, 5), balance(poolName, 0, 5, 5, 0)},
			[]int64{5, 0},
		},
		"from a ledger that is the first of the record": {
			func(f *readmodel.StatementFilter) { f.FirstLedger, f.RecordSince = 5, 5 },
			[]readmodel.Balance{balance("XLM", 2, 30, 0, 0)}, []int64{0, 0},
		},
		"to a ledger": {
			func(f *readmodel.StatementFilter) { f.LastLedger = 2 },
			[]readmodel.Balance{balance("XLM", 1, 10, 20, 0)}, []int64{0},
		},
		"between times": {
			func(f *readmodel.StatementFilter) {
				f.FromMillis, f.ToMillis = startMillis+3000, startMillis+5001
			},
			[]readmodel.Balance{balance("XLM", 2, 20, 22, 5), balance(poolName, 1, 0, 5, 0)},
			[]int64{0, 0, 5},
		},
		"between times that are no whole seconds": {
			func(f *readmodel.StatementFilter) {
				f.FromMillis, f.ToMillis = startMillis+2001, startMillis+5000
			},
			[]readmodel.Balance{balance("XLM", 1, 20, 25, 0), balance(poolName, 1, 0, 5, 0)},
			[]int64{0, 0},
		},
		"nothing": {
			func(f *readmodel.StatementFilter) { f.LastLedger, f.RecordSince = 1, 1 }, nil, nil,
		},
	} {
		filter := wholeStatement()
		c.change(&filter)
		for _, limit := range []int{250, 1, 2} {
			var gaps []int64
			var after readmodel.StatementPosition
			for pages := 0; ; pages++ {
				page, err := history.Statement(t.Context(), filter, after, limit)
				must(t, err)
				if !reflect.DeepEqual(page.Balances, c.want) {
					t.Fatalf("%s: the balances are %+v, want %+v", name, page.Balances, c.want)
				}
				for _, m := range page.Moves {
					gaps = append(gaps, m.UnexplainedStroops)
				}
				if after = page.Next; after == (readmodel.StatementPosition{}) || pages > 10 {
					break
				}
			}
			if !slices.Equal(gaps, c.gaps) {
				t.Errorf("%s, by %d: the gaps are %v, want %v", name, limit, gaps, c.gaps)
			}
		}
	}
}

// A payment lists the events of the requesting account, and no other account's.
func TestAStatementsPaymentsNameTheAccountsEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	paid := domain.Payment{
		ID:             "4096",
		TxHash:         strings.Repeat("ab", 32),
		Ledger:         7,
		ClosedAtMillis: startMillis,
		Operation:      "payment",
		From:           "GPAYER",
		To:             "GWALLET",
		ToMuxedID:      "17",
		Memo:           domain.Memo{Type: domain.MemoHash, Raw: []byte(strings.Repeat("\xab", 32))},
		Asset:          domain.Asset{Code: "USDC", Issuer: "GISSUER"},
		AmountStroops:  5,
	}
	other := paid
	other.ID, other.Memo = "4097", domain.Memo{Type: domain.MemoText, Raw: []byte("1042")}
	for _, p := range []domain.Payment{paid, other} {
		observed := schemas.PaymentObserved{Payment: p, ObservedAtMillis: startMillis}
		r.appendRecord(schemas.TopicPayments, p.To, schemas.EncodePaymentObserved(observed))
	}
	r.move(7, 0, 10, func(m *domain.BalanceMove) {
		m.Kind, m.Asset = domain.MovePaymentIn, paid.Asset
		m.PaymentIDs = []string{paid.ID, "9999", other.ID}
	})
	told := newStory(1)
	for n, account := range []string{testAccount, otherAccount} {
		f := told.created(n)
		body := f.Body.(domain.DeliveryCreated)
		body.AccountID = account
		body.Event.Body = []byte(`{"data":{"payment":{"id":"4096"}}}`)
		f.Body = body
		r.append(f)
	}
	history := r.statements()
	want := []readmodel.Paid{
		{
			Payment: paid,
			Events: []readmodel.PaidEvent{
				{ID: told.eventID(0), WatchID: "wat_00000000000000000000000001", Reasons: []string{}},
			},
		},
		{Payment: other},
	}
	testkit.EventuallyNil(t, "the payment names its event", func() error {
		page, err := history.Statement(t.Context(), wholeStatement(), readmodel.StatementPosition{}, 10)
		must(t, err)
		if !reflect.DeepEqual(page.Moves[0].Payments, want) {
			return fmt.Errorf("the payments are %+v, want %+v", page.Moves[0].Payments, want)
		}
		return nil
	})
}

// A statement waits for moves that are not in the tables yet. If nothing writes them, it returns
// an error.
func TestAStatementIsNeverShort(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.project(nil)
	r.move(2, 10, 20, nil)
	r.awaitProjected()
	run.finish(t)
	r.move(3, 20, 30, nil)
	history := history.New(history.Config{
		DB:           r.db,
		Ends:         r.journalEnds,
		PaymentsEnds: r.paymentsEnds,
		WaitMax:      200 * time.Millisecond,
		ReadMax:      readMax,
	})
	_, err := history.Statement(t.Context(), wholeStatement(), readmodel.StatementPosition{}, 10)
	isFault(t, err, readmodel.ErrBehind)
	r.project(nil)
	page, err := r.statements().Statement(t.Context(), wholeStatement(),
		readmodel.StatementPosition{}, 10)
	must(t, err)
	if len(page.Moves) != 2 {
		t.Errorf("%d moves", len(page.Moves))
	}
}

// Later moves are found if they belong to the wallet and balance of an open statement, and their
// ledgers closed in its time. A statement with its own end does not look for later moves.
func TestMovesBeyondAStatementAreFound(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	r.move(2, 10, 20, nil)
	r.move(3, 20, 30, nil)
	r.move(4, 0, 5, func(m *domain.BalanceMove) { m.Pool = strings.Repeat("ab", 32) })
	r.move(9, 0, 5, func(m *domain.BalanceMove) { m.Wallet = "GOTHER" })
	history := r.statements()
	open := wholeStatement()
	open.LastLedger, open.OpenMillis = 2, startMillis+2000
	for name, c := range map[string]struct {
		change func(*readmodel.StatementFilter)
		want   uint32
	}{
		"of all balances": {func(*readmodel.StatementFilter) {}, 4},
		"of one":          {func(f *readmodel.StatementFilter) { f.Balance = "XLM" }, 3},
		"until a time": {
			func(f *readmodel.StatementFilter) { f.ToMillis = startMillis + 4000 }, 3,
		},
		"until a ledger":          {func(f *readmodel.StatementFilter) { f.OpenUntil = 3 }, 3},
		"that begins later":       {func(f *readmodel.StatementFilter) { f.FirstLedger = 3 }, 4},
		"that begins after them":  {func(f *readmodel.StatementFilter) { f.FirstLedger = 5 }, 0},
		"that has them":           {func(f *readmodel.StatementFilter) { f.LastLedger = 4 }, 0},
		"with an end of its own":  {func(f *readmodel.StatementFilter) { f.OpenMillis = 0 }, 0},
		"of ledgers closed later": {func(f *readmodel.StatementFilter) { f.OpenMillis += 3000 }, 0},
	} {
		f := open
		c.change(&f)
		page, err := history.Statement(t.Context(), f, readmodel.StatementPosition{}, 10)
		must(t, err)
		if page.Uncounted != c.want {
			t.Errorf("a statement %s: %d and not %d", name, page.Uncounted, c.want)
		}
	}
}

// A statement does not show moves that retention may have deleted, and reports that.
func TestAStatementBeginsWhereMovesAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	week := 7 * 24 * time.Hour
	r.project(func(c *writer.ProjectorConfig) { c.Retention = &week })
	now := time.Now().UnixMilli()
	r.move(2, 10, 20, func(m *domain.BalanceMove) { m.ClosedAtMillis = now - 8*24*3_600_000 })
	r.move(3, 20, 30, func(m *domain.BalanceMove) { m.ClosedAtMillis = now - 24*3_600_000 })
	r.awaitProjected()
	page, err := r.statements().Statement(t.Context(), wholeStatement(),
		readmodel.StatementPosition{}, 10)
	must(t, err)
	if len(page.Moves) != 1 || page.Moves[0].Ledger != 3 || page.Balances[0].OpeningStroops != 20 ||
		page.KeptSinceMillis < now-week.Milliseconds()-1000 {
		t.Errorf("%+v", page)
	}
}
