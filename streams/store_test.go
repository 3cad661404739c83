package streams

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestBlocksStayInTheCache: write buffers, which Pebble counts against its cache, leave room
// for what was read.
func TestBlocksStayInTheCache(t *testing.T) {
	s, err := OpenStore(StoreConfig{
		Dir:           "state",
		FS:            vfs.NewMem(),
		CacheBytes:    1 << 20,
		MemTableBytes: 1 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key := func(n int) []byte { return fmt.Appendf(nil, "%c%08d", FirstKey, n) }
	for n := range 60 { // three buffers and a half
		b := s.Begin()
		if err := b.Set(key(n), make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
		if err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (misses int64) {
		before := s.db.Metrics().BlockCache.Misses
		if _, err := s.Get(key(0)); err != nil {
			t.Fatal(err)
		}
		return s.db.Metrics().BlockCache.Misses - before
	}
	if read() == 0 {
		t.Fatal("the first read needed no block: the key is still in a buffer")
	}
	if n := read(); n > 0 {
		t.Errorf("the second read missed %d blocks", n)
	}
}
