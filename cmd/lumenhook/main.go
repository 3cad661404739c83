// Command lumenhook watches wallets on the Stellar network and delivers each
// matching payment as a signed webhook.
//
// This package is the only place that reads configuration; roles are assembled by
// internal/node. A file has the commands of one task.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/completion"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/keys"
)

func main() {
	clickhouse.MaybeChild() // the engine's child is this program again
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once
	code := cli.Execute(ctx, commandLine(os.Args[1:]))
	stop()
	os.Exit(code)
}

// stopSignals are those that end the program in order: a terminal that is closed
// is one of them, unless nohup has it ignored.
func stopSignals() []os.Signal {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}

func commandLine(args []string) cli.Line {
	return cli.Line{
		Root:      newRoot(),
		Args:      args,
		Stderr:    os.Stderr,
		Elsewhere: []string{keys.MasterKeyVariable, clickhouse.CacheDirVariable},
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "lumenhook",
		Short: "Payment webhooks for the Stellar network",
		Long: `Lumenhook watches wallets on the Stellar ledger and matches incoming payments
against each watch's rules. It delivers each match as a signed HTTPS webhook, at
least once, under one event id.

Start with:

  lumenhook run                         start everything on this machine
  lumenhook devnet account --json       create a wallet on the devnet
  lumenhook devnet pay --to G… --amount 12.5

To use your own Kafka cluster and ClickHouse:

  lumenhook serve --config lumenhook.yaml

You can set any flag with an environment variable. For example, LUMENHOOK_DATA_DIR
sets --data-dir. Flags override environment variables, and unknown LUMENHOOK_…
variables are errors.

If the command fails, the exit code is 1. If the command line or a value is invalid,
it is 2. If a comparison finds differences, it is 3.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       cli.ThisBuild().String(),
	}
	root.SetGlobalNormalizationFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "permissions" { // the flag's former name
			name = "permission"
		}
		return pflag.NormalizedName(name)
	})
	root.AddCommand(
		newRun(), newServe(), newConfig(), newDevnet(), newLedger(), newVerify(), newVerifyReceipt(),
		newSecrets(), newAccounts(), newKeys(), newPortal(), newEndpoints(), newWatches(), newBackfill(),
		newEvents(), newExplain(), newCoverage(), newStatement(), newReconcile(), newListen(),
		newTrigger(), newFixtures(), newSQL(), newTopics(), newBackup(), newRestore(),
		newRepartition(), newRebuild(),
		newVerifyProjection(), newMigrate(), newHealth(), newDoctor(),
		newMCP(), newInstallClickHouse(), newMan(), cli.NewVersion(), completion.New(),
	)
	root.Example = examplesOf(root, "run")
	completion.Register(root)
	return root
}

// An example in a help is a line with a # that says what for, and below it the command
// line. Several are told apart by an empty line, and a test runs each of them
// (examples_test.go).

// withExample gives a command its examples.
func withExample(c *cobra.Command, examples string) *cobra.Command {
	c.Example = examples
	return c
}

// examplesOf returns the examples of a group: the first of each of these of its commands.
func examplesOf(group *cobra.Command, names ...string) string {
	var firsts []string
	for _, name := range names {
		i := slices.IndexFunc(group.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			panic(fmt.Sprintf("%s has no command %s", group.CommandPath(), name))
		}
		first, _, _ := strings.Cut(group.Commands()[i].Example, "\n\n")
		firsts = append(firsts, first)
	}
	return strings.Join(firsts, "\n\n")
}
