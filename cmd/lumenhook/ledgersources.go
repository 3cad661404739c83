package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
)

func newLedgerSources() *cobra.Command {
	var process config.Process
	var out cli.Output
	c := &cobra.Command{
		Use:   "sources",
		Short: "Show which sources of ledgers agree, and which are left out, and why",
		Long: `Asks the process that follows ledgers how each of its sources stands: which agree
on the ledgers that count, which lag, and which are left out: for what reason, since
which ledger and when. A source is left out that names another hash than the others
(disagrees), follows another history (forked), gives what is not as its hashes say
(refused), is away or late, or no longer keeps the ledger (behind).

It shows what the process has seen while following, and asks no source. With one source
there is nothing to compare (alone): --ledger-quorum requires several to agree. If a
source is left out, the command ends with 3.`,
		Example: `  # Of the service of this machine
  lumenhook ledger sources

  # Of the follower elsewhere, as JSON
  lumenhook ledger sources --metrics-listen 10.0.0.7:9464 --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			sources, err := process.LedgerSources(cmd.Context())
			if err != nil {
				return err
			}
			err = out.Print(cmd.OutOrStdout(), sources, func(w io.Writer) {
				showLedgerSources(w, sources.SourceStandings)
			})
			if left := sources.Fault(); err == nil && left != nil {
				return cli.Differs(left)
			}
			return err
		},
	}
	process.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func showLedgerSources(w io.Writer, s domain.SourceStandings) {
	cli.Row(w, "newest ledger that counts", ledgerOrDash(s.Ledger))
	cli.Row(w, "sources that must agree", s.Need)
	_, _ = io.WriteString(w, "\n") // an error shows at the table's Flush
	cli.Row(w, "SOURCE", "STATE", "LEDGER", "BEHIND", "REASON", "SINCE LEDGER", "SINCE", "DETAIL")
	for _, one := range s.Sources {
		cells := []any{one.Name, one.State, ledgerOrDash(one.Ledger), "-"}
		if one.Ledger > 0 {
			cells[3] = one.Behind
		}
		if left := one.Left; left != nil {
			cells = append(cells, left.Reason, left.Ledger, left.Since, left.Detail)
		}
		cli.Row(w, cells...)
	}
}

// ledgerOrDash shows 0, which is no ledger, as a dash.
func ledgerOrDash(sequence uint32) any {
	if sequence == 0 {
		return nil
	}
	return sequence
}
