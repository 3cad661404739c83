package directory

import (
	"context"
	"fmt"
	"hash/maphash"
	"log/slog"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// read is the position of a reader of `watches`, which has one partition.
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

// TestNoWatchedWalletIsDenied: the filter has no false negatives while it grows, or after it is
// rebuilt, by the same process or the next one.
func TestNoWatchedWalletIsDenied(t *testing.T) {
	t.Parallel()
	const batch, batches = 1000, 3 * leastWallets / 1000
	disk := vfs.NewMem()
	d := openFiltered(t, disk, 0)
	first := d.wallets.Load()
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
	if d.wallets.Load() == first {
		t.Error("the filter was never made anew")
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

// TestAFullFilterDeniesNearlyAll unwatched wallets, and a wallet that is added again takes no room.
func TestAFullFilterDeniesNearlyAll(t *testing.T) {
	t.Parallel()
	f := newWalletFilter(maphash.MakeSeed(), nil)
	for i := range leastWallets {
		f.add(wallet(i))
		f.add(wallet(i))
	}
	if f.room < 0 || f.room > leastWallets/100 {
		t.Errorf("it has room for %d more", f.room)
	}
	const asked = 1_000_000
	wrong := 0
	for i := range asked {
		if f.mayHave(wallet(leastWallets + i)) {
			wrong++
		}
	}
	if wrong > asked/1000 {
		t.Errorf("it takes %d of %d wallets for watched ones", wrong, asked)
	}
}
