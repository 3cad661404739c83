// Command lumenhook watches wallets on the Stellar network and delivers each
// matching payment as a signed webhook.
//
// This package is the only place that reads configuration and wires parts. Each
// subcommand has a file of its own.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

func main() {
	clickhouse.MaybeChild() // the engine's child is this program again
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	if err := newRoot().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "lumenhook: "+err.Error())
		stop()
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lumenhook",
		Short: "Payment webhooks for the Stellar network",
		Long: `Lumenhook watches wallet addresses on the Stellar ledger, matches incoming
payments against each watch's rules, and delivers each match as a signed HTTPS
webhook, at least once, under one event id.

Start with:

  lumenhook run                         everything, on this machine
  lumenhook devnet account --json       a wallet on its development network
  lumenhook devnet pay --to G… --amount 12.5

Every flag can be set by a variable: --data-dir by LUMENHOOK_DATA_DIR. A flag
wins over its variable.`,
		SilenceUsage: true, SilenceErrors: true, Version: builtFrom(),
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags()) },
	}
	root.AddCommand(
		newRun(), newDevnet(), newLedger(), newVerify(), newSecrets(),
		newAccounts(), newKeys(), newEndpoints(), newWatches(), newEvents(),
		newSQL(), newTopics(), newRebuild(), newVerifyProjection(), newMigrate(),
	)
	return root
}

// builtFrom is the module's version: of a release its tag, of a checkout its commit.
func builtFrom() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}

// oneArgument wants exactly the argument that the command's use line names.
func oneArgument(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		name := strings.Fields(cmd.Use)[1]
		return fmt.Errorf("wants one %s, and got %d arguments: %s", name, len(args), cmd.UseLine())
	}
	return nil
}

// fromEnvironment sets flags that were not given from variables of their names,
// and reports every variable that does not fit.
func fromEnvironment(flags *pflag.FlagSet) error {
	var faults []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "LUMENHOOK_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, set := os.LookupEnv(name)
		if !set || f.Changed || f.Name == "help" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			faults = append(faults, fmt.Errorf("%s=%q: %w", name, value, err))
		}
	})
	return errors.Join(faults...)
}
