package directory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func listedWatch(id, account, endpoint, wallet string, createdAtMillis int64) kafka.Record {
	return row(schemas.TopicWatches, id, schemas.EncodeWatch(domain.Watch{
		ID:              id,
		AccountID:       account,
		EndpointID:      endpoint,
		WalletAddress:   wallet,
		CreatedAtMillis: createdAtMillis,
		Version:         1,
	}))
}

func listedEndpoint(
	id, account string, status domain.EndpointStatus, createdAtMillis int64,
) kafka.Record {
	return row(schemas.TopicEndpoints, id,
		schemas.EncodeEndpoint(domain.Endpoint{
			ID:              id,
			AccountID:       account,
			Status:          status,
			CreatedAtMillis: createdAtMillis,
			Version:         1,
		}))
}

func walkWatches(t *testing.T, d *Directory, f readmodel.WatchFilter, limit int) (ids []string) {
	t.Helper()
	var after *readmodel.Position
	for {
		page, next, err := d.Watches(f, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > limit {
			t.Fatalf("%d on a page of %d", len(page), limit)
		}
		for _, w := range page {
			ids = append(ids, w.ID)
		}
		if next == nil {
			return ids
		}
		after = next
	}
}

// This test compares lists with a model through every kind of row change.
func TestListsAreTheTables(t *testing.T) {
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("engine")
	random := rand.New(rand.NewPCG(1, 2))
	model := map[string]domain.Watch{}
	created := map[string]int64{}
	var records []kafka.Record
	for range 300 {
		id := fmt.Sprintf("wat_%02d", random.IntN(40))
		if random.IntN(5) == 0 {
			records = append(records, tombstone(schemas.TopicWatches, id))
			delete(model, id)
			continue
		}
		if created[id] == 0 {
			created[id] = int64(1000 + random.IntN(10)) // several watches share a time
		}
		x := domain.Watch{
			ID:              id,
			AccountID:       "acc_" + string(id[len(id)-1]%2+'0'),
			EndpointID:      fmt.Sprintf("ep_%d", random.IntN(3)),
			WalletAddress:   fmt.Sprintf("G%d", int(id[4])%3),
			CreatedAtMillis: created[id],
			Version:         1,
		}
		records = append(records,
			listedWatch(x.ID, x.AccountID, x.EndpointID, x.WalletAddress, x.CreatedAtMillis))
		model[id] = x
	}
	w.write(records...)
	r.caughtUp(d)
	for _, f := range []readmodel.WatchFilter{
		{AccountID: "acc_0"}, {AccountID: "acc_1"}, {AccountID: "acc_2"}, {AccountID: "acc_"},
		{AccountID: "acc_0", EndpointID: "ep_1"}, {AccountID: "acc_0", WalletAddress: "G1"},
		{AccountID: "acc_1", EndpointID: "ep_2", WalletAddress: "G0"},
		{AccountID: "acc_1", EndpointID: "ep_"},
	} {
		var want []domain.Watch
		for _, x := range model {
			if x.AccountID == f.AccountID && (f.EndpointID == "" || x.EndpointID == f.EndpointID) &&
				(f.WalletAddress == "" || x.WalletAddress == f.WalletAddress) {
				want = append(want, x)
			}
		}
		slices.SortFunc(want, func(a, b domain.Watch) int {
			if a.CreatedAtMillis != b.CreatedAtMillis {
				return int(b.CreatedAtMillis - a.CreatedAtMillis)
			}
			return strings.Compare(a.ID, b.ID)
		})
		var ids []string
		for _, x := range want {
			ids = append(ids, x.ID)
		}
		for _, limit := range []int{1, 3, 250} {
			if got := walkWatches(t, d, f, limit); !slices.Equal(got, ids) {
				t.Errorf("%+v by %d: %v, want %v", f, limit, got, ids)
			}
		}
	}
}

// Two accounts with the same hash are adjacent in a wallet's index. Each account's list must have
// only its own watches.
func TestAccountsOfOneHashAreToldApart(t *testing.T) {
	r := newRig(t)
	d, _ := r.open(r.dir)
	const one, other, wallet = "acc_479599", "acc_662382", "G1"
	if !bytes.Equal(walletList(wallet, one), walletList(wallet, other)) {
		t.Fatal("the hashes differ: the test has to find two other accounts")
	}
	applyAll(t, d.store,
		listedWatch("wat_1", one, "ep_1", wallet, 1),
		listedWatch("wat_2", other, "ep_2", wallet, 2),
		listedWatch("wat_3", one, "ep_1", wallet, 3),
		listedWatch("wat_4", other, "ep_2", wallet, 4))
	for account, want := range map[string]string{one: "[wat_3 wat_1]", other: "[wat_4 wat_2]"} {
		for _, limit := range []int{1, 2} {
			f := readmodel.WatchFilter{AccountID: account, WalletAddress: wallet}
			if got := walkWatches(t, d, f, limit); fmt.Sprint(got) != want {
				t.Errorf("%s by %d: %v, want %s", account, limit, got, want)
			}
		}
	}
	if err := d.readWallets(); err != nil {
		t.Fatal(err)
	}
	matched := 0
	if err := d.EachWatchOfWallet(wallet, func(domain.Watch) error {
		matched++
		return nil
	}); err != nil || matched != 4 {
		t.Errorf("%d of 4 watches of the wallet, %v", matched, err)
	}
}

func TestEndpointsAreListedByStatusUntilTheyAreDeleted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	r.txn("engine").write(
		listedEndpoint("ep_1", "acc_1", domain.StatusActive, 1),
		listedEndpoint("ep_2", "acc_1", domain.StatusDisabled, 2),
		listedEndpoint("ep_3", "acc_1", domain.StatusActive, 3),
		listedEndpoint("ep_3", "acc_1", domain.StatusDeleted, 3),
		listedEndpoint("ep_4", "acc_2", domain.StatusActive, 4),
	)
	r.caughtUp(d)
	for f, want := range map[readmodel.EndpointFilter]string{
		{AccountID: "acc_1"}:                                "[ep_2 ep_1]",
		{AccountID: "acc_1", Status: domain.StatusActive}:   "[ep_1]",
		{AccountID: "acc_1", Status: domain.StatusDisabled}: "[ep_2]", {AccountID: "acc"}: "[]",
	} {
		page, next, err := d.Endpoints(f, nil, 10)
		ids := []string{}
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		if err != nil || next != nil || fmt.Sprint(ids) != want {
			t.Errorf("%+v: %v %v %v, want %s", f, ids, next, err, want)
		}
	}
}

