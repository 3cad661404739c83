package follower_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// ask applies a command to a watch, as the engine would.
func (b *directory) ask(body domain.CommandBody) (domain.Watch, *domain.Rejection) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.acknowledged, func(w domain.Watch) bool {
		return w.ID == body.Aggregate()
	})
	w := b.acknowledged[i]
	facts, rejection := domain.DecideWatch(w, domain.Command{AccountID: w.AccountID, Body: body}, 1000)
	for _, f := range facts {
		w = domain.EvolveWatch(w, domain.Fact{Version: w.Version + 1, AtMillis: 1000, Body: f})
	}
	b.acknowledged[i] = w
	return w, rejection
}

func (b *directory) NextBackfill(account, after string) (found domain.Watch, is bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	order := func(w domain.Watch) string { return w.AccountID + " " + w.ID }
	last := account + " " + cmp.Or(after, "~")
	if account == "" {
		last = ""
	}
	for _, w := range b.acknowledged {
		if w.AwaitsFollower() && order(w) > last && (!is || order(w) < order(found)) {
			found, is = w, true
		}
	}
	return found, is, nil
}

func (b *directory) Watch(id string) (domain.Watch, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.acknowledged, func(w domain.Watch) bool { return w.ID == id })
	if i < 0 {
		return domain.Watch{}, false, nil
	}
	return b.acknowledged[i], true, nil
}

func (b *directory) Endpoint(id string) (domain.Endpoint, bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := domain.Endpoint{ID: id, AccountID: "acc_1", Status: domain.StatusActive}
	if id == b.deleted {
		e.Status = domain.StatusDeleted
	}
	return e, true, nil
}

func (b *directory) deleteEndpointOf(watchID string) {
	w, _, _ := b.Watch(watchID)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleted = w.EndpointID
}

// desk applies the follower's reports to the fake directory.
type desk struct {
	directory *directory
	before    func(domain.RecordCoverage) error // the report is refused if this fails
	mu        sync.Mutex
	taken     []domain.RecordCoverage // reports of covered ledgers
}

func (d *desk) Submit(_ context.Context, c domain.Command) (domain.Result, error) {
	report := c.Body.(domain.RecordCoverage)
	if d.before != nil {
		if err := d.before(report); err != nil {
			return domain.Result{}, err
		}
	}
	w, rejection := d.directory.ask(report)
	d.mu.Lock()
	defer d.mu.Unlock()
	if report.From != 0 {
		d.taken = append(d.taken, report)
	}
	return domain.Result{CommandID: c.ID, Answer: domain.Answer{Watch: &w, Rejection: rejection}}, nil
}

func (d *desk) reports() []domain.RecordCoverage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.taken)
}

// pastConfig configures a follower that starts after the chain's last ledger and reads backfills in
// parts of ten ledgers.
func (r *rig) pastConfig(c *busyChain, d *desk) follower.Config {
	config := r.config()
	config.Source, config.Passphrase = c.source(r.t), c.network.Passphrase()
	config.Backfill = follower.BackfillConfig{
		Source:      c.source(r.t),
		Requests:    r.directory,
		Commands:    d,
		PartLedgers: 10,
	}
	return config
}

