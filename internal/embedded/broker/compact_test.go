package broker_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// Compaction must not remove a committed record in favor of a record that may be aborted.
func TestCompactionWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	open := func() *broker.Broker {
		b, err := broker.Start(broker.Config{
			Dir:          dir,
			Listen:       "127.0.0.1:0",
			CompactEvery: 1,
			Logger:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b := open()
	addr := b.Addr()
	table := map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), 1, 1, table,
		topic); err != nil {
		t.Fatal(err)
	}
	put := func(c *kgo.Client, key, value string) {
		t.Helper()
		if err := acknowledged(t.Context(), c, kgo.KeyStringRecord(key, value)); err != nil {
			t.Fatal(err)
		}
	}
	// Each read fetches, which triggers a compaction when no transaction is open.
	read := func(isolation kgo.IsolationLevel) (values []string) {
		c := newClient(t, addr, kgo.FetchIsolationLevel(isolation),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
		defer c.Close()
		c.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			values = append(values, string(r.Value))
		})
		return values
	}
	plain := newClient(t, addr, kgo.DefaultProduceTopic(topic))
	put(plain, "endpoint", "as it was")
	put(plain, "endpoint", "as it is")
	put(plain, "watch", "as it is")
	task := newClient(t, addr, kgo.TransactionalID("task"), kgo.DefaultProduceTopic(topic))
	if err := task.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	put(task, "endpoint", "as it will not be")
	put(task, "account", "as it will not be")
	want := []string{"as it was", "as it is", "as it is", "as it will not be", "as it will not be"}
	if got := read(kgo.ReadUncommitted()); !slices.Equal(got, want) {
		t.Errorf("while the transaction is open: %q", got)
	}
	if err := task.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	if got := read(kgo.ReadCommitted()); !slices.Equal(got, want[1:3]) {
		t.Errorf("after it was aborted: %q", got)
	}
	b.Close()
	b = open() // it knows the topics in its folder
	defer b.Close()
	addr = b.Addr()
	plain = newClient(t, addr, kgo.DefaultProduceTopic(topic))
	put(plain, "endpoint", "as it becomes")
	put(plain, "account", "as it becomes")
	if got := read(kgo.ReadCommitted()); !slices.Equal(got,
		[]string{"as it is", "as it becomes", "as it becomes"}) {
		t.Errorf("after the next start: %q", got)
	}
}