// A page with a rare filter reads a bounded number of rows, and returns where to continue.
func TestAPageOfARareFilterIsBounded(t *testing.T) {
	r := newRig(t)
	d, _ := r.open(r.dir)
	records := []kafka.Record{listedEndpoint("ep_rare", "acc_1", domain.StatusDisabled, 1)}
	for i := range maxLooked + 10 {
		records = append(records,
			listedEndpoint(fmt.Sprintf("ep_%d", i), "acc_1", domain.StatusActive, int64(10+i)))
	}
	applyAll(t, d.store, records...)
	f := readmodel.EndpointFilter{AccountID: "acc_1", Status: domain.StatusDisabled}
	page, next, err := d.Endpoints(f, nil, 10)
	if err != nil || len(page) != 0 || next == nil {
		t.Fatalf("%v %v %v", page, next, err)
	}
	page, next, err = d.Endpoints(f, next, 10)
	if err != nil || len(page) != 1 || next != nil {
		t.Fatalf("%v %v %v", page, next, err)
	}
}

// A page of large rows ends after about a megabyte, and the next page continues from there.
func TestAPageIsBoundedByBytes(t *testing.T) {
	r := newRig(t)
	d, _ := r.open(r.dir)
	var records []kafka.Record
	for n := range 50 {
		watch := domain.Watch{
			ID: fmt.Sprintf("wat_%02d", n), AccountID: "acc_1", EndpointID: "ep_1", WalletAddress: "GA",
			CreatedAtMillis: int64(n), Version: 1,
		}
		for i := range 1000 {
			watch.Rules.SenderAllowlist = append(watch.Rules.SenderAllowlist, fmt.Sprintf("G%055d", i))
		}
		records = append(records, row(schemas.TopicWatches, watch.ID, schemas.EncodeWatch(watch)))
	}
	applyAll(t, d.store, records...)
	for _, f := range []readmodel.WatchFilter{
		{AccountID: "acc_1"},
		{AccountID: "acc_1", EndpointID: "ep_1"},
		{AccountID: "acc_1", WalletAddress: "GA"},
	} {
		found, next := 0, (*readmodel.Position)(nil)
		for pages := 1; ; pages++ {
			page, after, err := d.Watches(f, next, 250)
			if err != nil {
				t.Fatal(err)
			}
			if most := maxLookedBytes/(56*1000) + 1; len(page) > most {
				t.Fatalf("a page has %d watches of 56 KB, want at most %d", len(page), most)
			}
			found += len(page)
			if next = after; next == nil {
				break
			}
		}
		if found != 50 {
			t.Errorf("%+v: %d watches on all pages", f, found)
		}
	}
}