// past returns the IDs of a watch's events in a range of the chain.
func (c *busyChain) past(t testing.TB, w domain.Watch, from, to uint32) (ids []string) {
	t.Helper()
	source := c.source(t)
	for from <= to {
		page, err := source.Next(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page {
			for _, p := range l.Payments {
				if m, ok := domain.MatchPayment(w, p); ok && p.AmountStroops > 0 && l.Sequence <= to {
					ids = append(ids, m.EventID)
				}
			}
			from = l.Sequence + 1
		}
	}
	slices.Sort(ids)
	return ids
}

// told returns the IDs of a watch's events in the log, including repeats.
func (r *rig) told(watchID string) (ids []string) {
	r.t.Helper()
	for _, m := range r.matches() {
		if m.WatchID == watchID {
			ids = append(ids, m.Event.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

func (r *rig) ended(x *running, watchID string) domain.Watch {
	r.t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(patience); ; {
		select {
		case <-tick.C:
			if w, _, _ := r.directory.Watch(watchID); !w.Backfill.UnderWay() {
				return w
			}
		case err := <-x.ended:
			r.t.Fatalf("the follower ended: %v", err)
		case <-deadline:
			w, _, _ := r.directory.Watch(watchID)
			r.t.Fatalf("the backfill did not end: %+v", w.Backfill)
		}
	}
}

func TestBackfillMatchesEachPastPaymentOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	d := &desk{directory: r.directory}
	x := r.startReady(r.pastConfig(c, d))
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 1})
	w := r.ended(x, "wat_1")
	if want := (domain.Ranges{{From: 2, To: busyLast}}); !w.Backfill.Done() ||
		w.Backfill.Next != busyLast+1 || w.LiveSince != busyLast+1 ||
		!reflect.DeepEqual(w.Covered, want) {
		t.Errorf("ended as %+v, live since %d, with %v", w.Backfill, w.LiveSince, w.Covered)
	}
	want := c.past(t, w, 2, busyLast)
	if got := r.told("wat_1"); len(want) < 30 || !slices.Equal(got, want) {
		t.Fatalf("%d events, want %d, each once", len(got), len(want))
	}
	next := uint32(2)
	for i, report := range d.reports() { // a part that takes long on a busy machine ends early
		if report.To-report.From >= 10 || report.From != next {
			t.Errorf("report %d is of ledgers %d to %d, want from %d", i, report.From, report.To, next)
		}
		next = report.To + 1
	}
	if got := r.told("wat_2"); len(got) != 0 {
		t.Errorf("the other watch of the wallet got %d events", len(got))
	}

	// Later payments are seen live, and no range is read again.
	sequence, err := c.traffic.Burst(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	x.until(sequence)
	want = c.past(t, w, 2, sequence)
	for _, again := range []domain.BackfillWatch{
		{From: 2}, {From: 40, To: 60}, {From: 90, To: 100_000},
	} {
		again.WatchID = "wat_1"
		r.directory.ask(again)
		if w = r.ended(x, "wat_1"); !w.Backfill.Done() {
			t.Errorf("ended as %+v", w.Backfill)
		}
	}
	if got := r.told("wat_1"); !slices.Equal(got, want) {
		t.Errorf("%d events, want %d, each once", len(got), len(want))
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	checkCursors(t, r.cursors())
}

// The follower may crash after it has appended matches and before it has reported their range. It
// must resume where the log ends and append nothing twice.
func TestBackfillGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	crashed := make(chan struct{})
	crash := sync.OnceFunc(func() { close(crashed) })
	d := &desk{directory: r.directory, before: func(report domain.RecordCoverage) error {
		if report.From >= 32 {
			crash()
			return errors.New("nobody heard it")
		}
		return nil
	}}
	x := r.startReady(r.pastConfig(c, d))
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2, To: 80})
	select {
	case <-crashed:
	case <-time.After(patience):
		t.Fatal("the backfill did not come to ledger 32")
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	w, _, _ := r.directory.Watch("wat_1")
	if w.Backfill.Next != 32 || !w.Backfill.UnderWay() {
		t.Fatalf("crashed at %+v", w.Backfill)
	}
	before := r.told("wat_1")
	if want := c.past(t, w, 2, 41); !slices.Equal(before, want) {
		t.Fatalf("%d events before the crash, want the %d of ledgers 2 to 41: matches come before their report", len(
			before,
		), len(want))
	}
	x = r.startReady(r.pastConfig(c, &desk{directory: r.directory}))
	w = r.ended(x, "wat_1")
	if err := x.stopped(); err != nil || !w.Backfill.Done() || w.Backfill.Until != 80 {
		t.Fatalf("ended as %+v (%v)", w.Backfill, err)
	}
	if got, want := r.told("wat_1"), c.past(t, w, 2, 80); !slices.Equal(got, want) {
		t.Errorf("%d events, want %d, each once", len(got), len(want))
	}
}

// interrupted is a log that can fail at a commit.
type interrupted struct {
	follower.Log
	// at decides whether a commit of matches succeeds, fails, or fails after it has taken effect.
	at func() (before, after error)
}

func (l interrupted) Commit(ctx context.Context, records ...kafka.Record) error {
	if records[0].Topic != schemas.TopicMatches {
		return l.Log.Commit(ctx, records...)
	}
	before, after := l.at()
	if before != nil {
		return before
	}
	return cmp.Or(l.Log.Commit(ctx, records...), after)
}

// pastLife runs the requested backfills as a separate process would, until they end or one fails.
func (r *rig) pastLife(c *busyChain, d *desk, at func() (before, after error)) error {
	r.t.Helper()
	log, err := follower.OpenPastLog(r.cluster)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	reading := follower.NewReading(r.pastConfig(c, d), nil, func() bool { return true })
	reading.SetAt(busyLast)
	b := follower.NewBackfiller(reading, interrupted{log, at})
	for {
		w, found, err := r.directory.NextBackfill("", "")
		if err != nil || !found {
			return err
		}
		if err := b.Advance(r.t.Context(), w.ID); err != nil {
			return err
		}
	}
}

func uninterrupted() (before, after error) { return nil, nil }

// asked returns a rig with a watch and a requested backfill of ledgers 2 to 80.
func asked(t *testing.T) (*rig, *busyChain) {
	r := newRig(t)
	c := r.busyChain()
	r.directory.ask(domain.RecordCoverage{WatchID: "wat_1", LiveSince: busyLast + 1})
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2, To: 80})
	return r, c
}

