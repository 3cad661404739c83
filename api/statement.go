package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/readmodel"
)

// Limits of a statement.
const (
	ownWatchesMax = 10_000 // watches of a wallet that are checked, newest first
	reasonsMax    = 20     // watches for which reasons are returned
)

// Reasons why a watch did not accept a payment, in addition to those of its rules (domain.Reason).
const (
	reasonWatchedLater = "WATCHED_LATER" // the ledger closed before the watch covered any
	reasonNotReported  = "NOT_REPORTED"  // its eventTypes exclude verified payments
	reasonRulesChanged = "RULES_CHANGED" // its rules were changed since, and accept it now
	reasonPending      = "PENDING"       // its event is not in the history yet
	reasonExpired      = "EXPIRED"       // the ledger closed after the watch expired
	reasonFulfilled    = "FULFILLED"     // the watch is for one payment and accepted another
)

type statementQuery struct {
	asset    string
	from, to boundary
	csv      bool
	after    readmodel.StatementPosition
	through  uint32 // last ledger of the first page; 0: this is the first page
	limit    int
}

type boundary struct {
	ledger uint32
	millis int64
}

func (a *API) getStatement(ctx context.Context, r *request) (reply, error) {
	q, asked, err := a.readStatementQuery(r)
	if err != nil {
		return reply{}, err
	}
	watches, err := a.findOwnWatches(ctx, r)
	if err != nil {
		return reply{}, err
	}
	followed, err := a.followed(ctx)
	if err != nil {
		return reply{}, err
	}
	if followed.MovesSince == 0 {
		return reply{}, problem.New(problem.CodeMovesNotRecorded,
			"Balance moves are not recorded. The operator turns this on: `lumenhook run "+
				"--balance-moves`, in a clone `make run ARGS=--balance-moves`, or --balance-moves of every "+
				"follower of `lumenhook serve`, with rpc or lake as --ledger-source. Statements begin "+
				"at that time.")
	}
	if err := a.awaitOwnWrites(ctx, r); err != nil {
		return reply{}, err
	}
	view, f, statement, err := a.findStatement(ctx, r, asked, watches, followed)
	if errors.Is(err, readmodel.ErrManyBalances) {
		q.Fault("asset", problem.FaultRequired, "must name one balance: more than 2000 moved")
		return reply{}, q.Err()
	}
	if err := historyError(err); err != nil {
		return reply{}, err
	}
	fillStatement(&view, statement, watches, asked)
	if next := statement.Next; next != (readmodel.StatementPosition{}) {
		view.NextCursor = pointer(a.cursorText(r, q, readmodel.Position{
			CreatedAtMillis: int64(f.LastLedger),
			ID:              fmt.Sprintf("%d.%d.%s", next.Ledger, next.Place, next.MoveID),
		}))
	}
	if asked.csv {
		return statementCSV(view, r, q), nil
	}
	return reply{view: view}, nil
}

func (a *API) readStatementQuery(r *request) (*decode.Query, statementQuery, error) {
	q := newListQuery(r, "asset", "from", "to", "format")
	asked := statementQuery{
		asset: balanceParameter(q, "asset"),
		from:  boundaryParameter(q, "from"),
		to:    boundaryParameter(q, "to"),
		csv:   decode.OneOf(q, "format", "json", "csv") == "csv",
	}
	if from, to := asked.from, asked.to; to.ledger != 0 && to.ledger < from.ledger ||
		from.millis != 0 && to.millis != 0 && to.millis <= from.millis {
		q.Fault("to", problem.FaultRangeIsEmpty, "must not be before from")
	}
	position, limit, err := a.page(r, q)
	if err != nil {
		return q, asked, err
	}
	asked.limit = limit
	if position != nil {
		asked.through = uint32(position.CreatedAtMillis) // #nosec G115 -- the cursor is signed
		_, err = fmt.Sscanf(strings.ReplaceAll(position.ID, ".", " "), "%d %d %s", &asked.after.Ledger,
			&asked.after.Place, &asked.after.MoveID)
	}
	return q, asked, err
}

// assetForm matches a code and its issuer, and poolForm matches shares in a pool.
var (
	assetForm = regexp.MustCompile(`^([A-Za-z0-9]{1,12}):(G[A-Z2-7]{55})$`)
	poolForm  = regexp.MustCompile(`^pool:[0-9a-f]{64}$`)
)

