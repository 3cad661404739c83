package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

const (
	statementBalancesMax = 2000
	statementMovesMax    = 250
)

// Statement returns a page of at most limit (1 to 250) moves of a wallet, and its balances. It
// waits, for a limited time, for all moves that were in the topic at the time of the call. The
// errors are ErrBehind, ErrUnavailable, ErrManyBalances and the context's error.
func (h *History) Statement(
	ctx context.Context, f readmodel.StatementFilter, after readmodel.StatementPosition, limit int,
) (page readmodel.Statement, err error) {
	if f.AccountID == "" || f.Wallet == "" || limit < 1 || limit > statementMovesMax {
		return page, fmt.Errorf("projections: a statement is of one account, one wallet and 1 to %d "+
			"moves, not of %q, %q and %d", statementMovesMax, f.AccountID, f.Wallet, limit)
	}
	err = h.onMoves(ctx, func(ctx context.Context, db tables) error {
		s := statement{db: db, filter: f, limit: limit, after: after}
		err := s.read(ctx)
		page = s.page
		return err
	})
	return page, err
}

// onMoves asks when the tables contain everything that was in the topic "payments" at the time of
// the call.
func (h *History) onMoves(ctx context.Context, q question) error {
	return h.ask(ctx, func(of *reading) error {
		of.cfg.Ask(ctx, nil)
		if err := of.whole(ctx, "payments", "balance_moves", "events"); err != nil {
			return err
		}
		if err := of.awaitTopic(ctx, schemas.TopicPayments, of.cfg.PaymentsEnds); err != nil {
			return err
		}
		err := of.readOnly(ctx, func(ctx context.Context) error { return q(ctx, of.db) })
		if errors.Is(err, readmodel.ErrManyBalances) {
			return err
		}
		if err = readFault(ctx, err); errors.Is(err, readmodel.ErrNotFound) {
			return fmt.Errorf("%w: its tables are being made", readmodel.ErrBehind)
		}
		return err
	})
}

type statement struct {
	db     tables
	filter readmodel.StatementFilter
	limit  int
	after  readmodel.StatementPosition
	page   readmodel.Statement
	before map[string]int64 // each balance before the page's first move
}

func (s *statement) read(ctx context.Context) error {
	if err := s.readKept(ctx); err != nil {
		return err
	}
	opening, err := s.readOpening(ctx)
	if err != nil {
		return err
	}
	if err := s.readBalances(ctx, opening); err != nil {
		return err
	}
	if s.before = opening; s.after != (readmodel.StatementPosition{}) {
		if s.before, err = s.rebuildState(ctx, "(ledger, place, move_id) <= "+s.position()); err != nil {
			return err
		}
	}
	if err := s.readMoves(ctx); err != nil {
		return err
	}
	if err := s.readUncounted(ctx); err != nil {
		return err
	}
	return s.readPayments(ctx)
}

// readUncounted looks for moves after the statement. There are few: they are from ledgers that the
// follower has recorded but not counted yet.
func (s *statement) readUncounted(ctx context.Context) error {
	f := s.filter
	if f.OpenMillis == 0 {
		return nil
	}
	query := fmt.Sprintf(`SELECT max(ledger) FROM {database:Identifier}.balance_moves
WHERE wallet_address = {wallet:String} AND ledger_closed_at >= %s AND ledger > %d`,
		closing(f.OpenMillis), max(f.LastLedger, f.FirstLedger-1))
	if f.OpenUntil != 0 {
		query += fmt.Sprintf(" AND ledger <= %d", f.OpenUntil)
	}
	if f.ToMillis != 0 {
		query += " AND ledger_closed_at < " + closing(f.ToMillis)
	}
	if f.Balance != "" {
		query += " AND balance = {balance:String}"
	}
	return s.db.QueryRow(ctx, query, s.which(), &s.page.Uncounted)
}

const selectNow = `SELECT toInt64(toUnixTimestamp(now()))`

// readKept reads the time since which all moves are stored. Older moves may have been deleted.
func (s *statement) readKept(ctx context.Context) error {
	retention, err := s.db.Retention(ctx, "balance_moves")
	if err != nil || retention == 0 {
		return err
	}
	var now int64
	if err := s.db.QueryRow(ctx, selectNow, nil, &now); err != nil {
		return err
	}
	s.page.KeptSinceMillis = now*1000 - retention.Milliseconds()
	return nil
}

func (s *statement) position() string {
	return fmt.Sprintf("(%d, %d, {after:String})", s.after.Ledger, s.after.Place)
}