func (r *rig) checkEachOnce(c *busyChain) {
	r.t.Helper()
	w, _, _ := r.directory.Watch("wat_1")
	if !w.Backfill.Done() || len(w.Parts) != 0 {
		r.t.Errorf("ended as %+v with %+v", w.Backfill, w.Parts)
	}
	if got, want := r.told("wat_1"), c.past(r.t, w, 2, 80); len(want) < 20 ||
		!slices.Equal(got, want) {
		r.t.Errorf("%d events, want %d, each once", len(got), len(want))
	}
}

// Each run ends before or after a commit, and the watch has moved by the time the next run begins.
// Reading the part again must append only the rest, and a payment that was already matched keeps
// its endpoint.
func TestAPartReadAgainAppendsTheRestOnly(t *testing.T) {
	t.Parallel()
	r, c := asked(t)
	d := &desk{directory: r.directory}
	for life := range 8 {
		r.directory.move("wat_1", []string{"ep_1", "ep_2", "ep_3", "ep_4"}[life%4])
		commits := 0
		err := r.pastLife(c, d, func() (before, after error) {
			if commits++; commits < 2 {
				return nil, nil
			}
			if life%2 == 0 {
				return errKilled, nil
			}
			return nil, errKilled
		})
		if !errors.Is(err, errKilled) {
			t.Fatalf("life %d ended with %v", life, err)
		}
		if w, _, _ := r.directory.Watch("wat_1"); len(w.Parts) != 1 {
			t.Fatalf("life %d leaves the parts %+v", life, w.Parts)
		}
	}
	if err := r.pastLife(c, d, uninterrupted); err != nil {
		t.Fatal(err)
	}
	r.checkEachOnce(c)
	endpoints := make(map[string]int)
	for _, m := range r.matches() {
		endpoints[m.EndpointID]++
	}
	if len(endpoints) != 4 {
		t.Errorf("events by endpoint: %v, want some for each of four", endpoints)
	}
}

