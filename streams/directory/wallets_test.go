package directory

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// read is the position of a reader of the watches table, which has one partition.
type read int64

func (r read) Position(string, int32) int64 { return int64(r) }
func (read) Epoch(string, int32) int32      { return -1 }

// Starts, Of and OfEpochs describe a table that ends at the read position.
func (read) Starts(context.Context, string) (map[int32]int64, error) {
	return map[int32]int64{0: 0}, nil
}

func (r read) Of(context.Context, string) (map[int32]int64, error) {
	return map[int32]int64{0: int64(r)}, nil
}
func (read) OfEpochs(context.Context, string, map[int32]int32) map[int32]int64 { return nil }

func openFiltered(t *testing.T, disk vfs.FS, at read) *Directory {
	t.Helper()
	d, err := OpenOn(t.Context(), Config{
		Dir:           "d",
		FS:            disk,
		CacheBytes:    8 << 20,
		MemTableBytes: 4 << 20,
		Now:           time.Now,
		Logger:        slog.New(slog.DiscardHandler),
	}, "test", at)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The set must have every watched wallet, also after a restart.
func TestNoWatchedWalletIsDenied(t *testing.T) {
	t.Parallel()
	const batch, batches = 1000, 12
	disk := vfs.NewMem()
	d := openFiltered(t, disk, 0)
	holds := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if ws, err := ofWallet(d, wallet(i)); err != nil || len(ws) != 1 {
				t.Fatalf("of %d wallets, no. %d has %d watches (%v)", to, i, len(ws), err)
			}
		}
	}
	var at read
	for n := range batches {
		var records []kafka.Record
		for i := n * batch; i < (n+1)*batch; i++ {
			records = append(records, watchOfWallet(i))
		}
		at += batch
		if err := d.Take(at, records); err != nil {
			t.Fatal(err)
		}
		holds(n*batch, (n+1)*batch)
	}
	holds(0, batches*batch)
	if d.wallets.mayHave(wallet(batch * batches)) {
		t.Error("an unwatched wallet costs a read")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openFiltered(t, disk, at)
	defer func() { _ = d.Close() }()
	holds(0, batches*batch)
}

func watchOfWallet(i int) kafka.Record {
	w := domain.Watch{ID: fmt.Sprint("wat_", i), Version: 1, WalletAddress: wallet(i)}
	return row(schemas.TopicWatches, w.ID, schemas.EncodeWatch(w))
}