// began returns the condition for moves within the statement.
func (s *statement) began() string {
	return fmt.Sprintf("ledger >= %d AND ledger_closed_at >= %s", s.filter.FirstLedger,
		closing(s.filter.FromMillis))
}

// closing returns the first possible close time, in whole seconds, at or after a time.
func closing(millis int64) string {
	return fmt.Sprintf("toDateTime(%d, 'UTC')", min((max(millis, 0)+999)/1000, math.MaxUint32))
}

// recorded returns the condition for moves that may be read.
func (s *statement) recorded() string {
	f := s.filter
	where := fmt.Sprintf("wallet_address = {wallet:String} AND ledger BETWEEN %d AND %d"+
		" AND ledger_closed_at >= %s", f.RecordSince, f.LastLedger, closing(s.page.KeptSinceMillis))
	if f.ToMillis != 0 {
		where += " AND ledger_closed_at < " + closing(f.ToMillis)
	}
	if f.Balance != "" {
		where += " AND balance = {balance:String}"
	}
	return where
}

func (s *statement) which() writer.Parameters {
	return writer.Parameters{
		"wallet":  s.filter.Wallet,
		"balance": s.filter.Balance,
		"after":   s.after.MoveID,
	}
}

// Duplicates of a row are in the same month.
const monthByMonth = ` SETTINGS do_not_merge_across_partitions_select_final = 1`

// readOpening returns each balance before the statement. It omits balances without an earlier
// recorded move.
func (s *statement) readOpening(ctx context.Context) (map[string]int64, error) {
	if s.filter.FirstLedger <= s.filter.RecordSince && s.filter.FromMillis == 0 {
		return map[string]int64{}, nil
	}
	return s.rebuildState(ctx, "NOT ("+s.began()+")")
}

// rebuildState returns each balance after its last recorded move that meets a condition.
func (s *statement) rebuildState(ctx context.Context, condition string) (map[string]int64, error) {
	query := `SELECT balance, argMax(after_stroops, (ledger, place))
FROM {database:Identifier}.balance_moves FINAL
WHERE ` + s.recorded() + ` AND ` + condition + ` GROUP BY balance` + monthByMonth
	return writer.Pairs[string, int64](ctx, s.db.DB, query, s.which())
}

func (s *statement) readBalances(ctx context.Context, opening map[string]int64) error {
	query := `SELECT balance, count(), argMin(before_stroops, (ledger, place)),
    argMax(after_stroops, (ledger, place)),
    toInt64(least(sum(toInt256(abs(gap))), toInt256(9223372036854775807)))
FROM (
    SELECT balance, ledger, place, before_stroops, after_stroops,
        before_stroops - lagInFrame(after_stroops, 1, before_stroops) OVER (PARTITION BY balance
            ORDER BY ledger, place, move_id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS gap
    FROM {database:Identifier}.balance_moves FINAL
    WHERE ` + s.recorded() + ` AND ` + s.began() + `
)
GROUP BY balance` + monthByMonth
	moved := make(map[string]bool)
	err := s.db.Query(ctx, query, s.which(), func(read func(...any) error) error {
		var b readmodel.Balance
		err := read(&b.Balance, &b.Moves, &b.OpeningStroops, &b.ClosingStroops, &b.UnexplainedStroops)
		if was, known := opening[b.Balance]; known {
			b.UnexplainedStroops = addCapped(b.UnexplainedStroops, abs(b.OpeningStroops-was))
			b.OpeningStroops = was
		}
		moved[b.Balance] = true
		s.page.Balances = append(s.page.Balances, b)
		return err
	})
	for balance, stroops := range opening {
		if !moved[balance] {
			s.page.Balances = append(s.page.Balances,
				readmodel.Balance{Balance: balance, OpeningStroops: stroops, ClosingStroops: stroops})
		}
	}
	if len(s.page.Balances) > statementBalancesMax && err == nil {
		return readmodel.ErrManyBalances
	}
	slices.SortFunc(s.page.Balances,
		func(a, b readmodel.Balance) int { return strings.Compare(a.Balance, b.Balance) })
	return err
}

func abs(n int64) int64 { return max(n, -n) }

