package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
)

const (
	statementInterval  = 500 * time.Millisecond // between looks at the statement
	reconcileRoundsMax = 5                      // while balances move that never moved before
	// codeBehind is the error code of a statement that is not available yet.
	codeBehind = "HISTORY_BEHIND"
)

// Reconciliation compares the balances of one wallet.
type Reconciliation struct {
	API      *client.Client
	Accounts source.Accounts
	Source   string // names the source; of an address no more than the host: it may hold a key
	Wallet   string
	Asset    string        // only this balance: XLM, CODE:ISSUER, or pool:ID; empty: all
	Timeout  time.Duration // for the service to catch up with the source
}

// Run reads both sides.
func (c Reconciliation) Run(ctx context.Context) (ReconcileReport, error) {
	deadline := time.Now().Add(c.Timeout)
	statement, err := c.statement(ctx, 0, deadline)
	if err != nil {
		return ReconcileReport{}, err
	}
	asked := c.balances(statement)
	for range reconcileRoundsMax {
		held, err := c.Accounts.Holdings(ctx, c.Wallet, asked)
		if err != nil {
			return ReconcileReport{}, err
		}
		since := *statement.RecordedSince
		held.Ledger += domain.ChainBase(since) // the source's number is that on its chain
		if held.Ledger < since {
			return ReconcileReport{}, fmt.Errorf("the source is behind: %s is at ledger %d, and moves "+
				"of the wallet are recorded since ledger %d: wait until it is there, or name another",
				c.Source, held.Ledger, since)
		}
		if statement, err = c.statement(ctx, held.Ledger, deadline); err != nil {
			return ReconcileReport{}, err
		}
		if !held.Exists && len(statement.Balances) == 0 {
			return ReconcileReport{}, fmt.Errorf("in ledger %d %s has no account %s, and no move of it was "+
				"recorded: it was merged into another, or is not there yet", held.Ledger, c.Source, c.Wallet)
		}
		// A balance that moved for the first time was not asked for: a newer ledger is, with it.
		all := c.balances(statement)
		if !slices.ContainsFunc(all, func(name string) bool { return !slices.Contains(asked, name) }) {
			return c.report(statement, held), nil
		}
		asked = all
	}
	return ReconcileReport{}, errors.New("balances that never moved before moved while each was " +
		"compared: name one --asset")
}

// balances are those that the source is asked for.
func (c Reconciliation) balances(s client.Statement) []string {
	if c.Asset != "" {
		return []string{c.Asset}
	}
	names := []string{domain.NativeCode}
	for _, b := range s.Balances {
		if b.Asset != domain.NativeCode {
			names = append(names, b.Asset)
		}
	}
	return names
}

// statement waits until the service has read up to a ledger; 0: as far as it has.
func (c Reconciliation) statement(
	ctx context.Context, to uint32, deadline time.Time,
) (client.Statement, error) {
	// The balances cover all pages, and the moves are not needed.
	one := client.Page{Limit: 1}
	filter := client.StatementFilter{Asset: c.Asset, To: client.Bound{Ledger: to}}
	tick := time.NewTicker(statementInterval)
	defer tick.Stop()
	for {
		s, err := c.API.GetStatement(ctx, c.Wallet, filter, one)
		var refused *client.Problem
		switch {
		case errors.As(err, &refused) && refused.Code == codeBehind:
		case err != nil:
			return s, err
		case s.ThroughLedger != nil && s.RecordedSince != nil && *s.ThroughLedger >= to:
			return s, nil
		}
		if time.Now().After(deadline) {
			return s, c.late(s, to, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, ctx.Err()
		}
	}
}

// late returns the error for a wait that timed out.
func (c Reconciliation) late(s client.Statement, to uint32, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("after %v the statement is not there: %w", c.Timeout, err)
	case s.ThroughLedger == nil || s.RecordedSince == nil:
		return fmt.Errorf("after %v no watch of the wallet has seen a ledger: does the service follow "+
			"the network (lumenhook coverage)?", c.Timeout)
	}
	return fmt.Errorf("the service is behind: it has read up to ledger %d, and %s is at ledger %d; "+
		"it was waited for %v (lumenhook coverage shows whether it continues)", *s.ThroughLedger,
		c.Source, to, c.Timeout)
}

