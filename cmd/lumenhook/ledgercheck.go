package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/streams/follower"
)

// ledgerCheck is `lumenhook ledger check`.
type ledgerCheck struct {
	from, to uint32
	service  config.Service
	source   config.Ledgers
}

func newLedgerCheck() *cobra.Command {
	var k ledgerCheck
	c := &cobra.Command{
		Use:   "check --from LEDGER --to LEDGER",
		Short: "Read ledgers again, and name what would now be seen differently",
		Long: `Reads a range of ledgers again with this program, holds the payments in it
against those that were observed when it was followed, and prints each difference:
what would now be seen, what no longer is, and what is not the same. Nothing is
changed. Use it after moving to a newer lumenhook, and when a transaction was
quarantined. "lumenhook backfill" delivers what would now be seen.

The topics are those of a running service (--data-dir), or of --kafka-brokers;
without flags for a source, its development network is read. With differences the
command ends with 3.`,
		Example: `  # After an upgrade: would these ledgers be seen as they were?
  lumenhook ledger check --from 63092000 --to 63093000

  # The same on a cluster, with ledgers of another server
  lumenhook ledger check --from 63092000 --to 63093000 --kafka-brokers kafka-1:9092 \
    --stellar-rpc-url https://rpc.example`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return k.run(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f := c.Flags()
	f.Uint32Var(&k.from, "from", 0, "first ledger")
	f.Uint32Var(&k.to, "to", 0, "last ledger")
	k.service.Register(f)
	k.service.RegisterKafka(f)
	k.source.Register(f, "pubnet")
	_ = c.MarkFlagRequired("from")
	_ = c.MarkFlagRequired("to")
	return c
}

func (k *ledgerCheck) run(ctx context.Context, out io.Writer) error {
	if k.from == 0 || k.to < k.from {
		return cli.Usage(fmt.Errorf("--from %d --to %d: must be the sequences of ledgers, "+
			"the first not above the last", k.from, k.to))
	}
	if err := k.source.CheckNetwork(); err != nil {
		return cli.Usage(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	cluster, err := k.service.Cluster(quiet)
	if err != nil {
		return err
	}
	if err := k.settle(); err != nil {
		return err
	}
	source, err := k.source.Open(quiet)
	if err != nil {
		return err
	}
	differences, err := ops.LedgerCheck{
		From:    k.from,
		To:      k.to,
		Cluster: cluster,
		Source:  follower.OfChain(source, k.from),
		Out:     out,
	}.Run(ctx)
	if err == nil && differences > 0 {
		err = cli.Differs(fmt.Errorf("%d differences", differences))
	}
	return err
}

// settle fills in the network of a running service where the flags name none.
func (k *ledgerCheck) settle() error {
	if len(k.service.Kafka.Brokers) == 0 && !k.source.NamesServer() {
		run, err := k.service.Run("name both, with --kafka-brokers and --stellar-rpc-url")
		if err != nil {
			return err
		}
		k.source.UseServer(run.Stellar.RPCURL, run.Stellar.NetworkPassphrase)
	}
	return cli.Usage(k.source.Check())
}

func newLedger() *cobra.Command {
	c := &cobra.Command{
		Use:   "ledger",
		Short: "Check the sources of ledgers, and what was observed in ledgers",
	}
	c.AddCommand(newLedgerSources(), newLedgerCheck(), newLedgerReset())
	c.Example = examplesOf(c, "sources", "check", "reset")
	return c
}
