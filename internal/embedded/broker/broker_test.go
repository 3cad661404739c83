package broker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const topic = "facts"

// start opens a broker on a folder. The broker stays open until the test ends, because a killed
// broker doesn't close anything.
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

// killed returns a copy of the folder as if the broker were killed at this moment.
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

// write begins a transaction with one record and doesn't end it.
func write(t *testing.T, addr, value string) *kgo.Client {
	t.Helper()
	c := newClient(t, addr, kgo.TransactionalID("task"), kgo.TransactionTimeout(5*time.Second),
		kgo.DefaultProduceTopic(topic))
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := acknowledged(t.Context(), c, kgo.StringRecord(value)); err != nil {
		t.Fatal(err)
	}
	return c
}

// acknowledged writes records of a transaction and waits until the transaction can end.
func acknowledged(ctx context.Context, c *kgo.Client, records ...*kgo.Record) error {
	if err := c.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	return kafka.AwaitStored(ctx, c, records)
}

// committed reads the committed records up to the current end of the log.
func committed(t *testing.T, addr string, opts ...kgo.Opt) []string {
	t.Helper()
	return committedOf(t, addr, topic, opts...)
}

// committedOf is like committed, for any topic with one partition.
func committedOf(t *testing.T, addr, topic string, opts ...kgo.Opt) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience(t))
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
	starts, err := kadm.NewClient(c).ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	begin, _ := starts.Lookup(topic, 0)
	for next := begin.Offset; next < end.Offset; {
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

// A consumer that restores its state reads committed records up to the end of a partition, so a
// transaction that a killed process left open must have ended.
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
	// The same producer continues. Its next commit must not include the interrupted records.
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

// A transaction that is open at a clean shutdown must end as well.
func TestATransactionThatACloseLeftOpenEndsAtTheNextStart(t *testing.T) {
	t.Parallel()
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

// A client without a socket uses the same broker, with messages many times larger than the
// connection's buffer. It is refused after the broker is closed.
func TestClientsWithinTheProcess(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Config{
		Dir:    t.TempDir(),
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	within := newClient(t, b.Addr(), kgo.Dialer(b.Dial), kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if _, err := kadm.NewClient(within).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 900_000)
	for i := range want {
		want[i] = byte(i * i >> 8)
	}
	err = within.ProduceSync(t.Context(), &kgo.Record{Value: want}).FirstErr()
	if err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string][]kgo.Opt{
		"by a socket": nil, "within": {kgo.Dialer(b.Dial)},
	} {
		reader := newClient(t, b.Addr(), append(opts, kgo.ConsumeTopics(topic))...)
		got := reader.PollRecords(t.Context(), 1).Records()
		if len(got) != 1 || !bytes.Equal(got[0].Value, want) {
			t.Errorf("%s: %d records, or another value", name, len(got))
		}
	}
	b.Close()
	if _, err := b.Dial(t.Context(), "tcp", b.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: %v", err)
	}
}

func commit(ctx context.Context, admin *kadm.Client, group string, position int64) error {
	var at kadm.Offsets
	at.AddOffset(topic, 0, position, -1)
	return admin.CommitAllOffsets(ctx, group, at)
}

func positionOf(t *testing.T, addr, group string) int64 {
	t.Helper()
	offsets, err := kadm.NewClient(newClient(t, addr)).FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := offsets.Lookup(topic, 0)
	return o.At
}

func empty(ctx context.Context, admin *kadm.Client, topic string) error {
	until, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return err
	}
	deleted, err := admin.DeleteRecords(ctx, until.Offsets())
	if err != nil {
		return err
	}
	if err := deleted.Error(); !errors.Is(err, kerr.OffsetOutOfRange) { // another client deletes too
		return err
	}
	return nil
}

// produce writes a transaction to a log, a table, and a topic that is sometimes emptied.
func produce(ctx context.Context, c *kgo.Client, value string, end kgo.TransactionEndTry) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		return err
	}
	err := acknowledged(ctx, c, kgo.StringRecord(value),
		&kgo.Record{Topic: "other", Value: []byte(value)},
		&kgo.Record{
			Topic: "table", Key: []byte(strings.Fields(value)[0]), Value: []byte(value),
		})
	return errors.Join(err, c.EndTransaction(ctx, end))
}
