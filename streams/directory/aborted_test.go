package directory

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A directory whose broker returned aborted rows stops. When it is reopened, its store is empty.
func TestADirectoryNoticesAbortedRows(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	fake, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DataDir(dir))
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	t.Cleanup(func() { once.Do(fake.Close) })
	r := newRigOn(t, fake.ListenAddrs()...)
	r.txn("task").write(endpointRow("ep_1", "https://kept.example", 1))
	aborted := r.txn("task")
	aborted.begin(endpointRow("ep_1", "https://aborted.example", 2))
	aborted.end(kgo.TryAbort)
	for n := range 12 { // more than one fetch in the same partition, and incompressible
		noise := make([]byte, 450_000)
		_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(noise)
		r.txn("task").write(endpointRow("ep_1", fmt.Sprintf("https://%x.example", noise), uint64(n+2)))
	}

	open := func() *Directory {
		d, err := Open(t.Context(), Config{
			Cluster:      r.cluster,
			Dir:          r.dir,
			CacheBytes:   1 << 20,
			ConfirmEvery: 10 * time.Millisecond,
			Now:          r.clock.now,
			Logger:       slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	err = d.Run(soon(t))
	if !errors.Is(err, kafka.ErrAborted) || !errors.Is(err, ErrRebuild) {
		t.Fatalf("it ended with %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	once.Do(fake.Close)
	b, err := broker.Start(broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r.cluster.Brokers = []string{b.Addr()}
	d = open()
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	if _, found, err := d.Endpoint("ep_1"); found || err != nil {
		t.Errorf("the store was not emptied: %v", err)
	}
}
