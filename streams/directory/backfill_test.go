package directory

import (
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// Backfills are found while they are under way, one after the other.
func TestBackfillsUnderWayAreFound(t *testing.T) {
	s := memoryStore(t)
	defer s.Close()
	d := &Directory{store: s}
	underWay, ended := domain.Backfill{Request: 2, From: 5, Next: 5}, domain.Backfill{Request: 2, From: 5, Next: 9, EndedAtMillis: 7}
	put := func(id string, b domain.Backfill, deletedAtMillis int64) streams.Record {
		return row(watches.topic, id, schemas.EncodeWatch(domain.Watch{ID: id, AccountID: "acc_1", WalletAddress: "GA", Backfill: b, DeletedAtMillis: deletedAtMillis}))
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
	applyAll(t, s, put("wat_1", underWay, 0), put("wat_2", domain.Backfill{}, 0), put("wat_3", underWay, 0), put("wat_4", ended, 0))
	expect("wat_1", "wat_3")
	applyAll(t, s, put("wat_1", ended, 0), put("wat_2", underWay, 0), put("wat_4", underWay, 0))
	expect("wat_2", "wat_3", "wat_4")
	applyAll(t, s, put("wat_2", underWay, 9), tombstone(watches.topic, "wat_4"))
	expect("wat_3")
}