func balanceParameter(q *decode.Query, name string) string {
	s := q.Text(name)
	asset := assetForm.FindStringSubmatch(s)
	if s == "" || s == domain.NativeCode || poolForm.MatchString(s) ||
		asset != nil && strkey.IsValidEd25519PublicKey(asset[2]) {
		return s
	}
	if looksLikeSecretKey(s) {
		q.Fault(name, problem.CodeSecretKeyRefused, "is a secret key: it is needed nowhere here")
		return ""
	}
	q.Fault(name, problem.FaultInvalidValue,
		"must be XLM, a code and its issuer such as USDC:G…, or pool: and the id of a liquidity pool")
	return ""
}

var ledgerForm = regexp.MustCompile(`^[0-9]+$`)

func boundaryParameter(q *decode.Query, name string) boundary {
	s := q.Get(name)
	if !ledgerForm.MatchString(s) {
		return boundary{millis: q.Time(name)}
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n == 0 {
		q.Fault(name, problem.FaultOutOfRange,
			"must be a ledger from 1 to 2147483647, or a time such as 2026-11-21T10:15:30.123Z")
	}
	return boundary{ledger: uint32(n)}
}

// findOwnWatches returns the caller's watches of the wallet in the path, newest first. A watch that
// was deleted or has no endpoint does not count. If no watch is left, the response is the same as
// for a wallet that was never watched.
func (a *API) findOwnWatches(ctx context.Context, r *request) ([]domain.Watch, error) {
	none := problem.New(problem.CodeNotFound, "Your account has no active watch of this wallet: "+
		"create one to get statements of it.")
	if code, _ := accountFault(r.subjectID); code != "" {
		return nil, none
	}
	found, any, err := lookUp(ctx, a, "watches of a wallet", func() ([]domain.Watch, bool, error) {
		own, err := a.ownWatches(r.caller.accountID, r.subjectID)
		return own, len(own) > 0, err
	})
	if err == nil && !any {
		return nil, none
	}
	return found, err
}

func (a *API) ownWatches(accountID, wallet string) (own []domain.Watch, err error) {
	f := readmodel.WatchFilter{AccountID: accountID, WalletAddress: wallet}
	known := make(map[string]watchStatus) // by endpoint
	var after *readmodel.Position
	for looked := 0; looked < ownWatchesMax; {
		page, next, err := a.Directory.Watches(f, after, maxPage)
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			status, asked := known[w.EndpointID]
			if !asked {
				if status, err = a.statusOf(w); err != nil {
					return nil, err
				}
				known[w.EndpointID] = status
			}
			if status == watchActive {
				own = append(own, w)
			}
		}
		if next == nil {
			return own, nil
		}
		looked += max(1, len(page))
		after = next
	}
	return own, nil
}

// newStatement returns the filter for the requested moves that the caller may see: those in ledgers
// that one of its watches covered, since recording started.
func newStatement(
	r *request, asked statementQuery, watches []domain.Watch, followed Followed,
) (client.Statement, readmodel.StatementFilter) {
	var since uint32
	var sinceMillis int64 // earlier ledgers were not seen
	for _, w := range watches {
		if w.LiveSince != 0 && (since == 0 || w.LiveSince < since) {
			since, sinceMillis = w.LiveSince, w.CreatedAtMillis
		}
	}
	f := readmodel.StatementFilter{
		AccountID:   r.caller.accountID,
		Wallet:      r.subjectID,
		Balance:     asked.asset,
		RecordSince: max(since, followed.MovesSince),
		LastLedger:  followed.Ledger,
		FromMillis:  asked.from.millis,
		ToMillis:    asked.to.millis,
	}
	f.FirstLedger = max(f.RecordSince, asked.from.ledger)
	for _, last := range []uint32{asked.to.ledger, asked.through} {
		if last != 0 {
			f.LastLedger = min(f.LastLedger, last)
		}
	}
	v := client.Statement{
		WalletAddress: r.subjectID,
		Asset:         unlessZero(asked.asset),
		ThroughLedger: &f.LastLedger,
		Balances:      []client.BalanceStatement{},
		Data:          []client.BalanceMove{},
	}
	if since == 0 { // the follower has not seen the watch yet
		f.FirstLedger, f.LastLedger = 1, 0
		v.ThroughLedger = nil
		v.BeginsLater = true
		return v, f
	}
	if asked.through == 0 && (asked.to.ledger == 0 || asked.to.ledger > followed.Ledger) {
		f.OpenMillis, f.OpenUntil = max(followed.ClosedAtMillis, 1), asked.to.ledger
	}
	v.RecordedSince = &f.RecordSince
	sinceMillis = max(sinceMillis, followed.MovesSinceMillis)
	v.BeginsLater = asked.from.ledger < f.RecordSince && asked.from.millis < sinceMillis
	return v, f
}

