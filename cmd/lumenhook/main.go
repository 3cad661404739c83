// Command lumenhook watches wallets on the Stellar network and delivers each
// matching payment as a signed webhook.
//
// This package is the only place that reads configuration; roles are assembled by internal/node. A
// file has the commands of one task. help.txt has the descriptions and examples of all commands.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/completion"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// rootName is the name of the root command.
const rootName = "lumenhook"

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
		Failed:    noteFailure,
	}
}

// noteFailure tells later commands on a data folder why its service ended.
func noteFailure(c *cobra.Command, why string) {
	if f := c.Flags().Lookup("data-dir"); f != nil && c.CommandPath() == "lumenhook run" {
		runfile.NoteFailure(f.Value.String(), why)
	}
}

func newRoot() *cobra.Command {
	root := newCommand(rootName, nil)
	root.Version = cli.ThisBuild().String()
	root.AddCommand(
		newRun(), newServe(), group("config", newConfigCheck()), newDevnet(),
		group("ledger", newLedgerSources(), newLedgerCheck(), newLedgerReset()),
		newVerify(), newVerifyReceipt(), newSecrets(), newAccounts(), newKeys(), newPortal(),
		newEndpoints(), newWatches(), newBackfill(), newEvents(), newExplain(), newCoverage(),
		newStatement(), newReconcile(), newListen(), newTrigger(),
		newSQL(), newTopics(), newBackup(), newRestore(), newRepartition(), newRebuild(),
		newVerifyProjection(), newMigrate(), newHealth(), newDoctor(), newMCP(),
		newInstallClickHouse(), newMan(), cli.NewVersion(),
		newCommand("completion", completion.Print),
	)
	completion.Register(root)
	return root
}
