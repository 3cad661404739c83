package directory

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Backfills are found only while they are in progress, one after another and account by account.
func TestBackfillsInProgressAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	underWay, ended := domain.Backfill{Request: 2, From: 5, Next: 5},
		domain.Backfill{Request: 2, From: 5, Next: 9, EndedAtMillis: 7}
	accountOf := map[string]string{
		"wat_1": "acc_2", "wat_2": "acc_2", "wat_3": "acc_1", "wat_4": "acc_2",
	}
	put := func(id string, b domain.Backfill, deletedAtMillis int64) kafka.Record {
		return row(watches.topic, id,
			schemas.EncodeWatch(domain.Watch{
				ID:              id,
				AccountID:       accountOf[id],
				WalletAddress:   "GA",
				Backfill:        b,
				DeletedAtMillis: deletedAtMillis,
			}))
	}
	expect := func(want ...string) {
		t.Helper()
		account, after := "", ""
		for _, id := range append(want, "") {
			w, found, err := d.NextBackfill(account, after)
			if err != nil || w.ID != id || found != (id != "") {
				t.Fatalf("after %q: found %q (%t, %v), want %q", after, w.ID, found, err, id)
			}
			account, after = w.AccountID, w.ID
		}
	}
	expect()
	applyAll(t, s, put("wat_1", underWay, 0), put("wat_2", domain.Backfill{}, 0),
		put("wat_3", underWay, 0), put("wat_4", ended, 0))
	expect("wat_3", "wat_1")
	applyAll(t, s, put("wat_1", ended, 0), put("wat_2", underWay, 0), put("wat_4", underWay, 0))
	expect("wat_3", "wat_2", "wat_4")
	for account, want := range map[string]string{"": "wat_3", "acc_1": "wat_2", "acc_2": ""} {
		if w, _, err := d.NextBackfill(account, ""); err != nil || w.ID != want {
			t.Errorf("after account %q: found %q (%v), want %q", account, w.ID, err, want)
		}
	}
	applyAll(t, s, put("wat_2", underWay, 9), tombstone(watches.topic, "wat_4"))
	expect("wat_3")
}

// Open parts are listed, and their watches found, even if no backfill is in progress, because only
// a follower ends open parts.
func TestOpenPartsAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	put := func(id string, deletedAtMillis int64, parts ...domain.Part) kafka.Record {
		return row(watches.topic, id,
			schemas.EncodeWatch(domain.Watch{
				ID:              id,
				AccountID:       "acc_1",
				WalletAddress:   "GA",
				Parts:           parts,
				DeletedAtMillis: deletedAtMillis,
			}))
	}
	part := func(from uint32) domain.Part {
		return domain.Part{
			Range:       domain.Range{From: from, To: from + 9},
			Version:     uint64(from),
			EndpointID:  "ep_1",
			MatchesFrom: int64(from),
		}
	}
	expect := func(want ...domain.Part) {
		t.Helper()
		var got []domain.Part
		err := d.EachOpenPart(func(p domain.Part) error { got = append(got, p); return nil })
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("the parts %+v, want %+v (%v)", got, want, err)
		}
		w, found, err := d.NextBackfill("", "")
		if err != nil || found != (len(want) > 0) || found && !reflect.DeepEqual(w.Parts[0], want[0]) {
			t.Fatalf("found %+v (%t, %v)", w, found, err)
		}
	}
	expect()
	applyAll(t, s, put("wat_1", 0, part(2)), put("wat_2", 0), put("wat_3", 0, part(5), part(20)),
		put("wat_4", 7, part(2)))
	expect(part(2), part(5), part(20))
	applyAll(t, s, put("wat_1", 0), put("wat_3", 9, part(5)))
	expect()
}

// Watches are listed until their first live ledger is recorded.
func TestUnadmittedWatchesAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	put := func(id string, liveSince uint32, deletedAtMillis int64) kafka.Record {
		return row(watches.topic, id,
			schemas.EncodeWatch(domain.Watch{
				ID:              id,
				AccountID:       "acc_1",
				WalletAddress:   "GA",
				LiveSince:       liveSince,
				DeletedAtMillis: deletedAtMillis,
			}))
	}
	expect := func(want ...string) {
		t.Helper()
		var got []string
		err := d.EachUnadmitted(func(w domain.Watch) error { got = append(got, w.ID); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d watches %.3v, want %d %.3v (%v)", len(got), got, len(want), want, err)
		}
	}
	expect()
	applyAll(t, s, put("wat_1", 0, 0), put("wat_2", 9, 0), put("wat_3", 0, 0))
	expect("wat_1", "wat_3")
	applyAll(t, s, put("wat_1", 7, 0), put("wat_3", 0, 5))
	expect()
	var many []string
	for i := range 3*watchPage + 1 {
		many = append(many, fmt.Sprintf("wat_%04d", i))
		applyAll(t, s, put(many[i], 0, 0))
	}
	expect(many...)
}

