package ops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
)

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
