package directory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// clock is a wall clock that a test can advance.
type clock struct{ forward atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.forward.Load())) }
func (c *clock) advance(d time.Duration) { c.forward.Add(int64(d)) }

type rig struct {
	t       *testing.T
	broker  *brokertest.Broker // nil if the test has its own
	cluster kafka.Cluster
	dir     string
	clock   clock
}

func TestMain(m *testing.M) { brokertest.Main(m) }

func newRig(t *testing.T) *rig {
	t.Helper()
	b := brokertest.Start(t)
	r := newRigAt(t, b.Replicas(), b.Cluster(nil))
	r.broker = b
	return r
}

// newRigOn returns a rig on the test's own brokers.
func newRigOn(t *testing.T, addrs ...string) *rig {
	t.Helper()
	return newRigAt(t, 1, kafka.Cluster{
		Brokers:  addrs,
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	})
}

func newRigAt(t *testing.T, replicas int16, cluster kafka.Cluster) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), cluster: cluster}
	var specs []kafka.TopicSpec
	for _, table := range tables {
		specs = append(specs, kafka.TopicSpec{
			Name:              table.topic,
			Partitions:        3,
			ReplicationFactor: replicas,
			Configs: map[string]string{
				"cleanup.policy": "compact", "retention.ms": "-1", "delete.retention.ms": "0",
			},
		})
	}
	if err := r.cluster.EnsureTopics(t.Context(), specs); err != nil {
		t.Fatal(err)
	}
	return r
}

// open opens the directory in a folder. It runs until the test ends or the returned function is
// called.
func (r *rig) open(dir string) (*Directory, func()) {
	r.t.Helper()
	d, err := Open(r.t.Context(),
		Config{
			Cluster:      r.cluster,
			Dir:          dir,
			CacheBytes:   1 << 20,
			ConfirmEvery: 10 * time.Millisecond,
			Now:          r.clock.now,
			Logger:       r.cluster.Logger,
		})
	if err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.Background()) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			if err := errors.Join(d.Close(), <-ended); err != nil {
				r.t.Error(err)
			}
		})
	}
	r.t.Cleanup(stop)
	return d, stop
}

// txn is a transactional writer, like a task of the engine.
type txn struct {
	t      *testing.T
	client *kgo.Client
	prefix string
}

func (r *rig) txn(id string) *txn {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(r.cluster.Prefix+id),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return &txn{t: r.t, client: client, prefix: r.cluster.Prefix}
}

func (x *txn) begin(records ...kafka.Record) {
	x.t.Helper()
	if err := x.client.BeginTransaction(); err != nil {
		x.t.Fatal(err)
	}
	for _, rec := range records {
		k := &kgo.Record{
			Topic:   x.prefix + rec.Topic,
			Key:     rec.Key,
			Value:   rec.Value,
			Headers: rec.Headers,
		}
		err := x.client.ProduceSync(x.t.Context(), k).FirstErr()
		stored := kafka.AwaitStored(x.t.Context(), x.client, []*kgo.Record{k})
		if err := errors.Join(err, stored); err != nil {
			x.t.Fatal(err)
		}
	}
}

func (x *txn) end(commit kgo.TransactionEndTry) {
	x.t.Helper()
	if err := x.client.EndTransaction(x.t.Context(), commit); err != nil {
		x.t.Fatal(err)
	}
}

func (x *txn) write(records ...kafka.Record) {
	x.t.Helper()
	x.begin(records...)
	x.end(kgo.TryCommit)
}

func watchRow(id, wallet string, version uint64) kafka.Record {
	return row(schemas.TopicWatches, id,
		schemas.EncodeWatch(domain.Watch{
			ID:            id,
			Version:       version,
			WalletAddress: wallet,
			EndpointID:    "ep_1",
		}))
}

func endpointRow(id, url string, version uint64) kafka.Record {
	return row(schemas.TopicEndpoints, id,
		schemas.EncodeEndpoint(domain.Endpoint{
			ID:               id,
			Version:          version,
			EndpointSettings: domain.EndpointSettings{URL: url},
		}))
}

