package directory

import (
	"bytes"
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// fatal is the common part of testing.T and rapid.T.
type fatal interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func memoryStore(t fatal) *store.Store {
	t.Helper()
	s, err := store.Open(store.Config{
		Dir:           "d",
		Identity:      "test",
		FS:            vfs.NewMem(),
		CacheBytes:    8 << 20,
		MemTableBytes: 4 << 20,
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func row(topic, id string, m schemas.Message) kafka.Record {
	return kafka.NewRecord(topic, id, m.Value, m.EachHeader)
}

func tombstone(topic, id string) kafka.Record {
	return kafka.Record{Topic: topic, Key: []byte(id)}
}

func applyAll(t fatal, s *store.Store, records ...kafka.Record) {
	t.Helper()
	batch := s.Begin()
	for _, r := range records {
		if _, err := apply(batch, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
}

// model is the expected content of the store: the last row per ID.
type model struct {
	watches  map[string]domain.Watch
	accounts map[string]domain.Account
}

func (m *model) check(t fatal, d *Directory, wallets []string, hashes [][]byte) {
	t.Helper()
	for _, wallet := range wallets {
		var want []string
		for _, id := range slices.Sorted(maps.Keys(m.watches)) {
			if m.watches[id].WalletAddress == wallet {
				want = append(want, fmt.Sprint(id, " ", m.watches[id].Version))
			}
		}
		have, err := ofWallet(d, wallet)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range have {
			got = append(got, fmt.Sprint(w.ID, " ", w.Version))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("wallet %s has the watches %v, want %v", wallet, got, want)
		}
	}
	for _, hash := range hashes {
		_, account, found, err := d.KeyByHash(hash)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		for id, a := range m.accounts {
			for _, k := range a.Keys {
				if string(k.Hash) == string(hash) {
					want = id
				}
			}
		}
		if account != want || found != (want != "") {
			t.Fatalf("hash %x belongs to %q (%v), want %q", hash, account, found, want)
		}
	}
}

func TestIndexesFollowTheRows(t *testing.T) {
	wallets := []string{"GA", "GB", "GAB", "GC"}
	rapid.Check(t, func(t *rapid.T) {
		s := memoryStore(t)
		defer func() { _ = s.Close() }()
		d := &Directory{store: s}
		m := &model{watches: map[string]domain.Watch{}, accounts: map[string]domain.Account{}}
		var hashes [][]byte
		for i := range 3 {
			for k := range 4 {
				hashes = append(hashes, fmt.Appendf(nil, "hash %d %d", i, k))
			}
		}
		var batch []kafka.Record
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 5).Draw(t, "id")
			id := fmt.Sprintf("wat_%d", n)
			version := uint64(rapid.IntRange(1, 9).Draw(t, "version"))
			switch rapid.SampledFrom([]string{
				"watch", "watch", "account", "no watch", "no account", "commit",
			}).Draw(t, "step") {
			case "watch":
				w := domain.Watch{
					ID:            id,
					Version:       version,
					WalletAddress: rapid.SampledFrom(wallets).Draw(t, "wallet"),
				}
				m.watches[id] = w
				batch = append(batch, row(schemas.TopicWatches, id, schemas.EncodeWatch(w)))
			case "no watch":
				delete(m.watches, id)
				batch = append(batch, tombstone(schemas.TopicWatches, id))
			case "account":
				a := domain.Account{ID: fmt.Sprintf("acc_%d", n%3), Version: version}
				for k := range rapid.IntRange(0, 4).Draw(t, "keys") {
					a.Keys = append(a.Keys,
						domain.Key{ID: fmt.Sprint(k), Hash: fmt.Appendf(nil, "hash %d %d", n%3, k)})
				}
				m.accounts[a.ID] = a
				batch = append(batch, row(schemas.TopicAccounts, a.ID, schemas.EncodeAccount(a)))
			case "no account":
				gone := fmt.Sprintf("acc_%d", n%3)
				delete(m.accounts, gone)
				batch = append(batch, tombstone(schemas.TopicAccounts, gone))
			case "commit":
				applyAll(t, s, batch...)
				batch = nil
				m.check(t, d, wallets, hashes)
			}
		}
		applyAll(t, s, batch...)
		m.check(t, d, wallets, hashes)
	})
}

// ofWallet returns a wallet's watches in the order in which they are read.
func ofWallet(d *Directory, wallet string) (all []domain.Watch, err error) {
	if d.wallets == nil { // the rows were only applied to the store
		d.wallets = newWalletSet()
		d.wallets.add([]byte(wallet))
		defer func() { d.wallets = nil }()
	}
	err = d.EachWatchOfWallet(wallet, func(w domain.Watch) error {
		all = append(all, w)
		return nil
	})
	return all, err
}

// Every watch comes once, even if a wallet has more than a page of watches. The order is by the
// account's hash, then newest first.
func TestManyWatchesOfOneWallet(t *testing.T) {
	s := memoryStore(t)
	defer func() { _ = s.Close() }()
	d := &Directory{store: s}
	add := func(from, to int) {
		var batch []kafka.Record
		for i := from; i < to; i++ {
			w := domain.Watch{
				ID:              fmt.Sprintf("wat_%08d", i),
				AccountID:       fmt.Sprintf("acc_%d", i%3),
				Version:         1,
				WalletAddress:   "GPOPULAR",
				CreatedAtMillis: int64(i / 100),
			}
			batch = append(batch, row(schemas.TopicWatches, w.ID, schemas.EncodeWatch(w)))
		}
		applyAll(t, s, batch...)
	}
	n := 0
	for _, next := range []int{watchPage - 1, watchPage, watchPage + 1, 3*watchPage + 7} {
		add(n, next)
		n = next
		have, err := ofWallet(d, "GPOPULAR")
		if err != nil || len(have) != n {
			t.Fatalf("%d watches, want %d (%v)", len(have), n, err)
		}
		if !slices.IsSortedFunc(have, func(a, b domain.Watch) int {
			return cmp.Or(bytes.Compare(walletList("", a.AccountID), walletList("", b.AccountID)),
				cmp.Compare(b.CreatedAtMillis, a.CreatedAtMillis), cmp.Compare(a.ID, b.ID))
		}) {
			t.Fatal("the watches are not in order")
		}
	}
}

func TestRowsThatCannotBeKept(t *testing.T) {
	s := memoryStore(t)
	defer func() { _ = s.Close() }()
	watch := schemas.EncodeWatch(domain.Watch{ID: "wat_1", Version: 1, WalletAddress: "GA"})
	newer := watch
	newer.Version = "99"
	for name, rec := range map[string]kafka.Record{
		"another row's key":   row(schemas.TopicWatches, "wat_2", watch),
		"another table's row": row(schemas.TopicEndpoints, "wat_1", watch),
		"a newer schema":      row(schemas.TopicWatches, "wat_1", newer),
		"an unknown table":    row("payments", "wat_1", watch),
	} {
		batch := s.Begin()
		if _, err := apply(batch, rec); err == nil {
			t.Errorf("%s was taken", name)
		}
		batch.Discard()
	}
}

func wallet(i int) string { return fmt.Sprintf("G%055d", i) }

// Only a deleted watch matches nothing.
func TestWatchesThatMatchNothing(t *testing.T) {
	s := memoryStore(t)
	defer func() { _ = s.Close() }()
	d := &Directory{store: s, wallets: newWalletSet()}
	d.wallets.add([]byte("G"))
	endpoint := func(id string, status domain.EndpointStatus) kafka.Record {
		return row(schemas.TopicEndpoints, id,
			schemas.EncodeEndpoint(domain.Endpoint{ID: id, Version: 1, Status: status}))
	}
	watch := func(id, endpointID string, version uint64, deletedAtMillis int64) kafka.Record {
		return row(schemas.TopicWatches, id,
			schemas.EncodeWatch(domain.Watch{
				ID:              id,
				Version:         version,
				WalletAddress:   "G",
				EndpointID:      endpointID,
				DeletedAtMillis: deletedAtMillis,
			}))
	}
	matching := func() string {
		var ids []string
		if err := d.EachMatchingWatch("G",
			func(w domain.Watch) error { ids = append(ids, w.ID); return nil }); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(ids)
	}
	applyAll(t, s,
		endpoint("ep_active", domain.StatusActive), endpoint("ep_disabled", domain.StatusDisabled),
		endpoint("ep_gone", domain.StatusDeleted),
		watch("wat_a", "ep_active", 1, 0), watch("wat_b", "ep_disabled", 1, 0),
		watch("wat_c", "ep_gone", 1, 0),
		watch("wat_d", "ep_unknown", 1, 0), watch("wat_e", "ep_active", 1, 5),
	)
	// The follower must also know the watches without an endpoint, because they miss payments.
	if got := matching(); got != "[wat_a wat_b wat_c wat_d]" {
		t.Errorf("%s match", got)
	}
}
