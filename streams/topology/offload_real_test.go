//go:build kafka

package topology_test

import (
	"crypto/rand"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/topology"
)

type counter struct{ folded int }

func (c *counter) Fold(*store.Batch, kafka.Record) error { c.folded++; return nil }

func (c *counter) Start(*task.Turn) error            { return nil }
func (c *counter) Turn(*task.Turn, []struct{}) error { return nil }
func (c *counter) Flush(*store.Batch) error          { return nil }
func (c *counter) AfterCommit(task.After) ([]struct{}, int64, error) {
	return nil, 0, nil
}
func (c *counter) Drain()          {}
func (c *counter) Busy() bool      { return false }
func (c *counter) Unhurried() bool { return false }

// tieredCluster is a broker with remote storage. Its tiered topics have small segments that leave
// the broker's disk one second after they are closed.
type tieredCluster struct {
	kafka.Cluster
	t       *testing.T
	brokers *kafkatest.Cluster
}

func newTieredCluster(t *testing.T) *tieredCluster {
	t.Helper()
	brokers, err := kafkatest.Start(t.Context(), kafkatest.Config{
		Dir:     t.TempDir(),
		Brokers: 1,
		Tiered:  true,
	})
	must(t, err)
	t.Cleanup(func() { must(t, brokers.Close()) })
	c := &tieredCluster{t: t, brokers: brokers, Cluster: kafka.Cluster{
		Brokers:  brokers.Addrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}}
	shape := topology.Shape{Partitions: 1, Replicas: 1, LocalMillis: 1000}
	mustCreate(t, c.Cluster, shape)
	if left := mustPlan(t, c.Cluster, shape); len(left) > 0 {
		t.Fatalf("differences are left: %+v", left)
	}
	must(t, c.AlterTopic(t.Context(), schemas.TopicJournal, map[string]string{
		"segment.bytes":        strconv.Itoa(1 << 20),
		"file.delete.delay.ms": "100",
	}))
	return c
}

// write appends records to the journal in transactions, as an engine does.
func (c *tieredCluster) write(n int) {
	c.t.Helper()
	producer, err := c.NewFencedProducer(c.t.Context(), "engine-0")
	must(c.t, err)
	defer producer.Close()
	for range n {
		value := make([]byte, 64<<10)
		rand.Read(value)
		must(c.t, producer.Append(c.t.Context(), kafka.Record{
			Topic: schemas.TopicJournal,
			Key:   []byte("k"),
			Value: value,
		}))
	}
}

// files lists the first offsets of the journal's files in a folder.
func (c *tieredCluster) files(dir string) (begin []int64) {
	c.t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") || !strings.Contains(path, "test.journal-0") {
			return nil // deleted in the meantime, or something else
		}
		digits, _, _ := strings.Cut(filepath.Base(path), ".")
		digits, _, _ = strings.Cut(digits, "-")
		offset, err := strconv.ParseInt(digits, 10, 64)
		begin = append(begin, offset)
		return err
	})
	must(c.t, err)
	return begin
}

func (c *tieredCluster) remote() []int64 { return c.files(c.brokers.RemoteDir()) }

func (c *tieredCluster) local() []int64 {
	return c.files(filepath.Join(filepath.Dir(c.brokers.Node(1).LogFile()), "data"))
}

func (c *tieredCluster) bounds() (start, end int64) {
	c.t.Helper()
	ends, err := c.NewEnds()
	must(c.t, err)
	defer ends.Close()
	starts, err := ends.Starts(c.t.Context(), schemas.TopicJournal)
	must(c.t, err)
	of, err := ends.Of(c.t.Context(), schemas.TopicJournal)
	must(c.t, err)
	return starts[0], of[0]
}

// fold folds the journal as an engine without a state would.
func (c *tieredCluster) fold() (records int, err error) {
	c.t.Helper()
	count := new(counter)
	replica, err := task.NewReplica(c.Cluster, task.CoreConfig[struct{}, struct{}]{
		Journal: schemas.TopicJournal,
		Store: store.Config{
			Dir:           c.t.TempDir(),
			Identity:      "test",
			CacheBytes:    1 << 20,
			MemTableBytes: 1 << 20,
			Logger:        c.Logger,
		},
		NewHandler: func() task.Handler[struct{}, struct{}] { return count },
		Logger:     c.Logger,
	})
	must(c.t, err)
	defer func() { must(c.t, replica.Close()) }()
	start, end := c.bounds()
	err = replica.CatchUp(c.t.Context(), start, end)
	return count.folded, err
}

// A fold from the beginning reads the older segments, which are only in remote storage. When
// retention deletes records, they are deleted there.
func TestATieredJournalIsFoldedWhole(t *testing.T) {
	c := newTieredCluster(t)
	const records = 80
	c.write(records)
	testkit.Eventually(t, "older files are in the remote storage alone",
		func() bool {
			local, remote := c.local(), c.remote()
			return len(remote) >= 3 && containsBelow(remote, 16) &&
				len(local) > 0 && !containsBelow(local, 16)
		})
	if n, err := c.fold(); err != nil || n != records {
		t.Fatalf("%d of %d records were folded: %v", n, records, err)
	}
	deleter, err := c.NewDeleter()
	must(t, err)
	defer deleter.Close()
	below := make(kafka.Offsets)
	below.Set(schemas.TopicJournal, 0, 60)
	must(t, deleter.DeleteBefore(t.Context(), below))
	if start, _ := c.bounds(); start != 60 {
		t.Errorf("the journal begins at %d", start)
	}
	// Do not count files, because later ones may still be moving to remote storage.
	testkit.Eventually(t, "its files are gone from the remote storage",
		func() bool { return !containsBelow(c.remote(), 16) })
	if _, err := c.fold(); err == nil || !strings.Contains(err.Error(), "begins at 60") {
		t.Errorf("a fold of what is left ended with %v", err)
	}
	ago := time.Now().Add(-time.Hour).UnixMilli()
	since, err := deleter.Since(t.Context(), schemas.TopicJournal, ago)
	if err != nil || since[0] < 60 {
		t.Errorf("by time, the journal begins at %d: %v", since[0], err)
	}
}

func containsBelow(offsets []int64, limit int64) bool {
	for _, o := range offsets {
		if o < limit {
			return true
		}
	}
	return false
}
