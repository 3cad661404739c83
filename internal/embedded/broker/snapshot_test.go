package broker_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

func restored(t *testing.T, s *broker.Snapshot) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "broker")
	err := filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(s.Dir, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Mkdir(filepath.Join(to, name), 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		size := s.Size(name, int64(len(content)))
		if size < 0 {
			return nil
		}
		return os.WriteFile(filepath.Join(to, name), content[:size], 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// Every transaction writes to two topics. A snapshot must contain each transaction in both topics
// or in neither.
func TestASnapshotIsOfOneMoment(t *testing.T) {
	const other = "other"
	dir := filepath.Join(t.TempDir(), "broker")
	addr := start(t, dir)
	admin := kadm.NewClient(newClient(t, addr))
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, topic, other); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	ended := make(chan error)
	c := newClient(t, addr, kgo.TransactionalID("task"))
	go func() {
		ended <- func() error {
			for n := 0; !stop.Load(); n++ {
				if err := c.BeginTransaction(); err != nil {
					return err
				}
				value := []byte(strconv.Itoa(n) + strings.Repeat(".", 10_000))
				err := acknowledged(t.Context(), c, &kgo.Record{Topic: topic, Value: value},
					&kgo.Record{Topic: other, Value: value})
				if err != nil {
					return err
				}
				if err := c.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
					return err
				}
			}
			return nil
		}()
	}()
	for n := 0; n < 5; {
		s, err := broker.TakeSnapshot(t.Context(), admin, dir)
		if err != nil {
			t.Fatal(err)
		}
		copied := start(t, restored(t, s))
		if err := s.Remove(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
		one, two := committedOf(t, copied, topic), committedOf(t, copied, other)
		if !slices.Equal(one, two) {
			t.Errorf("a snapshot has %d and %d records of the same transactions", len(one), len(two))
		}
		if len(one) > 0 { // the producer has begun
			n++
		}
	}
	stop.Store(true)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "snapshot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("a snapshot was left: %v %v", left, err)
	}
}

// A new snapshot removes a snapshot whose client was killed, but not one that is still being
// copied.
func TestKilledBackupsLeaveNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	admin := kadm.NewClient(newClient(t, start(t, dir)))
	used, err := broker.TakeSnapshot(t.Context(), admin, dir)
	if err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(dir, "snapshot-1")
	if err := os.MkdirAll(filepath.Join(killed, "partitions"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "sizes.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	next, err := broker.TakeSnapshot(t.Context(), admin, dir)
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "snapshot-*"))
	if err != nil || !slices.Equal(left, []string{used.Dir, next.Dir}) {
		t.Errorf("%v are left (%v), and should be %s and %s", left, err, used.Dir, next.Dir)
	}
	for _, s := range []*broker.Snapshot{used, next} {
		if err := s.Remove(t.Context(), admin); err != nil {
			t.Error(err)
		}
	}
}
