package directory

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// Backfills are found while they are in progress, one after the other.
func TestBackfillsInProgressAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	underWay, ended := domain.Backfill{Request: 2, From: 5, Next: 5},
		domain.Backfill{Request: 2, From: 5, Next: 9, EndedAtMillis: 7}
	put := func(id string, b domain.Backfill, deletedAtMillis int64) streams.Record {
		return row(watches.topic, id,
			schemas.EncodeWatch(domain.Watch{
				ID:              id,
				AccountID:       "acc_1",
				WalletAddress:   "GA",
				Backfill:        b,
				DeletedAtMillis: deletedAtMillis,
			}))
	}
	expect := func(want ...string) {
		t.Helper()
		after := ""
		for _, id := range append(want, "") {
			w, found, err := d.NextBackfill(after)
			if err != nil || w.ID != id || found != (id != "") {
				t.Fatalf("after %q: found %q (%t, %v), want %q", after, w.ID, found, err, id)
			}
			after = w.ID
		}
	}
	expect()
	applyAll(t, s, put("wat_1", underWay, 0), put("wat_2", domain.Backfill{}, 0),
		put("wat_3", underWay, 0), put("wat_4", ended, 0))
	expect("wat_1", "wat_3")
	applyAll(t, s, put("wat_1", ended, 0), put("wat_2", underWay, 0), put("wat_4", underWay, 0))
	expect("wat_2", "wat_3", "wat_4")
	applyAll(t, s, put("wat_2", underWay, 9), tombstone(watches.topic, "wat_4"))
	expect("wat_3")
}

// Watches are listed until their first live ledger is recorded.
func TestUnadmittedWatchesAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	put := func(id string, liveSince uint32, deletedAtMillis int64) streams.Record {
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
