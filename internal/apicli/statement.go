package apicli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
)

// StatementMovesMax bounds what one command reads of a statement.
const StatementMovesMax = 100_000

// nothingUnexplained is the amount of a balance that is complete.
const nothingUnexplained = "0.0000000"

// Statement are the flags of a statement.
type Statement struct {
	Wallet   string
	asset    string
	from, to string
}

// Register adds the flags.
func (s *Statement) Register(f *pflag.FlagSet) {
	f.StringVar(&s.Wallet, "wallet", "", "the wallet's public address")
	f.StringVar(&s.asset, "asset", "",
		"only this balance: XLM, CODE:ISSUER, or pool:ID for shares in a liquidity pool")
	f.StringVar(&s.from, "from", "", "the first ledger, or a time, or how long ago")
	f.StringVar(&s.to, "to", "", "the last ledger, or a time before which it closed, or how long ago")
}

var ledgerForm = regexp.MustCompile(`^[0-9]+$`)

// Filter returns what the flags ask for.
func (s *Statement) Filter() (f client.StatementFilter, err error) {
	f.Asset, err = s.asset, CheckWallet(s.Wallet)
	for _, b := range []struct {
		flag, value string
		ledger      *uint32
		set         func() error
	}{
		{"from", s.from, &f.FromLedger, func() (err error) {
			f.From, err = cli.InstantFlag("from", s.from)
			return err
		}},
		{"to", s.to, &f.ToLedger, func() (err error) {
			f.To, err = cli.InstantFlag("to", s.to)
			return err
		}},
	} {
		if !ledgerForm.MatchString(b.value) {
			err = errors.Join(err, b.set())
			continue
		}
		n, invalid := strconv.ParseUint(b.value, 10, 31)
		if invalid != nil || n == 0 {
			err = errors.Join(err, cli.Usage(fmt.Errorf("--%s %q: must be a ledger from 1 to 2147483647, "+
				"or a time", b.flag, b.value)))
		}
		*b.ledger = uint32(n)
	}
	return f, err
}

// Read reads all pages of a statement.
func (s *Statement) Read(ctx context.Context, c *client.Client) (all client.Statement, err error) {
	f, err := s.Filter()
	if err != nil {
		return all, err
	}
	page := client.Page{Limit: 250}
	for {
		part, err := c.GetStatement(ctx, s.Wallet, f, page)
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
	case f.From.After(now):
		return said
	case through != nil && f.FromLedger > *through:
		return fmt.Sprintf("%s; the newest ledger that was read is %d", said, *through)
	}
	return ""
}

// Show prints a statement for people.
func (s *Statement) Show(w io.Writer, read client.Statement) {
	cli.Row(w, "wallet", read.WalletAddress)
	cli.Row(w, "recorded since", read.RecordedSince)
	cli.Row(w, "through", read.ThroughLedger)
	if read.KeptSince != nil {
		cli.Row(w, "kept since", read.KeptSince)
	}
	if read.BeginsLater && s.from != "" {
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

// Unexplained names the balances of a statement that are not complete; nil: there is none.
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
