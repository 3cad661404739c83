package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
)

func newLedger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Read ledgers of the Stellar network, and what is paid in them",
	}
	c.AddCommand(newLedgerSources(), newLedgerPayments(), newLedgerCheck(), newLedgerReset())
	c.Example = examplesOf(c, "sources", "payments", "check", "reset")
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
by gzip or zstd or not; - is standard input. Each ledger is held against its hashes,
and one that is not what they say is an error: nothing of it is printed. Whether its
own hash is the network's, nobody can tell of a file. What cannot be read is an
error, and so is a transaction that cannot: the others are printed first.`,
		Example: `  # The payments in a file of a ledger lake
  lumenhook ledger payments FFFFFD5D--63092988.xdr.zst

  # The same through a pipe, as when the file is fetched
  cat FFFFFD5D--63092988.xdr.zst | lumenhook ledger payments -`,
		Args: cli.SomeArguments,
		RunE: func(cmd *cobra.Command, files []string) error {
			e, err := ledger.NewExtractor(passphrase)
			if err != nil {
				return fmt.Errorf("--network-passphrase: %w", err)
			}
			return ops.LedgerPayments{
				Extractor:  e,
				Passphrase: passphrase,
				Stdin:      cmd.InOrStdin(),
				Out:        cmd.OutOrStdout(),
				Notes:      cmd.ErrOrStderr(),
			}.Print(cmd.Context(), files)
		},
	}
	c.Flags().StringVar(&passphrase, "network-passphrase", network.PublicNetworkPassphrase,
		"network that the ledgers are of")
	return c
}