func accountRow(id string, version uint64, hashes ...string) kafka.Record {
	a := domain.Account{ID: id, Version: version}
	for _, h := range hashes {
		a.Keys = append(a.Keys,
			domain.Key{ID: "key_" + h, Hash: []byte(h), Permissions: domain.Permissions()})
	}
	return row(schemas.TopicAccounts, id, schemas.EncodeAccount(a))
}

func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func (r *rig) caughtUp(d *Directory) map[int32]int64 {
	r.t.Helper()
	at, err := d.CatchUp(soon(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

func (r *rig) wantWatches(d *Directory, wallet string, want ...string) {
	r.t.Helper()
	ws, err := ofWallet(d, wallet)
	if err != nil {
		r.t.Fatal(err)
	}
	have := []string{}
	for _, w := range ws {
		have = append(have, w.ID)
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		r.t.Errorf("wallet %s has the watches %v, want %v", wallet, have, want)
	}
}

func TestRowsAreReadAsTheyWereCommitted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("engine")
	w.write(accountRow("acc_1", 3, "one", "two"), endpointRow("ep_1", "https://a.example/", 1),
		watchRow("wat_2", "GA", 1), watchRow("wat_1", "GA", 1))
	if err := errors.Join(d.AwaitAccount(soon(t), "acc_1", 3), d.AwaitEndpoint(soon(t), "ep_1", 1),
		d.AwaitWatch(soon(t), "wat_1", 1)); err != nil {
		t.Fatal(err)
	}
	key, account, found, err := d.KeyByHash([]byte("two"))
	if err != nil || !found || account != "acc_1" || key.ID != "key_two" ||
		!key.Allows(domain.PermissionOperate) {
		t.Errorf("KeyByHash gave %v %q %v %v", key, account, found, err)
	}
	if e, found, err := d.Endpoint("ep_1"); err != nil || !found || e.URL != "https://a.example/" {
		t.Errorf("Endpoint gave %v %v %v", e, found, err)
	}
	if _, found, err := d.Endpoint("ep_2"); err != nil || found {
		t.Errorf("an endpoint that is not there gave %v %v", found, err)
	}
	r.caughtUp(d)
	r.wantWatches(d, "GA", "wat_1", "wat_2")

	// One transaction revokes a key, moves a watch, deletes a watch and restores an endpoint.
	w.write(accountRow("acc_1", 4, "one"), watchRow("wat_1", "GB", 2),
		tombstone(schemas.TopicWatches, "wat_2"), endpointRow("ep_1", "https://b.example/", 0))
	r.caughtUp(d)
	if err := d.AwaitAccount(soon(t), "acc_1", 4); err != nil {
		t.Fatal(err)
	}
	if _, _, found, err := d.KeyByHash([]byte("two")); err != nil || found {
		t.Errorf("a revoked key is found (%v)", err)
	}
	r.wantWatches(d, "GA")
	r.wantWatches(d, "GB", "wat_1")
	if e, _, err := d.Endpoint("ep_1"); err != nil || e.URL != "https://b.example/" {
		t.Errorf("the last record of a key is not its row: %v %v", e, err)
	}
}

func TestCatchUpWaitsForOpenTransactions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	r.caughtUp(d)
	for _, c := range []struct {
		name string
		end  kgo.TransactionEndTry
		want []string
	}{{"abort", kgo.TryAbort, nil}, {"commit", kgo.TryCommit, []string{"wat_open"}}} {
		t.Run(c.name, func(t *testing.T) {
			holder := r.txn("holder-" + c.name)
			holder.begin(watchRow("wat_open", "GOPEN", 1))
			// After it comes a watch that another writer acknowledged.
			r.txn("other-"+c.name).write(watchRow("wat_"+c.name, "GOTHER", 1),
				watchRow("wat_open2", "GBEHIND", 1))
			short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if _, err := d.CatchUp(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with an open transaction CatchUp ended with %v", err)
			}
			r.wantWatches(d, "GOPEN")

			ends, err := d.endsOf(t.Context(), watches)
			if err != nil {
				t.Fatal(err)
			}
			done := make(chan map[int32]int64, 1)
			go func() {
				at, err := d.CatchUp(soon(t))
				if err != nil {
					t.Error(err)
				}
				done <- at
			}()
			holder.end(c.end)
			at := <-done
			for p, end := range ends[watches.topic] {
				if at[p] < end {
					t.Errorf("CatchUp gave %d for partition %d, before %d", at[p], p, end)
				}
			}
			r.wantWatches(d, "GOPEN", c.want...)
			r.wantWatches(d, "GBEHIND", "wat_open2")
		})
	}
}

func TestAnAcknowledgedWatchIsSeenAfterCatchUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("engine")
	for i := range 100 {
		id := fmt.Sprintf("wat_%d", i)
		w.write(watchRow(id, "G"+id, 1))
		r.caughtUp(d)
		r.wantWatches(d, "G"+id, id)
	}
}

func TestRestartGoesOnFromTheCheckpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.txn("engine")
	d, stop := r.open(r.dir)
	w.write(watchRow("wat_1", "GA", 1), watchRow("wat_2", "GB", 1), accountRow("acc_1", 1, "one"))
	before := r.caughtUp(d)
	testkit.Eventually(t, "fresh", func() bool { return d.Fresh() == nil })
	stop()

	w.write(watchRow("wat_1", "GC", 2), tombstone(schemas.TopicWatches, "wat_2"))
	again, err := Open(t.Context(),
		Config{Cluster: r.cluster, Dir: r.dir, Now: r.clock.now, Logger: r.cluster.Logger})
	if err != nil {
		t.Fatal(err)
	}
	if at := again.progress.all()[watches.topic]; fmt.Sprint(at) != fmt.Sprint(before) {
		t.Errorf("it goes on from %v, want %v", at, before)
	}
	r.wantWatches(again, "GA", "wat_1") // unchanged
	if err := again.Fresh(); !errors.Is(err, ErrStale) {
		t.Errorf("fresh before it has asked: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	for _, dir := range []string{r.dir, t.TempDir()} { // the same folder, then an empty one
		d, stop := r.open(dir)
		r.caughtUp(d)
		r.wantWatches(d, "GA")
		r.wantWatches(d, "GB")
		r.wantWatches(d, "GC", "wat_1")
		if err := d.AwaitAccount(soon(t), "acc_1", 1); err != nil {
			t.Error(err)
		}
		stop()
	}
}

func TestAStoreAheadOfItsTableIsRefilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.txn("engine").write(watchRow("wat_1", "GA", 1))
	d, err := Open(t.Context(),
		Config{Cluster: r.cluster, Dir: r.dir, Now: r.clock.now, Logger: r.cluster.Logger})
	if err != nil {
		t.Fatal(err)
	}
	applyAll(t, d.store, watchRow("wat_lost", "GA", 1))
	batch := d.store.Begin()
	if err := errors.Join(batch.SetCheckpoint(watches.topic, 0,
		1000), batch.Commit(), d.Close()); err != nil {
		t.Fatal(err)
	}
	d, _ = r.open(r.dir)
	r.caughtUp(d)
	r.wantWatches(d, "GA", "wat_1")
}

// compacting returns a broker on which the test triggers compaction.
func compacting(t *testing.T) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestCompactionChangesNothing(t *testing.T) {
	t.Parallel()
	c := compacting(t)
	r := newRigOn(t, c.ListenAddrs()...)
	w := r.txn("engine")
	d, stop := r.open(r.dir)
	for i := range 20 {
		w.write(watchRow("wat_1", fmt.Sprintf("G%d", i), uint64(i+1)),
			watchRow("wat_2", "GB", uint64(i+1)))
	}
	w.write(tombstone(schemas.TopicWatches, "wat_2"))
	r.caughtUp(d)
	stop()
	for i := range 20 {
		w.write(watchRow("wat_1", fmt.Sprintf("G%d", i), uint64(i+21)),
			watchRow("wat_3", "GC", uint64(i+1)))
	}
	c.Compact() // includes records that the stopped directory has not read
	for _, dir := range []string{r.dir, t.TempDir()} {
		d, stop := r.open(dir)
		r.caughtUp(d)
		testkit.Eventually(t, "fresh", func() bool { return d.Fresh() == nil })
		r.wantWatches(d, "G18")
		r.wantWatches(d, "G19", "wat_1")
		r.wantWatches(d, "GB")
		r.wantWatches(d, "GC", "wat_3")
		stop()
	}
}

