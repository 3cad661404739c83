package main

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

func newGuardedBroker(t *testing.T, user, password string) (address string) {
	t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:      t.TempDir(),
		Listen:   "127.0.0.1:0",
		User:     user,
		Password: password,
		Failed:   func(err error) { t.Error(err) },
		Logger:   slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Addr()
}

// aFileOfServe writes an operator's configuration file, and the folder of an engine's secrets.
func aFileOfServe(t *testing.T, broker, password string) (file, secrets string) {
	t.Helper()
	dir := t.TempDir()
	file, secrets = filepath.Join(dir, "lumenhook.yaml"), filepath.Join(dir, "secrets")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		file: fmt.Sprintf(`kafka:
  brokers: [%q]
  user: file
partitions: 2
accept-loss: [replication, min.insync.replicas, unclean.leader.election.enable]
clickhouse:
  dsn: clickhouse://127.0.0.1:1/lumenhook
network: testnet
attempt-timeout: 7s
data-dir: /var/lib/lumenhook
`, broker),
		filepath.Join(secrets, "kafka-password"): password,
		filepath.Join(secrets, "smtp-password"):  "mail",
		filepath.Join(secrets, "master-key"):     "no key",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return file, secrets
}

// Settings and secrets of a service's processes also apply to operators' commands, with the same
// precedence.
func TestOperatorsCommandsTakeTheFilesOfServe(t *testing.T) {
	file, secrets := aFileOfServe(t, newGuardedBroker(t, "operator", "right"), "right")
	files := []string{"--config", file, "--secrets-dir", secrets}
	t.Setenv("LUMENHOOK_KAFKA_USER", "operator") // overrides the file
	says(t, 0, "", []string{"topics", "create", "--replication", "1"}, files...)
	says(t, 0, "", []string{"topics", "check"}, files...)
	says(t, 0, "", []string{"topics", "plan", "--replication", "1"}, files...)
	says(t, cli.ExitFailure, "partitions of",
		[]string{"topics", "check", "--partitions", "3"}, files...)
	says(t, cli.ExitUsage, "SCRAM-SHA-256 requires a user", []string{"topics", "check"},
		append(files, "--kafka-user", "", "--kafka-sasl", "SCRAM-SHA-256")...)
	says(t, cli.ExitFailure, "connection refused", []string{"sql", "SELECT 1"}, files...)
	says(t, cli.ExitFailure, "connection refused", []string{"migrate"}, files...)
	t.Setenv("LUMENHOOK_CONFIG", file)
	says(t, 0, "", []string{"topics", "check"}, "--secrets-dir", secrets)
	says(t, cli.ExitFailure, "no service has run in", []string{"sql", "SELECT 1"},
		"--clickhouse-dsn", "", "--data-dir", filepath.Join(secrets, "nowhere"))
}

// Every command that connects must take the files of serve, except run, which has its own.
func TestEveryCommandThatConnectsTakesTheFilesOfServe(t *testing.T) {
	leaves := make(map[string]*cobra.Command)
	collect(newRoot(), leaves)
	for _, name := range slices.Sorted(maps.Keys(leaves)) {
		c := leaves[name]
		c.InheritedFlags()
		has := func(flag string) bool { return c.Flags().Lookup(flag) != nil }
		connects := has("kafka-brokers") || has("clickhouse-dsn") || has("metrics-listen")
		if name != "run" && connects != (has("config") && has("secrets-dir")) {
			t.Errorf("%s reaches what serve does: %v, and takes its files: %v",
				name, connects, has("config"))
		}
	}
}
