package apicli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// StatementMovesMax bounds the moves that one command reads.
const StatementMovesMax = 100_000

// nothingUnexplained is the unexplained amount of a complete balance.
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
			return all, cli.Usage(fmt.Errorf("the statement has more than %d moves; "+
				"narrow it with --from and --to, or with --asset", StatementMovesMax))
		}
		page.Cursor = *all.NextCursor
	}
}

// Future returns a note if a statement starts in the future, and "" otherwise. Such a statement has
// no moves. The cause may be another machine's clock or a typo.
func Future(f client.StatementFilter, read client.Statement, now time.Time) string {
	const said = "--from is in the future, so there are no moves, and the balances are current"
	switch through := read.ThroughLedger; {
	case f.From.Time.After(now):
		return said
	case through != nil && f.From.Ledger > *through:
		return fmt.Sprintf("%s; the latest ledger read is %d", said, *through)
	}
	return ""
}

// ShowStatement prints a statement. f is the filter that the user requested.
func ShowStatement(w io.Writer, read client.Statement, f client.StatementFilter) {
	cli.Row(w, "wallet", read.WalletAddress)
	cli.Row(w, "recorded since", read.RecordedSince)
	cli.Row(w, "through", read.ThroughLedger)
	if read.KeptSince != nil {
		cli.Row(w, "kept since", read.KeptSince)
	}
	if read.BeginsLater && f.From != (client.Bound{}) {
		cli.Row(w, "note", "the record starts after --from")
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
		events := slices.Concat(m.EventIDs(), m.NotTaken())
		cli.Row(w, m.Ledger, m.LedgerClosedAt, m.Asset, m.Kind, m.Change, m.After, gap, m.TxHash,
			strings.Join(events, " "))
	}
}

// Unexplained returns an error that lists the statement's incomplete balances, or nil if there are
// none.
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
	return fmt.Errorf("unexplained: %s: a move does not start where the previous one ended. Either "+
		"no watch covered the wallet for a while, or a ledger is missing (lumenhook coverage), or its "+
		"source was wrong",
		strings.Join(faults, ", "))
}

// ShowCoverage prints which ledgers were read.
func ShowCoverage(w io.Writer, c client.Coverage) {
	cli.Row(w, "network", c.NetworkPassphrase)
	if c.Cursor == nil {
		cli.Row(w, "cursor", "no ledger has been read yet")
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
	return "not verified: the source provides no hashes"
}

// CheckGaps returns an error if the coverage has gaps.
func CheckGaps(c client.Coverage) error {
	if len(c.Gaps) == 0 {
		return nil
	}
	return cli.Differs(fmt.Errorf("%d ranges of ledgers were not read, the first from %d to %d; to "+
		"read them for a watch, use `lumenhook backfill`", len(c.Gaps), c.Gaps[0].From, c.Gaps[0].To))
}

// CheckWallet rejects an invalid --wallet. For a mistyped address the service would only report
// that nothing watches it. The error does not repeat the value, which may be a secret key.
func CheckWallet(address string) error {
	if strkey.IsValidEd25519PublicKey(address) {
		return nil
	}
	return cli.Usage(errors.New("--wallet: must be an account's address: 56 characters that start " +
		"with G, with a valid checksum"))
}
