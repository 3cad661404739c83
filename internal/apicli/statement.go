package apicli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// StatementMovesMax bounds what one command reads of a statement.
const StatementMovesMax = 100_000

// nothingUnexplained is the amount of a balance that is complete.
const nothingUnexplained = "0.0000000"

// ReadStatement reads all pages of a statement.
func ReadStatement(
	ctx context.Context, c *client.Client, wallet string, f client.StatementFilter,
) (all client.Statement, err error) {
	page := client.Page{Limit: 250}
	for {
		part, err := c.GetStatement(ctx, wallet, f, page)
		if err != nil {
			return all, err
		}
		part.Data = append(all.Data, part.Data...)
		if all = part; all.NextCursor == nil {
			return all, nil
		}
		if len(all.Data) >= StatementMovesMax {
			return all, cli.Usage(fmt.Errorf("the statement has more than %d moves: "+
				"name --from and --to, or one --asset", StatementMovesMax))
		}
		page.Cursor = *all.NextCursor
	}
}

// Future says that a statement begins after all that has happened; empty: it does not. Such a one
// has no moves, and another program's clock or a typing mistake may be why.
func Future(f client.StatementFilter, read client.Statement, now time.Time) string {
	const said = "--from is in the future: there is no move yet, and balances are those of now"
	switch through := read.ThroughLedger; {
	case f.From.Time.After(now):
		return said
	case through != nil && f.From.Ledger > *through:
		return fmt.Sprintf("%s; the newest ledger that was read is %d", said, *through)
	}
	return ""
}

// ShowStatement prints a statement for people, who asked for what a filter selects.
func ShowStatement(w io.Writer, read client.Statement, f client.StatementFilter) {
	cli.Row(w, "wallet", read.WalletAddress)
	cli.Row(w, "recorded since", read.RecordedSince)
	cli.Row(w, "through", read.ThroughLedger)
	if read.KeptSince != nil {
		cli.Row(w, "kept since", read.KeptSince)
	}
	if read.BeginsLater && f.From != (client.Bound{}) {
		cli.Row(w, "note", "the record begins later than what was asked for")
	}
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "ASSET", "OPENING", "CLOSING", "MOVES", "UNEXPLAINED")
	for _, b := range read.Balances {
		cli.Row(w, b.Asset, b.Opening, b.Closing, b.Moves, b.Unexplained)
	}
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "LEDGER", "CLOSED", "ASSET", "KIND", "CHANGE", "AFTER", "UNEXPLAINED", "TRANSACTION",
		"EVENTS")
	for _, m := range read.Data {
		gap := m.Unexplained
		if gap == nothingUnexplained {
			gap = ""
		}
		events := slices.Concat(eventsOf(m), notTakenOf(m))
		cli.Row(w, m.Ledger, m.LedgerClosedAt, m.Asset, m.Kind, m.Change, m.After, gap, m.TxHash,
			strings.Join(events, " "))
	}
}

func eventsOf(m client.BalanceMove) (all []string) {
	for _, p := range m.Payments {
		all = append(all, p.EventIDs...)
	}
	return all
}

// notTakenOf says which watches took which payments not, each as watch=REASON+REASON.
func notTakenOf(m client.BalanceMove) (all []string) {
	for _, p := range m.Payments {
		for _, n := range p.NotTaken {
			all = append(all, n.WatchID+"="+strings.Join(n.Reasons, "+"))
		}
	}
	return all
}

// WriteStatement writes the moves as CSV, with the columns of the API's.
func WriteStatement(out io.Writer, s client.Statement) error {
	w := csv.NewWriter(out)
	rows := [][]string{{
		"ledger", "ledgerClosedAt", "txHash", "operation", "asset", "kind", "before", "change", "after",
		"unexplained", "payments", "eventIds", "notTaken",
	}}
	for _, m := range s.Data {
		var operation string
		if m.Operation != nil {
			operation = strconv.Itoa(*m.Operation)
		}
		var payments []string
		for _, p := range m.Payments {
			payments = append(payments, p.ID)
		}
		rows = append(rows, []string{
			strconv.FormatUint(uint64(m.Ledger), 10),
			m.LedgerClosedAt.UTC().Format("2006-01-02T15:04:05.000Z"), m.TxHash, operation, m.Asset, m.Kind,
			m.Before, m.Change, m.After, m.Unexplained, strings.Join(payments, " "),
			strings.Join(eventsOf(m), " "), strings.Join(notTakenOf(m), " "),
		})
	}
	return w.WriteAll(rows)
}

// Unexplained returns an error that names the incomplete balances of a statement, or nil.
func Unexplained(s client.Statement) error {
	var faults []string
	for _, b := range s.Balances {
		if b.Unexplained != nothingUnexplained {
			faults = append(faults, b.Unexplained+" "+b.Asset)
		}
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("unexplained: %s: a move does not begin where the last one ended. Either no "+
		"watch saw the wallet for a while, or a ledger is missing (lumenhook coverage), or its source "+
		"was wrong",
		strings.Join(faults, ", "))
}

// ShowCoverage prints which ledgers were read.
func ShowCoverage(w io.Writer, c client.Coverage) {
	cli.Row(w, "network", c.NetworkPassphrase)
	if c.Cursor == nil {
		cli.Row(w, "cursor", "no ledger was read yet")
		return
	}
	cli.Row(w, "cursor", c.Cursor.Ledger)
	cli.Row(w, "hash", c.Cursor.Hash)
	cli.Row(w, "closed", c.Cursor.ClosedAt)
	cli.Row(w, "read", c.Cursor.ReadAt)
	cli.Row(w, "no gap since", c.SinceLedger)
	cli.Row(w, "balance moves since", c.BalanceMovesSince)
	_, _ = io.WriteString(w, "\n")
	cli.Row(w, "FROM", "TO", "LEDGERS", "")
	next := uint32(0)
	for _, r := range c.Ranges {
		if next != 0 && r.From > next {
			cli.Row(w, next, r.From-1, r.From-next, "NOT READ")
		}
		cli.Row(w, r.From, r.To, r.To-r.From+1, verifiedText(r.Verified))
		next = r.To + 1
	}
}

func verifiedText(verified bool) string {
	if verified {
		return "verified"
	}
	return "not verified: their source gives nothing to verify"
}

// GapsFault returns the error of a coverage with gaps, or nil.
func GapsFault(c client.Coverage) error {
	if len(c.Gaps) == 0 {
		return nil
	}
	return fmt.Errorf("%d ranges of ledgers were not read, the first from %d to %d: "+
		"lumenhook backfill reads them for a watch", len(c.Gaps), c.Gaps[0].From, c.Gaps[0].To)
}

// CheckWallet refuses what can be no wallet's address, as the value of --wallet: of one that is
// only mistyped the service says that nobody watches it. The value is not repeated: it may be a
// secret key.
func CheckWallet(address string) error {
	if strkey.IsValidEd25519PublicKey(address) {
		return nil
	}
	return cli.Usage(errors.New("--wallet: must be an account's address: 56 characters that start " +
		"with G, with a valid checksum"))
}