func fillStatement(
	v *client.Statement, s readmodel.Statement, watches []domain.Watch, asked statementQuery,
) {
	v.KeptSince = instant(s.KeptSinceMillis)
	if asked.from.millis < s.KeptSinceMillis && asked.from.ledger == 0 {
		v.BeginsLater = true
	}
	for _, b := range s.Balances {
		v.Balances = append(v.Balances, client.BalanceStatement{
			Asset:       b.Balance,
			Opening:     domain.FormatAmount(b.OpeningStroops),
			Closing:     domain.FormatAmount(b.ClosingStroops),
			Moves:       b.Moves,
			Unexplained: domain.FormatAmount(b.UnexplainedStroops),
		})
	}
	for _, m := range s.Moves {
		v.Data = append(v.Data, viewMove(m, watches))
	}
}

func viewMove(m readmodel.Move, watches []domain.Watch) client.BalanceMove {
	v := client.BalanceMove{
		ID:             m.ID,
		Asset:          m.Balance,
		Kind:           string(m.Kind),
		Ledger:         m.Ledger,
		LedgerClosedAt: at(m.ClosedAtMillis),
		TxHash:         m.TxHash,
		Operation:      unlessZero(m.Operation),
		Before:         domain.FormatAmount(m.BeforeStroops),
		After:          domain.FormatAmount(m.AfterStroops),
		Change:         domain.FormatAmount(m.ChangeStroops()),
		Unexplained:    domain.FormatAmount(m.UnexplainedStroops),
		Payments:       []client.StatementPayment{},
	}
	for _, p := range m.Payments {
		paid := client.StatementPayment{
			ID:       p.Payment.ID,
			From:     p.Payment.From,
			Amount:   domain.FormatAmount(p.Payment.AmountStroops),
			EventIDs: []string{},
			NotTaken: []client.NotTaken{},
		}
		for _, e := range p.Events {
			paid.EventIDs = append(paid.EventIDs, e.ID)
		}
		if len(p.Events) == 0 {
			for _, w := range watches[:min(len(watches), reasonsMax)] {
				paid.NotTaken = append(paid.NotTaken,
					client.NotTaken{WatchID: w.ID, Reasons: notTaken(w, p.Payment)})
			}
		}
		v.Payments = append(v.Payments, paid)
	}
	return v
}

// outOfTime returns why a watch does not accept a payment at its time, regardless of the rules.
func outOfTime(w domain.Watch, p domain.Payment) (reasons []string) {
	if w.Expired(p.ClosedAtMillis) {
		reasons = append(reasons, reasonExpired)
	}
	if w.Fulfilled.Is() {
		reasons = append(reasons, reasonFulfilled)
	}
	return reasons
}

// notTaken returns why a watch, in its current state, created no event for a payment.
func notTaken(w domain.Watch, p domain.Payment) (reasons []string) {
	if w.LiveSince == 0 || w.LiveSince > p.Ledger {
		return []string{reasonWatchedLater}
	}
	match, matches := domain.MatchPayment(w, p)
	switch {
	case matches && w.UpdatedAtMillis > p.ClosedAtMillis:
		return []string{reasonRulesChanged}
	case matches:
		return []string{reasonPending}
	}
	for _, reason := range match.Verification.Reasons {
		reasons = append(reasons, string(reason))
	}
	reasons = append(reasons, outOfTime(w, p)...)
	if len(reasons) == 0 {
		return []string{reasonNotReported}
	}
	return slices.Clip(reasons)
}

// statementCSV returns the moves of a page as CSV. The Link header contains the next page (RFC
// 8288).
func statementCSV(v client.Statement, r *request, q *decode.Query) reply {
	answer := reply{
		contentType: "text/csv; charset=utf-8",
		stream:      func(w *bufio.Writer) error { return v.WriteCSV(w) },
	}
	if v.NextCursor != nil {
		next := url.Values{"cursor": {*v.NextCursor}}
		for _, name := range q.Names() {
			if name != "cursor" {
				next.Set(name, q.Get(name))
			}
		}
		answer.link = "</v1/wallets/" + r.subjectID + "/statement?" + next.Encode() + `>; rel="next"`
	}
	return answer
}
