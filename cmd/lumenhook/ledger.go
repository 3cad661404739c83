package main

import "github.com/spf13/cobra"

func newLedger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Check the sources of ledgers, and what was observed in ledgers",
	}
	c.AddCommand(newLedgerSources(), newLedgerCheck(), newLedgerReset())
	c.Example = examplesOf(c, "sources", "check", "reset")
	return c
}
