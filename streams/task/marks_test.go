package task_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// beyondOneFetch is more than a reader fetches at once, in bytes.
const beyondOneFetch = 10 << 20

// transact writes sums in a transaction. The value of each record is its number, padded with
// leading zeros to sizeBytes.
func (r *rig) transact(how kgo.TransactionEndTry, sizeBytes int, sums ...int) {
	r.t.Helper()
	prefix := r.cluster.Prefix
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(prefix+"former owner"), kgo.TransactionTimeout(10*time.Second),
		kgo.DefaultProduceTopic(prefix+sumsTopic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		r.t.Fatal(err)
	}
	for _, n := range sums {
		text := strconv.Itoa(n)
		value := strings.Repeat("0", max(0, sizeBytes-len(text))) + text
		record := &kgo.Record{Key: []byte(text), Value: []byte(value)}
		err := client.ProduceSync(r.t.Context(), record).FirstErr()
		stored := kafka.AwaitStored(r.t.Context(), client, []*kgo.Record{record})
		if err := errors.Join(err, stored); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := client.EndTransaction(r.t.Context(), how); err != nil {
		r.t.Fatal(err)
	}
}

// misleading writes a journal that contains an aborted transaction and is too long for one fetch.
// The sum of its committed records is misleadingSum.
func (r *rig) misleading() {
	r.t.Helper()
	r.transact(kgo.TryCommit, 0, 1, 10, 100)
	r.transact(kgo.TryAbort, 0, 5_000)
	const large = 900_000
	zeros := make([]int, beyondOneFetch/large)
	r.transact(kgo.TryCommit, large, zeros...)
	r.transact(kgo.TryCommit, 0, 1_000)
}

const misleadingSum = 1_111

// restored restores a task, stops it and returns the sum in its state.
func (r *rig) restored() (sum int, err error) {
	r.t.Helper()
	stop, ended := make(chan struct{}), make(chan error, 1)
	claimed := make(chan store.Claimed, 100) // everything is due once the task has started
	go func() {
		ended <- r.task(r.dir, func(c store.Claimed) { claimed <- c }).Run(context.Background(), stop)
	}()
	select {
	case <-claimed:
		close(stop)
		err = <-ended
	case err = <-ended:
	}
	if err != nil {
		return 0, err
	}
	store, err := store.Open(store.Config{
		Dir:           r.dir,
		Identity:      "test",
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        r.cluster.Logger,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	sum, err = readSum(store.Get)
	return sum, errors.Join(err, store.Close())
}

// newMisleadingRig returns a rig on a broker that returns aborted records where its responses are
// cut. fix replaces the broker with a correct one that has the same data.
func newMisleadingRig(t *testing.T) (r *rig, fix func()) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "broker")
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir),
		kfake.SeedTopics(2, "test."+numbersTopic, "test."+sumsTopic))
	if err != nil {
		t.Fatal(err)
	}
	r = &rig{t: t, dir: t.TempDir(), cluster: kafka.Cluster{
		Brokers:  fake.ListenAddrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}}
	var once sync.Once
	t.Cleanup(func() { once.Do(fake.Close) })
	return r, func() {
		once.Do(fake.Close)
		b, err := broker.Start(broker.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: r.cluster.Logger})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		r.cluster.Brokers = []string{b.Addr()}
	}
}

// A task whose broker returns aborted records must never start with a wrong state. It reports the
// problem, and it starts once the broker is fixed.
func TestARestoreNoticesAbortedRecords(t *testing.T) {
	t.Parallel()
	r, fix := newMisleadingRig(t)
	r.misleading()
	if sum, err := r.restored(); !errors.Is(err, kafka.ErrAborted) {
		t.Fatalf("restored as %d, %v", sum, err)
	}
	fix()
	if sum, err := r.restored(); err != nil || sum != misleadingSum {
		t.Errorf("on a fixed broker: %d, %v", sum, err)
	}
}

// A store of another format is rebuilt from the journal, whatever its checkpoint says.
func TestAStoreOfAnotherFormatIsRebuilt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.misleading()
	db, err := pebble.Open(r.dir,
		&pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quietPebble{}})
	if err != nil {
		t.Fatal(err)
	}
	checkpoint := append(append([]byte("\x00c"), sumsTopic...), 0, 0, 0, 0, 0)
	set := func(key, value []byte) error { return db.Set(key, value, pebble.Sync) }
	if err := errors.Join(
		set([]byte("\x00i"), []byte("store 0: test")),
		set(checkpoint, binary.BigEndian.AppendUint64(nil, 8)),
		set(sumKey, binary.BigEndian.AppendUint64(nil, 5_111)),
		db.Close(),
	); err != nil {
		t.Fatal(err)
	}
	if sum, err := r.restored(); err != nil || sum != misleadingSum {
		t.Errorf("restored as %d, %v", sum, err)
	}
}

type quietPebble struct{}

func (quietPebble) Infof(string, ...any)  {}
func (quietPebble) Errorf(string, ...any) {}
func (quietPebble) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
