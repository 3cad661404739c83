package transfer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// whenFolded calls then once a backup has folded the states to its position, before it reads the
// other records.
func whenFolded(partitions int, then func()) transfer.Telling {
	steps, calls := 0, 0
	return transfer.Telling{
		Step: func(string) { steps++; calls = 0 },
		Progress: func(int64, int64) {
			if calls++; steps == 2 && calls == partitions+1 {
				then()
			}
		},
	}
}

// backedUp backs up the shop while meanwhile runs, and restores the backup to another deployment.
func (s *shop) backedUp(to *deployment, meanwhile func()) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), "backup")
	tell := whenFolded(int(s.partitions), meanwhile)
	_, err := transfer.WriteBackup(s.t.Context(), s.source(), dir, tell)
	s.must(err)
	_, err = transfer.Restore(s.t.Context(), dir, to.target(), nil, silent)
	s.must(err)
	to.open()
}

// otherwise returns a changed version of a match.
func (s *shop) otherwise(r kafka.Record, change func(*domain.Match)) (string, kafka.Record) {
	s.t.Helper()
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	s.must(err)
	made, err := schemas.DecodeMatchMade(schemas.Read(r.Value, r))
	s.must(err)
	m := domain.Match{
		Type: in.Event.Type,
		Watch: domain.Watch{
			ID:            in.WatchID,
			AccountID:     in.AccountID,
			EndpointID:    in.EndpointID,
			WalletAddress: in.WalletAddress,
		},
		Payment: domain.Payment{
			ID:            made.PaymentID,
			To:            in.WalletAddress,
			From:          "GFROM",
			Asset:         domain.NativeAsset(),
			AmountStroops: 1,
			Ledger:        made.Ledger,
		},
		Verification: domain.Verification{Outcome: domain.OutcomeVerified},
	}
	change(&m)
	m.EventID = domain.EventID(m.Watch.ID, m.Payment.ID)
	message := schemas.EncodePaymentMatched(m, domain.NewPaymentEvent(m, 1000))
	return m.EventID, kafka.NewRecord(schemas.TopicMatches, m.Watch.EndpointID, message.Value,
		message.EachHeader)
}

func (d *deployment) matches() map[string]int {
	d.t.Helper()
	by := make(map[string]int)
	for _, r := range d.log.Read(schemas.TopicMatches) {
		made, err := schemas.DecodeMatchMade(schemas.Read(r.Value, r))
		d.must(err)
		by[made.EventID]++
	}
	return by
}

// Records that are written during a backup are either completely in it or not at all. A watch must
// not be created on the new cluster later than on the old one, because it would miss the ledgers in
// between. A match must not be processed before its endpoint exists, because it would be cancelled.
// The backup copies matches that the new follower does not make again.
func TestABackupIsOfOneMoment(t *testing.T) {
	t.Parallel()
	const late = total + 1
	r := newRig(t)
	from, to := r.under("from", 4), r.under("to", 4)
	s, _ := openShop(from)
	var ofLate, ofLateWatch, again, live, past string
	s.backedUp(to, func() {
		s.do(map[string]domain.CommandBody{
			"cmd_late_endpoint": creationOf(from, late),
			"cmd_late_watch":    watchOf(late),
		})
		var records [5]kafka.Record
		ofLate, records[0] = paid(late, 0, 11)
		// The watch is new, but its endpoint is not.
		_, match := paid(others, 300, 11)
		ofLateWatch, records[1] = s.otherwise(match,
			func(m *domain.Match) { m.Watch.ID = watchID(late) })
		// This watch's first live ledger is not recorded.
		again, records[2] = paid(others+1, 301, 11)
		live, records[3] = paid(others, 302, 11)
		past, records[4] = paid(answering, 303, 5) // a match of an open part
		s.append(records[:]...)
		for _, event := range []string{ofLate, ofLateWatch, again, live, past} {
			testkit.Eventually(t, "delivered by the old cluster",
				func() bool { return s.requests(event) == 1 })
		}
	})
	for _, rec := range to.log.Read(schemas.TopicCommands) {
		c, err := schemas.DecodeCommand(schemas.Read(rec.Value, rec))
		r.must(err)
		if of := c.Body.Aggregate(); of == endpointID(late) || of == watchID(late) {
			t.Errorf("the new cluster has yet to take in %s for %s", c.ID, of)
		}
	}
	there := to.matches()
	for event, want := range map[string]int{ofLate: 0, ofLateWatch: 0, again: 0, live: 1, past: 1} {
		if there[event] != want {
			t.Errorf("the copy has %s %d times, want %d", event, there[event], want)
		}
	}
	defer to.start()()
	for _, event := range []string{live, past} {
		testkit.Eventually(t, "delivered by the new cluster",
			func() bool { return s.requests(event) == 2 })
	}
	// The follower makes this match again once the missing commands have been repeated.
	to.do(map[string]domain.CommandBody{
		"cmd_late_endpoint": creationOf(from, late),
		"cmd_late_watch":    watchOf(late),
	})
	_, match := paid(late, 0, 11)
	to.append(match)
	testkit.Eventually(t, "delivered by the new cluster",
		func() bool { return s.requests(ofLate) == 2 })
}

// A backup holds the records that it reads, so that no engine deletes them. If they are deleted
// anyway, the backup fails instead of skipping them.
func TestABackupHasNoGaps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	from := r.under("from", 4)
	s, stop := openShop(from)
	stop()
	s.payOn()
	deleter, err := from.NewDeleter()
	r.must(err)
	defer deleter.Close()
	dir := filepath.Join(t.TempDir(), "backup")
	held := func() map[int32]int64 {
		groups, err := deleter.Positions(t.Context())
		r.must(err)
		return groups["history-copy"][schemas.TopicMatches]
	}
	_, err = transfer.WriteBackup(t.Context(), from.source(), dir, whenFolded(4, func() {
		if len(held()) != 4 {
			t.Errorf("it holds %v", held())
		}
		ends, err := deleter.Of(t.Context(), schemas.TopicMatches)
		r.must(err)
		for p := range ends {
			ends[p]-- // keep the last record
		}
		r.must(deleter.DeleteBefore(t.Context(), kafka.Offsets{schemas.TopicMatches: ends}))
	}))
	if err == nil || !strings.Contains(err.Error(), "records were deleted") {
		t.Errorf("what is missing is left out: %v", err)
	}
	if len(held()) != 0 {
		t.Errorf("it still holds %v", held())
	}
	if _, err := transfer.ReadManifest(dir); err == nil {
		t.Error("it seems to be a backup")
	}
}

// Brokers do not answer at the same time. A state may therefore have a watch whose endpoint was
// created after the backup read the end of that endpoint's journal. The backup then reads the
// journals again.
func TestABackupHasTheEndpointsOfItsWatches(t *testing.T) {
	t.Parallel()
	const late = total + 1
	r := newRig(t)
	from, to := r.under("from", 4), r.under("to", 4)
	s, _ := openShop(from)
	s.do(map[string]domain.CommandBody{"cmd_late_watch": watchOf(late)})
	s.backedUp(to, func() {
		s.do(map[string]domain.CommandBody{"cmd_late_endpoint": creationOf(from, late)})
	})
	for _, r := range to.log.Read(schemas.TopicEndpoints) {
		if string(r.Key) == endpointID(late) {
			return
		}
	}
	t.Error("the endpoint of a watch is missing")
}