func TestAStoreThatWasClosedTooLongIsRefilled(t *testing.T) {
	t.Parallel()
	c := compacting(t)
	r := newRigOn(t, c.ListenAddrs()...)
	w := r.txn("engine")
	d, stop := r.open(r.dir)
	w.write(watchRow("wat_gone", "GA", 1), watchRow("wat_kept", "GA", 1))
	r.caughtUp(d)
	stop()
	w.write(tombstone(schemas.TopicWatches, "wat_gone"))
	for i := range 30 { // keeps the tombstone out of the last batch
		w.write(watchRow(fmt.Sprintf("wat_%d", i), "GB", 1))
	}
	c.Compact()
	r.clock.advance(completeFor + time.Minute)
	d, _ = r.open(r.dir)
	r.caughtUp(d)
	r.wantWatches(d, "GA", "wat_kept")
}

func TestRunEndsWhenItWasAwayFromTheTablesTooLong(t *testing.T) {
	r := newRig(t)
	d, err := Open(t.Context(),
		Config{
			Cluster:      r.cluster,
			Dir:          r.dir,
			ConfirmEvery: 10 * time.Millisecond,
			Now:          r.clock.now,
			Logger:       r.cluster.Logger,
		})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	testkit.Eventually(t, "fresh", func() bool { return d.Fresh() == nil })
	r.clock.advance(completeFor + time.Minute)
	if err := <-ended; !errors.Is(err, ErrRebuild) {
		t.Errorf("Run ended with %v", err)
	}
	if err := d.AwaitWatch(t.Context(), "wat_1", 1); !errors.Is(err, ErrEnded) {
		t.Errorf("waiting for a directory that has ended gave %v", err)
	}
}

func TestFreshnessEndsWithTheCluster(t *testing.T) {
	brokertest.Exclusive(t)
	r := newRig(t)
	d, _ := r.open(r.dir)
	testkit.Eventually(t, "fresh", func() bool { return d.Fresh() == nil })
	r.clock.advance(FreshFor) // time passes, and a new confirmation arrives
	testkit.Eventually(t, "fresh again", func() bool { return d.Fresh() == nil })
	r.broker.Outage(func() {
		r.clock.advance(FreshFor)
		if err := d.Fresh(); !errors.Is(err, ErrStale) {
			t.Errorf("without a cluster Fresh gives %v", err)
		}
	})
}

// A directory cannot be confirmed while a transaction stays open.
func TestAnOpenTransactionIsNotFresh(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	testkit.Eventually(t, "fresh", func() bool { return d.Fresh() == nil })
	holder := r.txn("holder")
	holder.begin(accountRow("acc_1", 1, "one"))
	testkit.Eventually(t, "behind the table", func() bool {
		ends, err := d.endsOf(t.Context(), accounts)
		if err != nil {
			t.Fatal(err)
		}
		return d.progress.behind(ends) != ""
	})
	r.clock.advance(FreshFor)
	if err := d.Fresh(); !errors.Is(err, ErrStale) {
		t.Errorf("with an open transaction Fresh gives %v", err)
	}
	holder.end(kgo.TryCommit)
	testkit.Eventually(t, "fresh again", func() bool { return d.Fresh() == nil })
	if _, _, found, err := d.KeyByHash([]byte("one")); err != nil || !found {
		t.Errorf("fresh, and a committed key is not found (%v)", err)
	}
}

