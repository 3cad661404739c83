package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/lumenhook/lumenhook/internal/node"
)

// A query of a history that is behind its topics also prints a note about that. The answer stays
// the same.
func TestSQLSaysThatTheHistoryIsBehind(t *testing.T) {
	t.Parallel()
	a := &addresses{t: t, dir: t.TempDir(), stack: &node.Stack{
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	}}
	t.Cleanup(a.stack.Stop)
	a.startBroker(a.stack.Logger)
	a.startClickHouse(a.stack.Logger)
	history := []string{"--clickhouse-dsn", a.history}
	topics := []string{
		"--kafka-brokers", a.broker, "--topic-prefix", "shop.",
		"--kafka-user", "lumenhook", "--kafka-password", "not told to anybody",
	}
	a.program(append([]string{"migrate"}, history...)...)
	ask := func(flags ...string) (said string) {
		t.Helper()
		line := []string{"sql", "--format", "json", "SELECT 1 AS n"}
		c := program(slices.Concat(line, history, flags)...)
		var stdout, stderr bytes.Buffer
		c.Stdout, c.Stderr = &stdout, &stderr
		if err := c.Run(); err != nil || stdout.String() != "{\"n\":1}\n" {
			t.Errorf("the answer is %q, %v: %s", &stdout, err, &stderr)
		}
		return stderr.String()
	}
	if said := ask(topics...); said != "" {
		t.Errorf("of a history that lacks nothing it is said %q", said)
	}
	a.append("shop.journal", 3)
	if said := ask(topics...); !strings.HasPrefix(said,
		"the history is 3 records behind its topics: ") {
		t.Errorf("of a history that lacks 3 records it is said %q", said)
	}
	for _, flags := range [][]string{nil, {"--kafka-user", "somebody"}} {
		if said := ask(flags...); said != "" {
			t.Errorf("without brokers to ask, and with %q, it is said %q", flags, said)
		}
	}
	nobody := []string{"--kafka-brokers", "127.0.0.1:1", "--topic-prefix", "shop."}
	const unknown = "cannot find out how far the history is behind: " +
		"the brokers 127.0.0.1:1 did not answer within 2s\n"
	if said := ask(nobody...); !strings.HasPrefix(said, unknown) {
		t.Errorf("of brokers that do not answer it is said %q", said)
	}
}

func (a *addresses) append(topic string, n int) {
	a.t.Helper()
	login := scram.Auth{User: "lumenhook", Pass: "not told to anybody"}
	client, err := kgo.NewClient(kgo.SeedBrokers(a.broker), kgo.SASL(login.AsSha256Mechanism()))
	if err != nil {
		a.t.Fatal(err)
	}
	defer client.Close()
	for range n {
		r := &kgo.Record{Topic: topic, Value: []byte("x")}
		if err := client.ProduceSync(a.t.Context(), r).FirstErr(); err != nil {
			a.t.Fatal(err)
		}
	}
}
