package broker_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

const topic = "facts"

// start opens a broker on a folder. It is not closed before the test's end: a killed broker
// does not close anything.
func start(t *testing.T, dir string) string {
	t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b.Addr()
}

// killed returns a copy of the folder as a kill at this moment would leave it.
func killed(t *testing.T, dir string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "broker")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return copied
}

func newClient(t *testing.T, addr string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(opts, kgo.SeedBrokers(addr))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// write begins a transaction with a record; it is not ended here.
func write(t *testing.T, addr, value string) *kgo.Client {
	t.Helper()
	c := newClient(t, addr, kgo.TransactionalID("task"), kgo.TransactionTimeout(5*time.Second),
		kgo.DefaultProduceTopic(topic))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return c
}

// committed reads committed records up to the present end of the log.
func committed(t *testing.T, addr string, opts ...kgo.Opt) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c := newClient(t, addr, append(opts, kgo.KeepControlRecords(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))...)
	ends, err := kadm.NewClient(c).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, 0)
	var values []string
	for next := int64(0); next < end.Offset; {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("read to offset %d of %d: %v", next, end.Offset, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}

// A consumer that restores its state reads committed records up to the end of a partition:
// an open transaction of a killed process must have been ended.
func TestATransactionThatAKillLeftOpenEndsAtTheNextStart(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	if err := write(t, addr, "kept").EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	write(t, addr, "cut short")

	second := killed(t, first)
	addr = start(t, second)
	if got := committed(t, addr); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("after the kill the committed records are %q", got)
	}
	// The same producer continues; its next commit must not include what was interrupted.
	if err := write(t, addr, "written again").EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	want := []string{"kept", "written again"}
	if got := committed(t, addr); !slices.Equal(got, want) {
		t.Errorf("after the next commit: %q", got)
	}
	if got := committed(t, start(t, killed(t, second))); !slices.Equal(got, want) {
		t.Errorf("after the next kill: %q", got)
	}
}

// A transaction that is open at a clean shutdown is ended as well.
func TestATransactionThatACloseLeftOpenEndsAtTheNextStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	b, err := broker.Start(broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kadm.NewClient(newClient(t, b.Addr())).CreateTopic(t.Context(), 1, 1, nil,
		topic); err != nil {
		t.Fatal(err)
	}
	write(t, b.Addr(), "cut short")
	b.Close()
	if got := committed(t, start(t, dir)); len(got) != 0 {
		t.Errorf("committed: %q", got)
	}
}