// A failed part must be read back even if the error is not from a commit. Here, the group is silent
// for a moment.
func TestAPartThatFailsIsReadBackByTheSameTerm(t *testing.T) {
	t.Parallel()
	r, c := asked(t)
	log, err := follower.OpenPastLog(r.cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	asks, failures := 0, 0
	reading := follower.NewReading(r.pastConfig(c, &desk{directory: r.directory}), nil, func() bool {
		asks++
		return asks%11 != 0
	})
	reading.SetAt(busyLast)
	b := follower.NewBackfiller(reading, interrupted{log, uninterrupted})
	for range 1000 {
		w, found, err := r.directory.NextBackfill("", "")
		if err != nil {
			t.Fatal(err)
		}
		if !found {
			break
		}
		if b.Advance(t.Context(), w.ID) != nil {
			failures++
		}
	}
	if failures == 0 {
		t.Error("no part failed")
	}
	r.checkEachOnce(c)
}

// The follower needs the records after its cursor, and those after the start of an open part.
func TestWhatIsNeeded(t *testing.T) {
	t.Parallel()
	r, c := asked(t)
	at := func() int64 {
		t.Helper()
		needed, err := follower.Needed(t.Context(), r.cluster, c.network.Passphrase(), r.directory)
		if err != nil {
			t.Fatal(err)
		}
		w, _, _ := r.directory.Watch("wat_1")
		return needed[schemas.TopicMatches][kafka.PartitionOf(2)(w.EndpointID)]
	}
	if got := at(); got != 0 {
		t.Errorf("without a cursor it is needed from %d on", got)
	}
	d := &desk{directory: r.directory}
	commits := 0
	if err := r.pastLife(c, d, func() (before, after error) {
		if commits++; commits == 8 {
			return nil, errKilled
		}
		return nil, nil
	}); !errors.Is(err, errKilled) {
		t.Fatal(err)
	}
	everything := map[int32]int64{0: 1 << 40, 1: 1 << 40}
	r.appendCursor(schemas.LedgerRead{
		NetworkPassphrase: c.network.Passphrase(),
		Sequence:          busyLast,
		MatchesOffsets:    everything,
		PaymentsOffsets:   everything,
	})
	w, _, _ := r.directory.Watch("wat_1")
	if got := at(); got != w.Parts[0].MatchesFrom || got == 0 {
		t.Errorf("with the part %+v it is needed from %d on", w.Parts[0], got)
	}
	if err := r.pastLife(c, d, uninterrupted); err != nil {
		t.Fatal(err)
	}
	if got := at(); got != everything[0] {
		t.Errorf("after the backfill it is needed from %d on", got)
	}
}

// A follower is paused at a commit while another follower continues. When it resumes, its part has
// ended, and its commit must be refused.
func TestAFormerFollowerAppendsNothingOfABackfill(t *testing.T) {
	t.Parallel()
	r, c := asked(t)
	d := &desk{directory: r.directory}
	commits := 0
	err := r.pastLife(c, d, func() (before, after error) {
		if commits++; commits == 3 { // the follower that is about to commit is paused
			if err := r.pastLife(c, d, uninterrupted); err != nil {
				t.Errorf("the later follower ended with %v", err)
			}
		}
		return nil, nil
	})
	if err == nil {
		t.Error("the former follower was not refused")
	}
	r.checkEachOnce(c)
}

// A former follower's report arrives when another follower has already found out how far the part
// was read, and is reading the rest. The report must change nothing.
func TestALateReportChangesNothing(t *testing.T) {
	t.Parallel()
	r, c := asked(t)
	var late []domain.RecordCoverage
	lost := &desk{directory: r.directory, before: func(report domain.RecordCoverage) error {
		if report.Part == 0 {
			return nil
		}
		late = append(late, report)
		return errKilled
	}}
	if err := r.pastLife(c, lost, uninterrupted); !errors.Is(err, errKilled) || len(late) == 0 {
		t.Fatalf("the former follower ended with %v after %d reports", err, len(late))
	}
	reports := 0
	d := &desk{directory: r.directory, before: func(domain.RecordCoverage) error {
		if reports++; reports == 2 {
			before, _, _ := r.directory.Watch("wat_1")
			after, rejection := r.directory.ask(late[0])
			if rejection != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("a late report makes %+v of %+v (%v)", after, before, rejection)
			}
		}
		return nil
	}}
	if err := r.pastLife(c, d, uninterrupted); err != nil {
		t.Fatal(err)
	}
	r.checkEachOnce(c)
}

func TestBackfillsTakeTurns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	d := &desk{directory: r.directory}
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_2", From: 60, To: 75})
	x := r.startReady(r.pastConfig(c, d))
	one, two := r.ended(x, "wat_1"), r.ended(x, "wat_2")
	if err := x.stopped(); err != nil || !one.Backfill.Done() || !two.Backfill.Done() {
		t.Fatalf("ended as %+v and %+v (%v)", one.Backfill, two.Backfill, err)
	}
	var order []string
	for _, report := range d.reports() {
		order = append(order, report.WatchID)
	}
	if len(order) < 12 || order[0] == order[1] || order[1] == order[2] || order[2] == order[3] {
		t.Errorf("worked on in the order %v", order)
	}
	if got, want := r.told("wat_1"), c.past(t, one, 2, busyLast); !slices.Equal(got, want) {
		t.Errorf("%d events of the first, want %d", len(got), len(want))
	}
	if got, want := r.told("wat_2"), c.past(t, two, 60, 75); len(want) == 0 ||
		!slices.Equal(got, want) {
		t.Errorf("%d events of the second, want %d", len(got), len(want))
	}
}

