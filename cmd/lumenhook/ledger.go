package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

func newLedger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Read ledgers of the Stellar network, and what is paid in them",
	}
	c.AddCommand(newLedgerPayments(), newLedgerCheck())
	return c
}

func newLedgerPayments() *cobra.Command {
	var passphrase string
	c := &cobra.Command{
		Use:   "payments FILE…",
		Short: "Print the payments in files of ledgers, one JSON line each",
		Long: `Prints every incoming payment of the ledgers in the files: the fields of an
event's data.payment, and the operation that paid. Ledgers come in the order of
the files, payments in the order of the ledger.

A file holds LedgerCloseMeta and LedgerCloseMetaBatch, one after another: as raw
XDR, as a stream of records such as stellar-core writes, or as base64, compressed
by gzip or zstd or not; - is standard input. What cannot be read is an error, and
so is a transaction that cannot: the others are printed first.`,
		Example: "  lumenhook ledger payments FFFFFD5D--63092988.xdr.zst\n  curl … | jq -r '.result.ledgers[].metadataXdr' | lumenhook ledger payments -",
		Args:    cli.SomeArguments,
		RunE: func(cmd *cobra.Command, files []string) error {
			e, err := ledger.NewExtractor(passphrase)
			if err != nil {
				return fmt.Errorf("--network-passphrase: %w", err)
			}
			return printPayments(cmd.Context(), e, files, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.Flags().StringVar(&passphrase, "network-passphrase", network.PublicNetworkPassphrase, "network that the ledgers are of")
	return c
}

// paymentLine is a payment as this command prints it.
type paymentLine struct {
	ID             string           `json:"id"`
	Operation      string           `json:"operation"`
	TxHash         string           `json:"txHash"`
	Ledger         uint32           `json:"ledger"`
	LedgerClosedAt string           `json:"ledgerClosedAt"`
	From           string           `json:"from"`
	To             string           `json:"to"`
	ToMuxedID      *string          `json:"toMuxedId"`
	Memo           *string          `json:"memo"`
	MemoType       *domain.MemoType `json:"memoType"`
	Asset          domain.AssetView `json:"asset"`
	Amount         string           `json:"amount"`
	AmountStroops  string           `json:"amountStroops"`
}

func lineOf(p domain.Payment) paymentLine {
	v := domain.ViewPayment(p)
	return paymentLine{v.ID, p.Operation, v.TxHash, v.Ledger, v.LedgerClosedAt, v.From, v.To, v.ToMuxedID, v.Memo, v.MemoType, v.Asset, v.Amount, v.AmountStroops}
}

// printPayments stops at the first file that cannot be read, after printing the
// payments of those before it.
func printPayments(ctx context.Context, e *ledger.Extractor, files []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	out := bufio.NewWriter(stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	unread := 0
	for _, file := range files {
		ledgers, err := readLedgers(file, stdin)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, raw := range ledgers {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			l, err := e.Extract(raw)
			if err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			for _, p := range l.Payments {
				if err := lines.Encode(lineOf(p)); err != nil {
					return err
				}
			}
			for _, q := range l.Quarantined {
				fmt.Fprintf(stderr, "%s: ledger %d, transaction %d (%s) cannot be read: %s\n", file, l.Sequence, q.Order, q.TxHash, q.Reason)
			}
			unread += len(l.Quarantined)
		}
	}
	if unread > 0 {
		return fmt.Errorf("%d transactions cannot be read, and what they pay is not printed", unread)
	}
	return nil
}

func readLedgers(file string, stdin io.Reader) ([][]byte, error) {
	if file == "-" {
		return ledger.ReadFile(stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ledger.ReadFile(f)
}
