package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// platter is what a power cut leaves of a folder: each file as it was when it was synced last, and
// of what was written since any part.
type platter struct {
	folder string
	mu     sync.Mutex
	synced map[string][]byte // by path
}

// sync notes a file as it is, and of a folder which names it has no more.
func (p *platter) sync(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for known := range p.synced {
			if _, err := os.Lstat(known); filepath.Dir(known) == path && err != nil {
				delete(p.synced, known)
			}
		}
		return nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.synced[path] = content
	return nil
}

// cut returns a folder with what a power cut leaves.
func (p *platter) cut(t *testing.T, random *rand.Rand) string {
	t.Helper()
	p.mu.Lock()
	left := make(map[string][]byte)
	for path, content := range p.synced {
		left[path] = content
	}
	p.mu.Unlock()
	err := filepath.WalkDir(p.folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) || err == nil && entry.IsDir() {
			return nil
		}
		now, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if written := len(now) - len(left[path]); written > 0 && random.IntN(2) == 0 {
			left[path] = now[:len(left[path])+random.IntN(written+1)]
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "broker")
	for path, content := range left {
		to := filepath.Join(folder, strings.TrimPrefix(path, p.folder))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Whatever the broker has answered is there after a power cut at any moment: records, ends of
// transactions, and positions of groups.
func TestWhatIsAnsweredSurvivesAPowerCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	disk := &platter{folder: dir, synced: make(map[string][]byte)}
	cfg := broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Sync:   true,
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	}
	cfg.SyncBy(disk.sync)
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := kadm.NewClient(newClient(t, b.Addr()))
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, topic, "other"); err != nil {
		t.Fatal(err)
	}

	var (
		mu        sync.Mutex
		answered  []string                 // values of transactions whose commit was answered
		aborted   = map[string]bool{}      // values of others
		positions = make(map[string]int64) // by group
		producers sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(t.Context())
	for i := range 3 {
		name := fmt.Sprint("task-", i)
		c := newClient(t, b.Addr(), kgo.TransactionalID(name), kgo.DefaultProduceTopic(topic))
		producers.Go(func() {
			for n := int64(1); ctx.Err() == nil; n++ {
				value, end := fmt.Sprint(name, " ", n), kgo.TryCommit
				if n%4 == 0 {
					end = kgo.TryAbort
					mu.Lock()
					aborted[value] = true
					mu.Unlock()
				}
				if err := produce(t.Context(), c, value, end); err != nil {
					t.Errorf("%s: %v", value, err)
					return
				}
				var at kadm.Offsets
				at.AddOffset(topic, 0, n, -1)
				if err := admin.CommitAllOffsets(t.Context(), name, at); err != nil {
					t.Errorf("%s: %v", value, err)
					return
				}
				mu.Lock()
				if end == kgo.TryCommit {
					answered = append(answered, value)
				}
				positions[name] = n
				mu.Unlock()
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	reader := newClient(t, b.Addr(), kgo.ConsumeTopics(topic),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	for range 12 {
		for range 1 + random.IntN(20) {
			if err := reader.PollFetches(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		want, at, not := slices.Clone(answered), maps.Clone(positions), aborted
		mu.Unlock()
		addr := start(t, disk.cut(t, random))
		got := committed(t, addr)
		mu.Lock()
		for _, value := range got {
			if not[value] {
				t.Errorf("%q was aborted, and is there", value)
			}
		}
		mu.Unlock()
		for _, value := range want {
			if !slices.Contains(got, value) {
				t.Errorf("%q was committed, and is not there", value)
			}
		}
		after := kadm.NewClient(newClient(t, addr))
		for group, position := range at {
			offsets, err := after.FetchOffsets(t.Context(), group)
			if err != nil {
				t.Fatal(err)
			}
			if o, _ := offsets.Lookup(topic, 0); o.At < position {
				t.Errorf("%s is at %d, and %d was answered", group, o.At, position)
			}
		}
		again := newClient(t, addr, kgo.TransactionalID("task-0"), kgo.DefaultProduceTopic(topic))
		if err := produce(t.Context(), again, "afterwards", kgo.TryCommit); err != nil {
			t.Errorf("after a power cut: %v", err)
		}
		if t.Failed() {
			break
		}
	}
	cancel()
	producers.Wait()
}

// produce writes a transaction to two partitions.
func produce(ctx context.Context, c *kgo.Client, value string, end kgo.TransactionEndTry) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		return err
	}
	err := c.ProduceSync(ctx, kgo.StringRecord(value),
		&kgo.Record{Topic: "other", Value: []byte(value)}).FirstErr()
	return errors.Join(err, c.EndTransaction(ctx, end))
}

// A broker whose disk fails answers nothing more, says so, and is not closed in order.
func TestABrokerWhoseDiskFailsAnswersNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	failed := make(chan error, 1)
	cfg := broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Sync:   true,
		Failed: func(err error) { failed <- err },
		Logger: slog.New(slog.DiscardHandler),
	}
	broken := errors.New("broken")
	cfg.SyncBy(func(path string) error {
		if strings.HasSuffix(path, ".dat") {
			return broken
		}
		return nil
	})
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, b.Addr(), kgo.DefaultProduceTopic(topic), kgo.RecordRetries(1),
		kgo.RecordDeliveryTimeout(10*time.Second), kgo.DisableIdempotentWrite())
	if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("lost")).FirstErr(); err == nil {
		t.Error("a record was acknowledged that is not on the disk")
	}
	if err := <-failed; !errors.Is(err, broken) {
		t.Errorf("failed by %v", err)
	}
	b.Close()
	if _, err := os.Stat(filepath.Join(dir, "closed-in-order")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed in order: %v", err)
	}
}
