package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func topicsRun(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	line := commandLine(append([]string{"topics"}, args...))
	line.Root.SetOut(&stdout)
	line.Stderr = &stderr
	code = cli.Execute(t.Context(), line)
	return code, stdout.String(), stderr.String()
}

func newEmptyBroker(t *testing.T) (address string) {
	t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:    t.TempDir(),
		Listen: "127.0.0.1:0",
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Addr()
}

// TestTopicsArePlannedCreatedAndChecked takes the steps of an operator, on a broker that can have
// only one replica.
func TestTopicsArePlannedCreatedAndChecked(t *testing.T) {
	at := []string{"--kafka-brokers", newEmptyBroker(t)}
	one := []string{"--replication", "1"}
	lossy := []string{
		"--accept-loss", "replication,min.insync.replicas,unclean.leader.election.enable",
	}
	for _, step := range []struct {
		what string
		args [][]string
		code int
		says []string // in either output
	}{
		{"a count must be named", [][]string{{"plan"}, one}, cli.ExitFailure, []string{"--partitions"}},
		{
			"an empty cluster differs", [][]string{{"plan", "--partitions", "2"}, one},
			cli.ExitDiffers, []string{"lumenhook.journal", "missing", "14 differences"},
		},
		{
			"an empty cluster is refused", [][]string{{"check"}, lossy}, cli.ExitFailure,
			[]string{"lumenhook topics create", "--accept-loss topic"},
		},
		{
			"one copy is refused", [][]string{{"create", "--partitions", "2"}, one},
			cli.ExitUsage, []string{"--accept-loss min.insync.replicas,replication"},
		},
		{
			"a fault must have its name", [][]string{{"create", "--accept-loss", "replicas"}},
			cli.ExitUsage, []string{`unknown fault "replicas"`},
		},
		{
			"create", [][]string{{"create", "--partitions", "2"}, one, lossy}, 0,
			[]string{"topics created or changed: 14"},
		},
		{"create again", [][]string{{"create"}, one, lossy}, 0, []string{"topics created or changed: 0"}},
		{"nothing differs", [][]string{{"plan"}, one}, 0, []string{"all topics have the required"}},
		{
			"brokers that cannot tier", [][]string{{"create", "--topic-tiered"}, one, lossy},
			cli.ExitFailure,
			[]string{"remote.log.storage.system.enable of broker", "omit --topic-tiered"},
		},
		{
			"nothing is kept here", [][]string{{"plan", "--topic-local-retention", "0"}, one},
			cli.ExitUsage, []string{"--topic-local-retention", "more than 0"},
		},
		{"three copies are wanted", [][]string{{"plan"}}, cli.ExitDiffers, []string{"at least 3"}},
		{
			"check", [][]string{{"check"}}, cli.ExitFailure,
			[]string{"replication of lumenhook.commands, lumenhook.results", "kafka-reassign-partitions.sh"},
		},
		{"check, accepted", [][]string{{"check"}, lossy}, 0, []string{"the cluster has the required"}},
		{
			"another count", [][]string{{"check", "--partitions", "3"}, lossy},
			cli.ExitFailure, []string{"partitions of"},
		},
		{
			"a role that is none", [][]string{{"acls", "--role", "engin"}}, cli.ExitUsage,
			[]string{`unknown role "engin"`},
		},
	} {
		t.Run(step.what, func(t *testing.T) {
			code, out, said := topicsRun(t, append(slices.Concat(step.args...), at...)...)
			if code != step.code {
				t.Errorf("ended with %d and not with %d", code, step.code)
			}
			for _, text := range step.says {
				if !strings.Contains(out+said, text) {
					t.Errorf("does not say %q", text)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", out, said)
			}
		})
	}
}

func TestAPlanAsJSONIsComplete(t *testing.T) {
	code, out, _ := topicsRun(t, "plan", "--json", "--partitions", "2", "--kafka-brokers",
		newEmptyBroker(t))
	var plan struct{ Differences []topology.Difference }
	if err := json.Unmarshal([]byte(out), &plan); err != nil {
		t.Fatal(err)
	}
	if code != cli.ExitDiffers || len(plan.Differences) != len(schemas.Topics()) {
		t.Errorf("%d: %+v", code, plan)
	}
}

// With --apply, the rights are listed by user, without the commands that would grant them.
func TestRightsThatWereGrantedAreToldByUser(t *testing.T) {
	code, out, said := topicsRun(t, "acls", "--apply", "--role", "mailer,inspect",
		"--kafka-brokers", newEmptyBroker(t))
	for _, user := range []string{"User:lumenhook-inspect", "User:lumenhook-mailer"} {
		if !strings.Contains(out, user+" has its rights (") {
			t.Errorf("%s is not named:\n%s", user, out)
		}
	}
	if code != 0 || strings.Contains(out, "kafka-acls.sh") || strings.Count(out, "\n") != 2 {
		t.Errorf("%d:\n%s%s", code, out, said)
	}
}

func TestACLsArePrintedForKafkasTool(t *testing.T) {
	code, out, _ := topicsRun(t, "acls", "--role", "mailer", "--topic-prefix", "shop.",
		"--user-prefix", "CN=shop-")
	want := `kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config admin.properties --add ` +
		"--allow-principal User:CN=shop-mailer --operation Read --group shop.mailer\n"
	if code != 0 || !strings.Contains(out, want) || strings.Contains(out, "engine") {
		t.Errorf("%d:\n%s", code, out)
	}
	_, out, _ = topicsRun(t, "acls", "--json", "--role", "engine")
	var printed struct{ ACLs []kafka.ACL }
	if err := json.Unmarshal([]byte(out), &printed); err != nil || len(printed.ACLs) < 5 {
		t.Errorf("%v: %s", err, out)
	}
}