func (c Reconciliation) report(s client.Statement, held source.Holdings) ReconcileReport {
	r := ReconcileReport{
		WalletAddress: s.WalletAddress,
		Source:        c.Source,
		Ledger:        held.Ledger,
		AccountExists: held.Exists,
		RecordedSince: *s.RecordedSince,
		KeptSince:     s.KeptSince,
		Balances:      []ReconciledBalance{},
	}
	unmoved := maps.Clone(held.Stroops)
	if c.Asset != "" {
		unmoved = map[string]int64{c.Asset: held.Stroops[c.Asset]}
	}
	for _, b := range s.Balances {
		delete(unmoved, b.Asset)
		r.Balances = append(r.Balances, reconcileMoved(b, held.Stroops[b.Asset]))
	}
	for name, stroops := range unmoved {
		r.Balances = append(r.Balances,
			ReconciledBalance{Asset: name, Held: domain.FormatAmount(stroops)})
	}
	slices.SortFunc(r.Balances, func(a, b ReconciledBalance) int {
		return strings.Compare(balanceOrder(a.Asset), balanceOrder(b.Asset))
	})
	return r
}

// balanceOrder orders balances.
func balanceOrder(name string) string {
	if name == domain.NativeCode {
		return ""
	}
	return name
}

// ReconcileReport holds the balances of the two sides after one ledger.
type ReconcileReport struct {
	WalletAddress string              `json:"walletAddress"`
	Source        string              `json:"source"`
	Ledger        uint32              `json:"ledger"`
	AccountExists bool                `json:"accountExists"` // in that ledger, as the source says
	RecordedSince uint32              `json:"recordedSince"`
	KeptSince     *time.Time          `json:"keptSince"` // nil: everything is kept
	Balances      []ReconciledBalance `json:"balances"`  // XLM first, then by name
}

// ReconciledBalance is one balance of both. If no move of it is recorded, the statement does not
// know it, and its fields are nil.
type ReconciledBalance struct {
	Asset       string  `json:"asset"`
	Opening     *string `json:"opening"`
	Moves       uint64  `json:"moves"`
	Closing     *string `json:"closing"`
	Held        string  `json:"held"`       // by the account, as the source says
	Difference  *string `json:"difference"` // what the source has more
	Unexplained *string `json:"unexplained"`

	finding string // empty: none
}

const noAmount = "0.0000000"

// reconcileMoved compares a balance with recorded moves.
func reconcileMoved(b client.BalanceStatement, heldStroops int64) ReconciledBalance {
	held := domain.FormatAmount(heldStroops)
	v := ReconciledBalance{
		Asset:       b.Asset,
		Opening:     &b.Opening,
		Moves:       b.Moves,
		Closing:     &b.Closing,
		Held:        held,
		Unexplained: &b.Unexplained,
	}
	closing, err := domain.ParseAmount(b.Closing)
	if err != nil { // the API never returns that
		v.finding = fmt.Sprintf("%s: the statement's closing balance %q %v", b.Asset, b.Closing, err)
		return v
	}
	difference := domain.FormatAmount(heldStroops - closing)
	v.Difference = &difference
	var found []string
	if difference != noAmount {
		found = append(found,
			fmt.Sprintf("the source has %s and the statement %s", held, b.Closing))
	}
	if b.Unexplained != noAmount {
		found = append(found, b.Unexplained+" is unexplained")
	}
	if len(found) > 0 {
		v.finding = b.Asset + ": " + strings.Join(found, ", and ")
	}
	return v
}

// Compared reports whether any balance was compared, because moves of it are recorded.
func (r ReconcileReport) Compared() bool {
	return slices.ContainsFunc(r.Balances, func(b ReconciledBalance) bool { return b.Closing != nil })
}

// Findings returns the error of balances that differ or are not explained, or nil.
func (r ReconcileReport) Findings() error {
	var found []string
	for _, b := range r.Balances {
		if b.finding != "" {
			found = append(found, b.finding)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("after ledger %d %d of %d balances do not agree: %s. Either no watch saw the "+
		"wallet for a while, or a ledger is missing (lumenhook coverage), or a source was wrong; "+
		"`lumenhook statement` names the move", r.Ledger, len(found), len(r.Balances),
		strings.Join(found, "; "))
}

// Show prints a report for people.
func (r ReconcileReport) Show(w io.Writer) {
	cli.Row(w, "wallet", r.WalletAddress)
	cli.Row(w, "source", r.Source)
	cli.Row(w, "ledger", r.Ledger)
	cli.Row(w, "recorded since", r.RecordedSince)
	if r.KeptSince != nil {
		cli.Row(w, "kept since", r.KeptSince)
	}
	if !r.AccountExists {
		cli.Row(w, "note", "the source has no such account: it was merged into another")
	}
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "ASSET", "OPENING", "MOVES", "CLOSING", "SOURCE", "DIFFERENCE", "UNEXPLAINED")
	for _, b := range r.Balances {
		cli.Row(w, b.Asset, b.Opening, b.Moves, b.Closing, b.Held, b.Difference, b.Unexplained)
	}
}