// Deleting an endpoint leaves all its watches, and no others, without an endpoint. LeftWatches
// counts them across pages and names the newest.
func TestAnEndpointLeavesItsWatches(t *testing.T) {
	r := newRig(t)
	d, _ := r.open(r.dir)
	var records []kafka.Record
	for n := range 2*leftWatchesPage + 7 {
		id := fmt.Sprintf("wat_%03d", n)
		records = append(records, listedWatch(id, "acc_1", "ep_1", "GA", int64(n)))
	}
	records = append(records, listedWatch("wat_x", "acc_1", "ep_2", "GA", 1),
		listedWatch("wat_y", "acc_2", "ep_1", "GA", 1), tombstone(schemas.TopicWatches, "wat_001"))
	applyAll(t, d.store, records...)
	total, ids, err := d.LeftWatches("acc_1", "ep_1")
	if err != nil || total != 2*leftWatchesPage+6 || len(ids) != leftWatchesMax ||
		ids[0] != fmt.Sprintf("wat_%03d", 2*leftWatchesPage+6) {
		t.Errorf("it leaves %d watches, %d of them named: %v, %v", total, len(ids), ids, err)
	}
}

func TestWaitingForWhatIsGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("engine")
	w.write(listedWatch("wat_1", "acc_1", "ep_1", "G1", 1),
		listedEndpoint("ep_1", "acc_1", domain.StatusActive, 1))
	r.caughtUp(d)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.AwaitWatchGone(short, "wat_1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a watch that is there is gone: %v", err)
	}
	gone := make(chan error, 2)
	go func() { gone <- d.AwaitWatchGone(soon(t), "wat_1") }()
	go func() { gone <- d.AwaitEndpointGone(soon(t), "ep_1") }()
	w.write(listedWatch("wat_1", "acc_1", "ep_2", "G1", 1)) // a change, but not a deletion
	w.write(tombstone(schemas.TopicWatches, "wat_1"),
		listedEndpoint("ep_1", "acc_1", domain.StatusDeleted, 1))
	for range 2 {
		if err := <-gone; err != nil {
			t.Error(err)
		}
	}
	// A row that is already gone does not have to be waited for.
	if err := errors.Join(d.AwaitWatchGone(soon(t), "wat_1"), d.AwaitEndpointGone(soon(t), "ep_1"),
		d.AwaitEndpointGone(soon(t), "ep_never")); err != nil {
		t.Error(err)
	}
}

// Sessions whose time is over are found from any ID on, page by page. Last uses of keys must not be
// mistaken for sessions.
func TestExpiredSessions(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("api")
	at := func(id string, millis int64) kafka.Record {
		return row(schemas.TopicKeyUses, id, schemas.EncodeKeyUse(millis))
	}
	records := []kafka.Record{at("key_1", 1), at("zzz_1", 1), at("ses_50", 9_000)}
	for n := range 100 {
		records = append(records, at(fmt.Sprintf("ses_00%02d", n), 1_000))
	}
	w.write(append(records, at("ses_99", 1_000))...)
	testkit.Eventually(t, "the sessions of both partitions are read", func() bool {
		for n := range 100 {
			if at, err := d.KeyUsedAt(fmt.Sprintf("ses_00%02d", n)); err != nil || at != 1_000 {
				return false
			}
		}
		at, err := d.KeyUsedAt("ses_99")
		return err == nil && at == 1_000
	})
	for from, want := range map[string]int{"ses_": 64, "ses_0090": 11, "ses_5": 1, "ses_a": 0} {
		ids, err := d.ExpiredSessions(from, 1_000)
		if err != nil || len(ids) != want || slices.Contains(ids, "ses_50") {
			t.Errorf("from %s: %q %v, want %d", from, ids, err, want)
		}
	}
	if ids, err := d.ExpiredSessions("ses_", 999); err != nil || len(ids) > 0 {
		t.Errorf("before they expire: %q %v", ids, err)
	}
}

func TestLastUsesOfKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d, _ := r.open(r.dir)
	w := r.txn("api")
	if at, err := d.KeyUsedAt("key_1"); err != nil || at != 0 {
		t.Errorf("a key that was never used: %d %v", at, err)
	}
	use := func(at int64) kafka.Record {
		return row(schemas.TopicKeyUses, "key_1", schemas.EncodeKeyUse(at))
	}
	w.write(use(60_001), use(120_001))
	testkit.Eventually(t, "the last use",
		func() bool { at, err := d.KeyUsedAt("key_1"); return err == nil && at == 120_001 })
	w.write(tombstone(schemas.TopicKeyUses, "key_1"))
	testkit.Eventually(t, "no use",
		func() bool { at, err := d.KeyUsedAt("key_1"); return err == nil && at == 0 })
}