func TestAwait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("engine")
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.AwaitWatch(short, "wat_1", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiting for nothing gave %v", err)
	}
	w.write(watchRow("wat_1", "GA", 1))
	if err := d.AwaitWatch(soon(t), "wat_1", 1); err != nil {
		t.Fatal(err)
	}
	// Three wait for one row: two for a version and one for its deletion.
	results := make(chan error, 3)
	for _, version := range []uint64{2, 3} {
		go func() { results <- d.AwaitWatch(soon(t), "wat_1", version) }()
	}
	go func() { results <- d.AwaitWatchGone(soon(t), "wat_1") }()
	testkit.Eventually(t, "three waiters", func() bool { return d.waiters.waiting() == 3 })
	w.write(watchRow("wat_1", "GA", 2))
	if err := <-results; err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "two waiters", func() bool { return d.waiters.waiting() == 2 })
	w.write(watchRow("wat_1", "GA", 3), tombstone(schemas.TopicWatches, "wat_1"))
	if err := errors.Join(<-results, <-results); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, "no waiters", func() bool { return d.waiters.waiting() == 0 })
}

func (ws *waiters) waiting() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return ws.count
}

func TestWaitersAreBounded(t *testing.T) {
	ws := newWaiters()
	for range maxWaiters {
		if _, err := ws.add(rowID{watches, "wat_1"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ws.add(rowID{watches, "wat_1"}); !errors.Is(err, ErrBusy) {
		t.Errorf("one too many gave %v", err)
	}
}

// With concurrent writers, readers, waiters and barriers, every reader sees all rows that were
// acknowledged and caught up with.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	var all sync.WaitGroup
	for n := range 4 {
		w := r.txn(fmt.Sprintf("engine-%d", n))
		all.Go(func() {
			for i := range 25 {
				id := fmt.Sprintf("wat_%d_%d", n, i)
				w.write(watchRow(id, "G"+id, 1), accountRow(fmt.Sprintf("acc_%d", n), uint64(i+1), "hash "+id))
				if i%2 == 0 {
					if _, err := d.CatchUp(soon(t)); err != nil {
						t.Error(err)
					}
				} else if err := d.AwaitWatch(soon(t), id, 1); err != nil {
					t.Error(err)
				}
				r.wantWatches(d, "G"+id, id)
				if err := d.AwaitAccount(soon(t), fmt.Sprintf("acc_%d", n), uint64(i+1)); err != nil {
					t.Error(err)
				}
				if _, _, found, err := d.KeyByHash([]byte("hash " + id)); err != nil || !found {
					t.Errorf("a key that was waited for: %v %v", found, err)
				}
			}
		})
	}
	all.Wait()
}

func TestARowOfANewerVersionEndsRun(t *testing.T) {
	r := newRig(t)
	d, err := Open(t.Context(),
		Config{Cluster: r.cluster, Dir: r.dir, Now: r.clock.now, Logger: r.cluster.Logger})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	r.txn("engine").write(row(watches.topic, "wat_1",
		schemas.Message{Type: "Watch", Version: "2", Value: []byte("?")}))
	if err := <-ended; err == nil {
		t.Error("Run ended without an error")
	}
	if _, err := d.CatchUp(soon(t)); !errors.Is(err, ErrEnded) {
		t.Errorf("CatchUp gave %v", err)
	}
}

func BenchmarkCatchUp(b *testing.B) {
	broker, err := broker.Start(broker.Config{
		Dir:    b.TempDir(),
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	defer broker.Close()
	cluster := kafka.Cluster{
		Brokers:  []string{broker.Addr()},
		Prefix:   "bench.",
		ClientID: "bench",
		Logger:   slog.New(slog.DiscardHandler),
	}
	for _, t := range tables {
		if err := cluster.EnsureTopics(b.Context(),
			[]kafka.TopicSpec{{Name: t.topic, Partitions: 4, ReplicationFactor: 1}}); err != nil {
			b.Fatal(err)
		}
	}
	d, err := Open(b.Context(),
		Config{Cluster: cluster, Dir: b.TempDir(), Now: time.Now, Logger: cluster.Logger})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(context.Background()) }()
	for b.Loop() {
		if _, err := d.CatchUp(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if err := errors.Join(d.Close(), <-ended); err != nil {
		b.Fatal(err)
	}
}