// addCapped adds non-negative numbers, capped at math.MaxInt64.
func addCapped(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// readMoves fills in the moves. It reads one more, to find out whether there is another page.
func (s *statement) readMoves(ctx context.Context) error {
	query := `SELECT move_id, balance, kind, ledger, ledger_closed_at, place, tx_hash, operation,
    before_stroops, after_stroops, payment_ids
FROM {database:Identifier}.balance_moves FINAL
WHERE ` + s.recorded() + ` AND ` + s.began() + ` AND (ledger, place, move_id) > ` + s.position() + `
ORDER BY ledger, place, move_id LIMIT ` + strconv.Itoa(s.limit+1) + monthByMonth
	at := s.before
	err := s.db.Query(ctx, query, s.which(), func(read func(...any) error) error {
		m, err := readMove(read)
		if was, known := at[m.Balance]; known {
			m.UnexplainedStroops = m.BeforeStroops - was
		}
		at[m.Balance] = m.AfterStroops
		m.Wallet = s.filter.Wallet
		s.page.Moves = append(s.page.Moves, m)
		return err
	})
	if len(s.page.Moves) > s.limit {
		s.page.Moves = s.page.Moves[:s.limit]
		last := s.page.Moves[s.limit-1]
		s.page.Next = readmodel.StatementPosition{Ledger: last.Ledger, Place: last.Place, MoveID: last.ID}
	}
	return err
}

func readMove(read func(...any) error) (m readmodel.Move, err error) {
	var kind string
	var closed time.Time
	var operation uint32
	err = read(&m.ID, &m.Balance, &kind, &m.Ledger, &closed, &m.Place, &m.TxHash, &operation,
		&m.BeforeStroops, &m.AfterStroops, &m.PaymentIDs)
	m.Kind, m.ClosedAtMillis, m.Operation = domain.MoveKind(kind), closed.UnixMilli(), int(operation)
	return m, err
}

const (
	selectPaid = `
SELECT payment_id, operation, from_address, to_muxed_id, memo, memo_type, asset_code, asset_issuer,
    amount_stroops, ledger, ledger_closed_at, tx_hash, to_address
FROM {database:Identifier}.payments
WHERE to_address = {wallet:String} AND payment_id IN {payments:Array(String)}
LIMIT 1 BY payment_id`

	// An event is created after its payment's ledger has closed. Clocks may differ a little. A
	// statement shows neither the types of events nor the reasons, which are stored in large bodies.
	selectPaidEvents = `
SELECT event_id, watch_id, payment_id, '', CAST([] AS Array(String))
FROM {database:Identifier}.events
WHERE account_id = {account:String} AND wallet_address = {wallet:String}
    AND created_at >= fromUnixTimestamp64Milli({since:Int64}, 'UTC') AND moves = 0
    AND payment_id IN {payments:Array(String)}
ORDER BY created_at, event_id
LIMIT 1 BY event_id`

	clocksDifferMillis = 3_600_000
)

func (s *statement) readPayments(ctx context.Context) error {
	var ids []string
	for _, m := range s.page.Moves {
		ids = append(ids, m.PaymentIDs...)
	}
	if len(ids) == 0 {
		return nil
	}
	which := writer.Parameters{
		"account":  s.filter.AccountID,
		"wallet":   s.filter.Wallet,
		"payments": writer.ArrayOf(ids),
		"since": strconv.FormatInt(max(0, s.page.Moves[0].ClosedAtMillis-clocksDifferMillis),
			10),
	}
	paid, err := s.db.paid(ctx, selectPaid, selectPaidEvents, which)
	by := make(map[string]readmodel.Paid, len(paid))
	for _, p := range paid {
		by[p.Payment.ID] = p
	}
	for i := range s.page.Moves {
		m := &s.page.Moves[i]
		for _, id := range m.PaymentIDs {
			if p, observed := by[id]; observed { // payments that are not income are not
				m.Payments = append(m.Payments, p)
			}
		}
	}
	return err
}

// readPaidRow reads a payment. Its memo is as displayed: for a text that isn't valid UTF-8, only
// the displayed form is stored.
func readPaidRow(read func(...any) error) (p domain.Payment, err error) {
	var muxed, memo *string
	var memoType string
	var closed time.Time
	err = read(&p.ID, &p.Operation, &p.From, &muxed, &memo, &memoType, &p.Asset.Code, &p.Asset.Issuer,
		&p.AmountStroops, &p.Ledger, &closed, &p.TxHash, &p.To)
	p.ClosedAtMillis = closed.UnixMilli()
	if muxed != nil {
		p.ToMuxedID = *muxed
	}
	if p.Memo.Type = domain.MemoType(memoType); memo == nil || memoType == "" {
		return p, err
	}
	p.Memo.Raw = []byte(*memo)
	if parsed, invalid := domain.ParseMemo(domain.MemoHash, *memo); invalid == nil &&
		(p.Memo.Type == domain.MemoHash || p.Memo.Type == domain.MemoReturn) {
		p.Memo.Raw = parsed.Raw
	}
	return p, err
}
