package broker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// platter simulates the contents of a folder after a power cut. A file has its last synced
// contents, followed by any part of later writes, or zeros. A name refers either to the file at
// the last sync of its folder or to the current file.
type platter struct {
	folder string
	mu     sync.Mutex
	names  map[uint64]map[string]inode // synced, by folder inode
	files  map[uint64][]byte           // synced, by inode
	open   []*os.File                  // kept open so that no inode is reused
}

type inode struct {
	number uint64
	folder bool
}

func newPlatter(t *testing.T, folder string) *platter {
	p := &platter{
		folder: folder,
		names:  make(map[uint64]map[string]inode),
		files:  make(map[uint64][]byte),
	}
	t.Cleanup(func() {
		for _, file := range p.open {
			_ = file.Close()
		}
	})
	return p
}

func inodeOf(info os.FileInfo) inode {
	return inode{info.Sys().(*syscall.Stat_t).Ino, info.IsDir()}
}

func (p *platter) sync(path string) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	is := inodeOf(info)
	if p.names[is.number] == nil && p.files[is.number] == nil {
		p.open = append(p.open, file)
	} else {
		defer func() { err = errors.Join(err, file.Close()) }()
	}
	if is.folder {
		p.names[is.number], err = namesIn(file)
		return err
	}
	p.files[is.number], err = io.ReadAll(file)
	return err
}

func namesIn(folder *os.File) (map[string]inode, error) {
	entries, err := folder.ReadDir(-1)
	names := make(map[string]inode)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil {
			names[entry.Name()] = inodeOf(info)
		}
	}
	return names, err
}

// cut returns a folder as a power cut would leave it.
func (p *platter) cut(t *testing.T, random *rand.Rand) string {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	now, written := make(map[uint64]map[string]inode), make(map[uint64][]byte)
	var root uint64
	err := filepath.WalkDir(p.folder, func(path string, _ fs.DirEntry, _ error) error {
		file, err := os.Open(path)
		if err != nil {
			return nil // deleted in the meantime
		}
		defer func() { _ = file.Close() }()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		is := inodeOf(info)
		switch {
		case path == p.folder:
			root = is.number
			fallthrough
		case is.folder:
			now[is.number], err = namesIn(file)
		default:
			written[is.number], err = io.ReadAll(file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	left := make(map[uint64][]byte)
	contentOf := func(number uint64) []byte {
		if content, known := left[number]; known {
			return content
		}
		content := p.files[number]
		if more := len(written[number]) - len(content); more > 0 {
			some := random.IntN(more + 1)
			switch random.IntN(3) {
			case 0: // a part of it
				content = written[number][:len(content)+some]
			case 1: // a file that grew, without its new contents
				content = append(slices.Clip(content), make([]byte, some)...)
			}
		}
		left[number] = content
		return content
	}
	var lay func(number uint64, to string)
	lay = func(number uint64, to string) {
		if err := os.MkdirAll(to, 0o700); err != nil {
			t.Fatal(err)
		}
		was, is := p.names[number], now[number]
		if is == nil {
			is = was // it no longer has a name
		}
		names := maps.Clone(is)
		maps.Copy(names, was)
		for _, name := range slices.Sorted(maps.Keys(names)) {
			from := was
			if random.IntN(2) == 0 {
				from = is
			}
			named, exists := from[name]
			switch path := filepath.Join(to, name); {
			case !exists:
			case named.folder:
				lay(named.number, path)
			default:
				if err := os.WriteFile(path, contentOf(named.number), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	folder := filepath.Join(t.TempDir(), "broker")
	lay(root, folder)
	return folder
}

// Everything that the broker has acknowledged must survive a power cut at any moment: records,
// ends of transactions and partitions, and offsets of groups. The cuts also come while logs and a
// table are compacted, segments are created, and records are deleted.
func TestWhatIsAnsweredSurvivesAPowerCut(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "broker")
	disk := newPlatter(t, dir)
	cfg := broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Sync:   true,
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),

		CompactEvery: 20 * time.Millisecond,
	}
	cfg.SyncBy(disk.sync)
	cfg.Set(map[string]string{"state.log.compact.bytes": "4096", "log.segment.bytes": "16384"})
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := kadm.NewClient(newClient(t, b.Addr()))
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, topic, "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1,
		map[string]*string{"cleanup.policy": kadm.StringPtr("compact")}, "table"); err != nil {
		t.Fatal(err)
	}

	var (
		mu        sync.Mutex
		answered  []string                 // values of transactions with an acknowledged commit
		aborted   = map[string]bool{}      // values of other transactions
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
				err := commit(t.Context(), admin, name, n)
				if n%10 == 0 {
					err = errors.Join(err, empty(t.Context(), admin, "other"))
				}
				if err != nil {
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
		until, err := admin.ListEndOffsets(t.Context(), topic, "other", "table")
		if err != nil {
			t.Fatal(err)
		}
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
		after, err := kadm.NewClient(newClient(t, addr)).ListEndOffsets(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		until.Each(func(was kadm.ListedOffset) {
			if is, _ := after.Lookup(was.Topic, was.Partition); is.Offset < was.Offset {
				t.Errorf("%s ends at %d, and %d was answered", was.Topic, is.Offset, was.Offset)
			}
		})
		table := committedOf(t, addr, "table")
		for group, position := range at {
			last := func(value string) bool {
				var n int64
				_, err := fmt.Sscanf(value, group+" %d", &n)
				return err == nil && (n == position || n == position-1 && position%4 == 0 || n > position)
			}
			if position > 1 && !slices.ContainsFunc(table, last) {
				t.Errorf("the table has not %d of %s, only %q", position, group, table)
			}
			// Transactions are atomic, so the log and the table end with the same transaction of
			// each producer.
			if log, row := lastOf(values, group), lastOf(table, group); log != row {
				t.Errorf("the last of %s is %q in the log, and %q in the table", group, log, row)
			}
			if is := positionOf(t, addr, group); is < position {
				t.Errorf("%s is at %d, and %d was answered", group, is, position)
			}
		}
		// The broker works, and a kill loses nothing that it has acknowledged since.
		again := newClient(t, addr, kgo.TransactionalID("task-0"), kgo.DefaultProduceTopic(topic))
		err = errors.Join(produce(t.Context(), again, "afterwards", kgo.TryCommit),
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

func lastOf(values []string, producer string) (last string) {
	for _, value := range values {
		if strings.HasPrefix(value, producer+" ") {
			last = value
		}
	}
	return last
}

// A broker whose disk fails must send no more responses and report the failure, and must not be
// closed cleanly.
func TestABrokerWhoseDiskFailsAnswersNothing(t *testing.T) {
	t.Parallel()
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
	if _, err := b.Dial(t.Context(), "tcp", b.Addr()); err == nil ||
		!strings.Contains(err.Error(), "could not write to its disk") {
		t.Errorf("a client learns %v", err)
	}
	b.Close()
	if _, err := os.Stat(filepath.Join(dir, "closed-in-order")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closed in order: %v", err)
	}
}