// Watches that missed ledgers without an endpoint are not indexed until they have another endpoint.
func TestAbandonedWatchesAreNotListed(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	put := func(id, endpointID string, deletedAtMillis int64) kafka.Record {
		return row(watches.topic, id, schemas.EncodeWatch(domain.Watch{
			ID: id, AccountID: "acc_1", WalletAddress: "GA", EndpointID: endpointID, MissedSince: 9,
			DeletedAtMillis: deletedAtMillis,
		}))
	}
	endpoint := func(id string, status domain.EndpointStatus) kafka.Record {
		return row(endpoints.topic, id, schemas.EncodeEndpoint(domain.Endpoint{
			ID: id, AccountID: "acc_1", Status: status,
		}))
	}
	expect := func(indexed, want []string) {
		t.Helper()
		var got []string
		err := d.EachUnadmitted(func(w domain.Watch) error { got = append(got, w.ID); return nil })
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("the watches %v, want %v (%v)", got, want, err)
		}
		keys, err := d.indexKeys(unadmittedKey(""), []byte{spaceUnadmitted + 1}, watchPage)
		var ids []string
		for _, key := range keys {
			ids = append(ids, watchOfKey(key))
		}
		if err != nil || !slices.Equal(ids, indexed) {
			t.Fatalf("the index has %v, want %v (%v)", ids, indexed, err)
		}
	}
	both := []string{"wat_1", "wat_2"}
	applyAll(t, s, endpoint("ep_1", domain.StatusActive),
		endpoint("ep_2", domain.StatusActive), put("wat_1", "ep_1", 0))
	expect(both[:1], both[:1])
	applyAll(t, s, endpoint("ep_1", domain.StatusDeleted)) // the deletion is read after the watch
	expect(both[:1], nil)
	applyAll(t, s, put("wat_1", "ep_1", 0), put("wat_2", "ep_1", 0))
	expect(nil, nil)
	applyAll(t, s, put("wat_1", "ep_2", 0), put("wat_2", "ep_2", 0))
	expect(both, both)
	applyAll(t, s, put("wat_1", "ep_1", 0), put("wat_2", "ep_2", 7))
	expect(nil, nil)
}

// An account's counts stay right after changes, deletions and tombstones, and they exclude what
// other accounts have.
func TestWhatAnAccountHasIsCounted(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	watch := func(id, account string, senders int, more func(*domain.Watch)) kafka.Record {
		w := domain.Watch{ID: id, AccountID: account, WalletAddress: "GA"}
		w.Rules.SenderAllowlist = make([]string, senders)
		more(&w)
		return row(watches.topic, id, schemas.EncodeWatch(w))
	}
	endpoint := func(id string, status domain.EndpointStatus) kafka.Record {
		return row(endpoints.topic, id, schemas.EncodeEndpoint(domain.Endpoint{
			ID: id, AccountID: "acc_1", Status: status,
		}))
	}
	quotas := domain.DefaultQuotas()
	expect := func(want domain.Counts, rows ...kafka.Record) {
		t.Helper()
		for _, r := range rows {
			want.StoredBytes += uint64(len(r.Value))
		}
		got, may, err := d.Counts("acc_1")
		if err != nil || got != want || may != quotas {
			t.Fatalf("counted %+v (%v), want %+v", got, err, want)
		}
	}
	as := func(*domain.Watch) {}
	busy := func(w *domain.Watch) { w.Backfill = domain.Backfill{Request: 2, From: 5, Next: 5} }
	expect(domain.Counts{})
	e1, e2 := endpoint("ep_1", domain.StatusActive), endpoint("ep_2", domain.StatusDisabled)
	w1, w2 := watch("wat_1", "acc_1", 3, as), watch("wat_2", "acc_1", 4, busy)
	applyAll(t, s, e1, e2, w1, w2, watch("wat_3", "acc_2", 9, busy))
	expect(domain.Counts{Endpoints: 2, Watches: 2, Senders: 7, Backfills: 1}, e1, e2, w1, w2)
	w1, w2 = watch("wat_1", "acc_1", 1, busy), watch("wat_2", "acc_1", 4, as)
	quotas.Watches, quotas.Reads = 5, 2
	applyAll(t, s, w1, w2, row(accounts.topic, "acc_1", schemas.EncodeAccount(domain.Account{
		ID: "acc_1", Quotas: domain.Counts{Watches: 5, Reads: 2},
	})))
	expect(domain.Counts{Endpoints: 2, Watches: 2, Senders: 5, Backfills: 1}, e1, e2, w1, w2)
	applyAll(t, s, endpoint("ep_1", domain.StatusDeleted), tombstone(endpoints.topic, "ep_1"),
		tombstone(watches.topic, "wat_1"),
		watch("wat_2", "acc_1", 4, func(w *domain.Watch) { w.DeletedAtMillis = 7 }))
	expect(domain.Counts{Endpoints: 1}, e2)
}
