package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

func newLedgerSources() *cobra.Command {
	var process config.Process
	var out cli.Output
	c := newCommand("ledger sources", func(cmd *cobra.Command, _ []string) error {
		sources, err := process.LedgerSources(cmd.Context())
		if err != nil {
			return err
		}
		err = out.Print(cmd.OutOrStdout(), sources, func(w io.Writer) {
			showLedgerSources(w, sources.SourceStatuses)
		})
		if left := sources.Fault(); err == nil && left != nil {
			return cli.Differs(left)
		}
		return err
	})
	process.Register(c.Flags())
	out.Register(c.Flags())
	return c
}

func showLedgerSources(w io.Writer, s domain.SourceStatuses) {
	cli.Row(w, "newest ledger that counts", ledgerOrDash(s.Ledger))
	cli.Row(w, "sources that must agree", s.Need)
	_, _ = io.WriteString(w, "\n") // an error shows at the table's Flush
	cli.Row(w, "SOURCE", "STATE", "LEDGER", "BEHIND", "REASON", "SINCE LEDGER", "SINCE", "DETAIL")
	for _, one := range s.Sources {
		cells := []any{one.Name, one.State, ledgerOrDash(one.Ledger), "-", "-", "-", "-", "-"}
		if one.Ledger > 0 {
			cells[3] = one.Behind
		}
		if left := one.Left; left != nil {
			cells = append(cells[:4], left.Reason, left.Ledger, left.Since, left.Detail)
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

// ledgerCheck is `lumenhook ledger check`.
type ledgerCheck struct {
	from, to uint32
	service  config.Service
	source   config.Ledgers
}

func newLedgerCheck() *cobra.Command {
	var k ledgerCheck
	c := newCommand("ledger check", func(cmd *cobra.Command, _ []string) error {
		return k.run(cmd.Context(), cmd.OutOrStdout())
	})
	f := c.Flags()
	f.Uint32Var(&k.from, "from", 0, "first ledger to read")
	f.Uint32Var(&k.to, "to", 0, "last ledger to read")
	k.service.Register(f)
	k.service.RegisterKafka(f)
	k.source.Register(f, "pubnet")
	cli.Require(c, "from", "to")
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

// resetMax bounds each question of `lumenhook ledger reset`.
const resetMax = 30 * time.Second

// ledgerReset is `lumenhook ledger reset`.
type ledgerReset struct {
	ledgerCheck
	first   uint32
	confirm string
	dryRun  bool
	output  cli.Output
}

// startedChain is its answer.
type startedChain struct {
	Network string `json:"network"`
	Proof   string `json:"proof"`   // that the source serves another chain; empty: none
	Former  uint32 `json:"former"`  // the last ledger that was read of the former chain
	First   uint32 `json:"first"`   // the first one to be read of the new chain
	Number  uint32 `json:"number"`  // that this one has from now on
	Started bool   `json:"started"` // false with --dry-run
}

func newLedgerReset() *cobra.Command {
	var k ledgerReset
	c := newCommand("ledger reset", func(cmd *cobra.Command, _ []string) error {
		return k.run(cmd.Context(), cmd.OutOrStdout())
	})
	f := c.Flags()
	k.service.Register(f)
	k.service.RegisterKafka(f)
	k.source.Register(f, "testnet")
	f.Uint32Var(&k.first, "first", 0,
		"first ledger to read, by its number on the new chain (default the source's oldest ledger)")
	f.StringVar(&k.confirm, "confirm", "",
		"name or passphrase of the network, to reset without proof that the network was reset")
	f.BoolVar(&k.dryRun, "dry-run", false, "show what would change without changing anything")
	k.output.Register(f)
	k.output.Changes(c)
	return c
}

func (k *ledgerReset) run(ctx context.Context, out io.Writer) error {
	cluster, err := k.service.Cluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := k.settle(); err != nil {
		return err
	}
	if k.source.Passphrase == network.PublicNetworkPassphrase {
		return errors.New("the public network is never reset: name a source that serves its chain")
	}
	cursor, err := follower.OpenCursor(cluster, k.source.Passphrase)
	if err != nil {
		return err
	}
	defer cursor.Close()
	last, found, err := cursor.Newest(ctx)
	if err != nil {
		return err
	}
	if !found {
		return errors.New("no ledger was read yet: there is no former chain")
	}
	chain, closedAtMillis, err := k.judge(ctx, last)
	if err != nil {
		return err
	}
	if !k.dryRun {
		chain.Number, err = follower.StartChain(ctx, cluster, chain.Network, chain.First,
			closedAtMillis, time.Now().UnixMilli())
		if err != nil {
			return fmt.Errorf("%w; nothing was changed, or it is not known: run it again with --dry-run",
				err)
		}
		chain.Started = true
	}
	return k.output.Print(out, chain, func(w io.Writer) { showStartedChain(w, chain) })
}

// judge asks the source which chain it serves, and from where on.
func (k *ledgerReset) judge(
	ctx context.Context, last schemas.LedgerRead,
) (chain startedChain, closedAtMillis int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, resetMax)
	defer cancel()
	source, err := k.source.Open(slog.New(slog.DiscardHandler))
	if err == nil {
		err = source.Check(ctx)
	}
	if err != nil {
		return chain, 0, err
	}
	proof := follower.CheckChain(ctx, source, last)
	if !errors.Is(proof, follower.ErrOtherChain) {
		if k.confirm == "" || k.confirm != k.source.Network && k.confirm != k.source.Passphrase {
			return chain, 0, fmt.Errorf("nothing proves that the network was reset, and nothing was "+
				"changed: %w. If you know that it was, confirm with --confirm %q", cmp.Or(proof,
				errors.New("the source serves the chain that was followed, or lags")), k.source.Network)
		}
		proof = nil
	}
	chain = startedChain{
		Network: k.source.Passphrase,
		Former:  last.Sequence,
		First:   k.first,
		Number:  domain.ChainBase(last.Sequence) + domain.LedgersPerChain + k.first,
	}
	if proof != nil {
		chain.Proof = proof.Error()
	}
	if chain.First == 0 {
		chain.First = k.oldest(ctx)
		chain.Number += chain.First
	}
	source.Continue(0, "")
	page, err := source.Next(ctx, chain.First)
	if err != nil {
		return chain, 0, fmt.Errorf("reading ledger %d of the new chain; another can be named with "+
			"--first: %w", chain.First, err)
	}
	return chain, page[0].ClosedAtMillis, nil
}

// oldest is the oldest ledger that one of the servers says it has, or the first that can hold a
// payment.
func (k *ledgerReset) oldest(ctx context.Context) (oldest uint32) {
	servers, err := k.source.Servers()
	if err != nil {
		return domain.FirstLedger
	}
	for _, server := range servers {
		report, err := server.Source.Report(ctx)
		if err == nil && (oldest == 0 || report.Oldest < oldest) {
			oldest = report.Oldest
		}
	}
	return max(oldest, domain.FirstLedger)
}

func showStartedChain(w io.Writer, c startedChain) {
	proof := cmp.Or(c.Proof, "none; confirmed with --confirm")
	cli.Row(w, "network", c.Network)
	cli.Row(w, "proof", proof)
	cli.Row(w, "last ledger of the former chain", c.Former)
	cli.Row(w, "first ledger of the new chain", fmt.Sprintf("%d, from now on called %d", c.First,
		c.Number))
	if !c.Started {
		cli.Row(w, "started", "no: --dry-run")
		return
	}
	cli.Row(w, "started", "yes: the follower continues there within 20 seconds; remove "+
		"--trusted-ledger from its settings, if it has one")
}