// A permanent error ends a backfill with a problem that says what to do. The live ledger is still
// followed.
func TestBackfillSaysWhyItStops(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	config := r.pastConfig(c, &desk{directory: r.directory})
	config.Backfill.Source = reader(t, forgetful{c.rpc(t, c.network.RPCURL()), 50},
		c.network.Passphrase())
	x := r.startReady(config)
	for _, s := range []struct {
		ask     domain.BackfillWatch
		problem string
		covered domain.Ranges
	}{
		{
			domain.BackfillWatch{From: 20, To: 60},
			"ledgers 20 to 49 are older than what the source of ledgers keeps", nil,
		},
		{domain.BackfillWatch{From: 1000}, "ledger 1000 is yet to be read", nil},
		{domain.BackfillWatch{From: 88}, "ledger 90 cannot be read", domain.Ranges{{From: 88, To: 89}}},
	} {
		s.ask.WatchID = "wat_1"
		r.directory.ask(s.ask)
		w := r.ended(x, "wat_1")
		if w.Backfill.Done() || !strings.Contains(w.Backfill.Problem, s.problem) ||
			!reflect.DeepEqual(w.Covered, s.covered) {
			t.Errorf("from %d: ended as %+v with %v", s.ask.From, w.Backfill, w.Covered)
		}
	}
	sequence, err := c.traffic.Burst(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	x.until(sequence)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

// The follower checks a backfill's source against the ledgers that it followed. If one of a page's
// ledgers has another hash, it discards the page, and the problem says why. With a source that has
// the same ledgers, the backfill continues.
func TestABackfillIsHeldAgainstWhatWasFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	hashes := map[uint32]string{}
	for from, s := uint32(2), c.source(t); from <= busyLast; {
		page, err := s.Next(t.Context(), from)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page {
			hashes[l.Sequence], from = l.Hash, l.Sequence+1
		}
	}
	follow := func(sequence uint32, hash string) {
		r.appendCursor(schemas.LedgerRead{
			NetworkPassphrase: c.network.Passphrase(),
			Sequence:          sequence,
			Hash:              hash,
		})
	}
	const known, lied = 40, 55
	follow(known, hashes[known])
	follow(lied, strings.Repeat("ab", 32))
	follow(busyLast, hashes[busyLast])
	config := r.pastConfig(c, &desk{directory: r.directory})
	x := r.startReady(config)
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	w := r.ended(x, "wat_1")
	const why = "on the source has another history than the one that was followed"
	if w.Backfill.Done() || !strings.Contains(w.Backfill.Problem, why) || len(w.Covered) != 1 ||
		w.Covered[0].To < known || w.Covered[0].To >= lied {
		t.Fatalf("ended as %+v with %v", w.Backfill, w.Covered)
	}
	want := c.past(t, w, 2, w.Covered[0].To)
	if got := r.told("wat_1"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("%d events, want the %d of what is covered", len(got), len(want))
	}
	follow(lied, hashes[lied])
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	if w = r.ended(x, "wat_1"); !w.Backfill.Done() {
		t.Errorf("it ended as %+v", w.Backfill)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

// Each part continues the chain of the previous part, even if parts of other backfills are read in
// between. This detects a source that switches to another history.
func TestPartsOfABackfillAreAChain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	config := r.pastConfig(c, &desk{directory: r.directory})
	chain := &continued{Source: config.Backfill.Source}
	config.Backfill.Source = chain
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_2", From: 5})
	x := r.startReady(config)
	if one, two := r.ended(x, "wat_1"), r.ended(x, "wat_2"); !one.Backfill.Done() ||
		!two.Backfill.Done() {
		t.Errorf("ended as %+v and %+v", one.Backfill, two.Backfill)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if chain.resumed == 0 {
		t.Errorf("%d parts began a chain, and none went on with one", chain.anew)
	}
}

// Each backfill reads its watch's existing events only once, although the parts of the backfills
// alternate.
func TestBackfillsThatTakeTurnsReadMatchesOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	d := &desk{directory: r.directory}
	ids := []string{"wat_1", "wat_2"}
	request := func() {
		for _, id := range ids {
			r.directory.ask(domain.BackfillWatch{WatchID: id, From: 2, To: 60})
		}
	}
	for _, id := range ids {
		r.directory.ask(domain.RecordCoverage{WatchID: id, LiveSince: busyLast + 1})
	}
	request()
	if err := r.pastLife(c, d, uninterrupted); err != nil {
		t.Fatal(err)
	}
	before := len(r.matches())
	log, err := follower.OpenPastLog(r.cluster)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	reading := follower.NewReading(r.pastConfig(c, d), nil, func() bool { return true })
	reading.SetAt(busyLast)
	reads := map[string]int{}
	b := follower.NewBackfiller(reading, counted{log, reads})
	request()
	for turns := (follower.Turns{Requests: r.directory}); ; {
		w, found, err := turns.Next()
		if err != nil || !found {
			break
		}
		if err := b.Advance(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range ids {
		if w, _, _ := r.directory.Watch(id); !w.Backfill.Done() {
			t.Errorf("ended as %+v", w.Backfill)
		}
	}
	if after := len(r.matches()); before == 0 || after != before {
		t.Errorf("%d events, and %d after the second time", before, after)
	}
	if got := reads[schemas.TopicMatches]; got != len(ids) {
		t.Errorf("the matches were read %d times for %d backfills", got, len(ids))
	}
}

// While another account has many backfills in progress, at most one of its parts is read between
// two parts of this account's backfill.
func TestBackfillsTakeTurnsByAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	for i := range 20 {
		id := fmt.Sprintf("wat_flood_%d", i)
		r.directory.add(id, "GA")
		r.directory.ask(domain.RecordCoverage{WatchID: id, LiveSince: busyLast + 1})
		r.directory.ask(domain.BackfillWatch{WatchID: id, From: 2})
	}
	const victim = "wat_victim"
	r.directory.add(victim, "GA")
	r.directory.mu.Lock()
	r.directory.acknowledged[len(r.directory.acknowledged)-1].AccountID = "acc_2"
	r.directory.mu.Unlock()
	r.directory.ask(domain.RecordCoverage{WatchID: victim, LiveSince: busyLast + 1})
	r.directory.ask(domain.BackfillWatch{WatchID: victim, From: 2})
	d := &desk{directory: r.directory}
	x := r.startReady(r.pastConfig(c, d))
	if w := r.ended(x, victim); !w.Backfill.Done() {
		t.Errorf("ended as %+v", w.Backfill)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	own, others := 0, 0
	for _, report := range d.reports() {
		switch {
		case report.WatchID != victim:
			others++
		case others > 1: // also before its first part
			t.Fatalf("part %d waited for %d parts of the other account", own, others)
		default:
			own, others = own+1, 0
		}
	}
	if own < 5 {
		t.Errorf("the backfill was read in %d parts only", own)
	}
}

type counted struct {
	follower.Log
	reads map[string]int
}

func (c counted) Read(
	ctx context.Context, topic string, from, ends map[int32]int64, take func(kafka.Record) error,
) error {
	c.reads[topic]++
	return c.Log.Read(ctx, topic, from, ends, take)
}

// continued counts the chains that the source begins and those that it resumes.
type continued struct {
	follower.Source
	anew, resumed int
}

func (c *continued) Continue(sequence uint32, hash string) {
	if hash == "" {
		c.anew++
	} else {
		c.resumed++
	}
	c.Source.Continue(sequence, hash)
}

// forgetful has lost the ledgers before the oldest one, and its ledger 90 is damaged.
type forgetful struct {
	source.Source
	oldest uint32
}

func (f forgetful) Next(ctx context.Context, sequence uint32) ([]ledger.Raw, error) {
	if sequence < f.oldest {
		return nil, domain.ErrBehindRetention
	}
	page, err := f.Source.Next(ctx, sequence)
	for i := range page {
		if page[i].Sequence == 90 {
			page[i].XDR = page[i].XDR[:len(page[i].XDR)-4]
			page[i] = unverified(page[i])
		}
	}
	return page, err
}

// A backfill ends without further effect if its watch is deleted or if another request replaces it.
func TestBackfillHeedsWhatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_2", From: 2})
	var deleted, replaced sync.Once
	d := &desk{directory: r.directory, before: func(report domain.RecordCoverage) error {
		if report.WatchID == "wat_1" && report.From >= 22 {
			deleted.Do(func() { r.directory.ask(domain.DeleteWatch{WatchID: "wat_1"}) })
		}
		if report.WatchID == "wat_2" && report.From >= 12 {
			replaced.Do(func() { r.directory.ask(domain.BackfillWatch{WatchID: "wat_2", From: 70}) })
		}
		return nil
	}}
	x := r.startReady(r.pastConfig(c, d))
	two := r.ended(x, "wat_2")
	if want := (domain.Ranges{{From: 2, To: 21}, {From: 70, To: busyLast}}); !two.Backfill.Done() ||
		two.Backfill.From != 70 || !reflect.DeepEqual(two.Covered, want) {
		t.Errorf("the replaced one ended as %+v with %v", two.Backfill, two.Covered)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	for _, report := range d.reports() {
		if report.WatchID == "wat_1" && report.From > 22 {
			t.Errorf("ledgers %d to %d were read for a deleted watch", report.From, report.To)
		}
	}
}

// A backfill matches nothing while its watch has no endpoint. It can match these ledgers once the
// watch has another endpoint.
func TestABackfillWaitsForAnEndpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	var deleted sync.Once
	d := &desk{directory: r.directory, before: func(report domain.RecordCoverage) error {
		if report.From >= 22 {
			deleted.Do(func() { r.directory.deleteEndpointOf("wat_1") })
		}
		return nil
	}}
	x := r.startReady(r.pastConfig(c, d))
	stops := func(why, due string, covered domain.Ranges) {
		t.Helper()
		r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
		w := r.ended(x, "wat_1")
		if !strings.Contains(w.Backfill.Problem, "deleted when ledger "+due+" was due") ||
			!reflect.DeepEqual(w.Covered, covered) || len(w.Parts) != 0 {
			t.Errorf("%s: it ended as %+v with %v", why, w.Backfill, w.Covered)
		}
	}
	// The part from ledger 32 has begun when the deletion is noticed, and it is not read.
	stops("deleted meanwhile", "32", domain.Ranges{{From: 2, To: 31}})
	stops("deleted before", "2", domain.Ranges{{From: 2, To: 31}})
	r.directory.move("wat_1", "ep_other")
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2})
	if w := r.ended(x, "wat_1"); !w.Backfill.Done() {
		t.Errorf("with another endpoint it ended as %+v", w.Backfill)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

// If a source becomes unavailable in the middle of a part, the follower reports the ledgers before
// that, so that it repeats nothing.
func TestBackfillWaitsForItsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.busyChain()
	config := r.pastConfig(c, &desk{directory: r.directory})
	away := &stalling{Source: config.Backfill.Source, from: 25, to: 60, times: 3}
	config.Backfill.Source = away
	x := r.startReady(config)
	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: 2, To: 60})
	w := r.ended(x, "wat_1")
	if err := x.stopped(); err != nil || !w.Backfill.Done() || away.times != 0 {
		t.Fatalf("ended as %+v with %d failures left (%v)", w.Backfill, away.times, err)
	}
	if got, want := r.told("wat_1"), c.past(t, w, 2, 60); !slices.Equal(got, want) {
		t.Errorf("%d events, want %d, each once", len(got), len(want))
	}
}

// stalling fails a number of times in a range of ledgers.
type stalling struct {
	follower.Source
	from, to uint32
	times    int
}

func (s *stalling) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if s.from <= sequence && sequence <= s.to && s.times > 0 {
		s.times--
		return nil, errors.New("away")
	}
	return s.Source.Next(ctx, sequence)
}
