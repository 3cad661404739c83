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
// of what was written since any part, or zeros.
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
		if written := len(now) - len(left[path]); written > 0 {
			some := random.IntN(written + 1)
			switch random.IntN(3) {
			case 0: // a part of it
				left[path] = now[:len(left[path])+some]
			case 1: // a file that became longer, without its new content
				left[path] = append(slices.Clip(left[path]), make([]byte, some)...)
			}
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
				if err := commit(t.Context(), admin, name, n); err != nil {
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
		want, at := slices.Clone(answered), maps.Clone(positions)
		mu.Unlock()
		left := disk.cut(t, random)
		addr := start(t, left)
		values := committed(t, addr)
		mu.Lock()
		for _, value := range values {
			if aborted[value] {
				t.Errorf("%q was aborted, and is there", value)
			}
		}
		mu.Unlock()
		for _, value := range want {
			if !slices.Contains(values, value) {
				t.Errorf("%q was committed, and is not there", value)
			}
		}
		for group, position := range at {
			if is := positionOf(t, addr, group); is < position {
				t.Errorf("%s is at %d, and %d was answered", group, is, position)
			}
		}
		// It works, and a kill takes nothing of what it has answered since.
		again := newClient(t, addr, kgo.TransactionalID("task-0"), kgo.DefaultProduceTopic(topic))
		err := errors.Join(produce(t.Context(), again, "afterwards", kgo.TryCommit),
			commit(t.Context(), kadm.NewClient(again), "task-0", 1<<40))
		if err != nil {
			t.Errorf("after a power cut: %v", err)
		}
		addr = start(t, killed(t, left))
		if !slices.Contains(committed(t, addr), "afterwards") {
			t.Error("what was committed after a power cut is not there after a kill")
		}
		if is := positionOf(t, addr, "task-0"); is != 1<<40 {
			t.Errorf("a position of after a power cut is %d after a kill", is)
		}
		if t.Failed() {
			break
		}
	}
	cancel()
	producers.Wait()
}

// commit has a group be at a position.
func commit(ctx context.Context, admin *kadm.Client, group string, position int64) error {
	var at kadm.Offsets
	at.AddOffset(topic, 0, position, -1)
	return admin.CommitAllOffsets(ctx, group, at)
}

// positionOf returns where a group is.
func positionOf(t *testing.T, addr, group string) int64 {
	t.Helper()
	offsets, err := kadm.NewClient(newClient(t, addr)).FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	o, _ := offsets.Lookup(topic, 0)
	return o.At
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

// Half of an entry at the end of the log of groups or of producers, as a power cut may leave it,
// does not hide those that are written afterwards.
func TestABrokenEndOfALogHidesNothingThatFollows(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopics(t.Context(), 1, 1, nil, topic,
		"other"); err != nil {
		t.Fatal(err)
	}
	work := func(addr, value string, position int64) {
		t.Helper()
		c := newClient(t, addr, kgo.TransactionalID(value), kgo.DefaultProduceTopic(topic))
		err := errors.Join(produce(t.Context(), c, value, kgo.TryCommit),
			commit(t.Context(), kadm.NewClient(c), "group", position))
		if err != nil {
			t.Fatal(err)
		}
	}
	work(addr, "before", 1)
	cut := killed(t, first)
	for _, name := range []string{"groups.log", "pids.log"} {
		path := filepath.Join(cut, name)
		entries, err := os.ReadFile(path)
		if err != nil || len(entries) < 30 {
			t.Fatalf("%s: %d bytes (%v)", name, len(entries), err)
		}
		if err := os.WriteFile(path, append(entries, entries[:25]...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	work(start(t, cut), "afterwards", 2)
	addr = start(t, killed(t, cut))
	if is := positionOf(t, addr, "group"); is != 2 {
		t.Errorf("the group is at %d, and 2 was answered", is)
	}
	if got := committed(t, addr); !slices.Equal(got, []string{"before", "afterwards"}) {
		t.Errorf("committed: %q", got)
	}
}
