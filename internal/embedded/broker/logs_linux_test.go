package broker_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
)

// A rewritten log gets its second name once it is on disk. If a power cut left the new file
// empty, the next start uses the file with the second name.
func TestALogWhoseContentAPowerCutTookComesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	cfg := broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Sync:   true,
		Logger: slog.New(slog.DiscardHandler),
	}
	cfg.Set(map[string]string{"state.log.compact.bytes": "1000"})
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	c := newClient(t, b.Addr(), kgo.TransactionalID("task"), kgo.DefaultProduceTopic(topic))
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopics(t.Context(), 1, 1, nil, topic, "other", "table"); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "groups.log")
	var first os.FileInfo
	position := int64(0)
	for is := first; first == nil || os.SameFile(first, is); {
		position++
		if err := commit(t.Context(), admin, "group", position); err != nil {
			t.Fatal(err)
		}
		if is, err = os.Stat(log); err != nil {
			t.Fatal(err)
		}
		kept, err := os.Stat(log + ".kept")
		if err != nil || !os.SameFile(is, kept) {
			t.Fatalf("the log has no second name (%v)", err)
		}
		if first == nil {
			first = is
		}
	}
	cut := killed(t, dir)
	if err := os.WriteFile(filepath.Join(cut, "groups.log"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if is := positionOf(t, start(t, cut), "group"); is != position {
		t.Errorf("the group is at %d, and %d was answered", is, position)
	}
}

// A power cut may leave half of an entry at the end of a log. It must not hide entries that are
// written later.
func TestABrokenEndOfALogHidesNothingThatFollows(t *testing.T) {
	first := filepath.Join(t.TempDir(), "broker")
	addr := start(t, first)
	if _, err := kadm.NewClient(newClient(t, addr)).CreateTopics(t.Context(), 1, 1, nil, topic,
		"other", "table"); err != nil {
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

// A failed start must not change the second names. After a clean close there are none, so the
// files of another version are used.
func TestSecondNamesOfLogsAfterAFailedStartAndAClose(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "broker")
	cfg := broker.Config{
		Dir:    dir,
		Listen: "127.0.0.1:0",
		Sync:   true,
		Logger: slog.New(slog.DiscardHandler),
	}
	b, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	admin := kadm.NewClient(newClient(t, b.Addr()))
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	if err := commit(t.Context(), admin, "group", 7); err != nil {
		t.Fatal(err)
	}
	cut := killed(t, dir)
	log, ends := filepath.Join(cut, "groups.log"), filepath.Join(cut, "ends.json")
	if err := errors.Join(os.Truncate(log, 0), os.Mkdir(ends, 0o700)); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = cut
	if failed, err := broker.Start(cfg); err == nil {
		failed.Close()
		t.Fatal("a folder in place of a file was taken")
	}
	if err := os.Remove(ends); err != nil {
		t.Fatal(err)
	}
	again, err := broker.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if is := positionOf(t, again.Addr(), "group"); is != 7 {
		t.Errorf("the group is at %d after a start that failed", is)
	}
	again.Close()
	for _, name := range []string{"groups.log.kept", "pids.log.kept"} {
		if _, err := os.Stat(filepath.Join(cut, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after a close: %s (%v)", name, err)
		}
	}
}
