package follower_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// watching returns a follower with one watch, wat_1, of a wallet. The fake directory decides
// claims, admissions and backfills.
func watching(t *testing.T) (r *rig, x *running, wallet string) {
	r = newRig(t)
	x, wallet = r.watching(r.source())
	return r, x, wallet
}

// watching starts a follower whose backfills read the source past.
func (r *rig) watching(past follower.Source) (x *running, wallet string) {
	wallet = r.wallet()
	config := r.config()
	config.Claims = &counter{directory: r.directory, before: func(int) {}}
	config.Backfill = follower.BackfillConfig{
		Source:   past,
		Requests: r.directory,
		Commands: &desk{directory: r.directory},
	}
	r.directory.add("wat_1", wallet)
	r.admitting()
	return r.startReady(config), wallet
}

// keeping is a source that has lost the ledgers before the oldest one.
type keeping struct {
	follower.Source
	oldest *atomic.Uint32
}

func (k keeping) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	if sequence < k.oldest.Load() {
		return nil, domain.ErrBehindRetention
	}
	return k.Source.Next(ctx, sequence)
}

// Payments to a watch without an endpoint are matched later, from the first ledger that the source
// still has. The watch names the ledgers that the source lacks.
func TestWhatTheSourceHasOfAGapIsDelivered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	oldest := new(atomic.Uint32)
	x, wallet := r.watching(keeping{r.source(), oldest})
	before := r.pay(wallet, "1")
	x.until(before.Ledger)
	r.directory.deleteEndpointOf("wat_1")
	lost, second := r.pay(wallet, "2"), r.pay(wallet, "3")
	x.until(second.Ledger)
	r.asIs(x, "missing", func(w domain.Watch) bool { return w.MissedSince == lost.Ledger })
	oldest.Store(second.Ledger)
	r.directory.move("wat_1", "ep_new")
	missing := fmt.Sprintf("ledger %d is older", lost.Ledger)
	if lost.Ledger+1 < second.Ledger {
		missing = fmt.Sprintf("ledgers %d to %d are older", lost.Ledger, second.Ledger-1)
	}
	w := r.asIs(x, "read in part", func(w domain.Watch) bool {
		return w.LiveSince != 0 && !w.Backfill.UnderWay()
	})
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(w.Backfill.Problem, missing) || w.MissedSince != lost.Ledger {
		t.Errorf("it says %q, want %q: %+v", w.Backfill.Problem, missing, w)
	}
	if got := r.endpointsOf(second); !slices.Equal(got, []string{"ep_new"}) {
		t.Errorf("the event of ledger %d is for %v", second.Ledger, got)
	}
}

// endpointsOf returns the endpoints for which the log has an event of a payment.
func (r *rig) endpointsOf(p devclient.Payment) (ids []string) {
	for _, m := range r.matches() {
		if m.Event.ID == domain.EventID("wat_1", p.ID) {
			ids = append(ids, m.EndpointID)
		}
	}
	return ids
}

func (r *rig) asIs(x *running, what string, is func(domain.Watch) bool) domain.Watch {
	r.t.Helper()
	for {
		w, _, _ := r.directory.Watch("wat_1")
		if is(w) {
			return w
		}
		select {
		case <-x.ledgers:
		case err := <-x.ended:
			r.t.Fatalf("the follower ended: %v", err)
		case <-r.t.Context().Done():
			r.t.Fatalf("it is not %s: %+v", what, w)
		}
	}
}

// The follower matches payments to a watch whose endpoint was deleted once the watch has another
// endpoint. This needs no request.
func TestPaymentsWithoutAnEndpointAreDelivered(t *testing.T) {
	t.Parallel()
	r, x, wallet := watching(t)
	before := r.pay(wallet, "1")
	x.until(before.Ledger)
	r.directory.deleteEndpointOf("wat_1")
	first, second := r.pay(wallet, "2"), r.pay(wallet, "3")
	x.until(second.Ledger)
	r.asIs(x, "missing", func(w domain.Watch) bool {
		return w.MissedSince == first.Ledger && w.LiveSince == 0
	})
	if got := r.told("wat_1"); len(got) != 1 {
		t.Errorf("without an endpoint it has the events %v", got)
	}
	r.directory.move("wat_1", "ep_new")
	w := r.asIs(x, "without a gap", func(w domain.Watch) bool {
		return w.MissedSince == 0 && w.LiveSince != 0 && w.Backfill.Done()
	})
	after := r.pay(wallet, "4")
	x.until(after.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		paid devclient.Payment
		want string
	}{{before, "ep_wat_1"}, {first, "ep_new"}, {second, "ep_new"}, {after, "ep_new"}} {
		if got := r.endpointsOf(c.paid); !slices.Equal(got, []string{c.want}) {
			t.Errorf("ledger %d: the event is for %v, want %s", c.paid.Ledger, got, c.want)
		}
	}
	if b := w.Backfill; b.From != first.Ledger || b.Matched != 2 || b.Created != 2 {
		t.Errorf("the backfill is %+v", b)
	}
}

// A backfill matches ledgers again by the current rules, and skips payments that already have an
// event.
func TestABackfillMatchesByThePresentRules(t *testing.T) {
	t.Parallel()
	r, x, wallet := watching(t)
	r.directory.ask(domain.UpdateWatch{WatchID: "wat_1", Change: domain.WatchChange{
		Amount: &domain.AmountRule{Kind: domain.AmountExact, AmountStroops: 70 * domain.StroopsPerUnit},
	}})
	first := r.pay(wallet, "70")
	missed := r.pay(wallet, "7")
	x.until(missed.Ledger)
	change := func(c domain.WatchChange) {
		r.directory.ask(domain.UpdateWatch{WatchID: "wat_1", Change: c})
	}
	backfill := func(matched, created uint32) {
		t.Helper()
		r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: first.Ledger, To: missed.Ledger})
		b := r.ended(x, "wat_1").Backfill
		if !b.Done() || b.Matched != matched || b.Created != created || b.Next != missed.Ledger+1 {
			t.Errorf("the backfill is %+v, and should have matched %d and created %d", b, matched, created)
		}
	}
	backfill(1, 0)
	change(domain.WatchChange{Amount: &domain.AmountRule{Kind: domain.AmountAny}})
	backfill(2, 1)
	backfill(2, 0)
	change(domain.WatchChange{EndpointID: new("ep_new")})
	backfill(2, 0)
	change(domain.WatchChange{ExpiresAtMillis: new(int64(1))})
	backfill(0, 0)
	for _, p := range []devclient.Payment{first, missed} {
		if got := r.endpointsOf(p); !slices.Equal(got, []string{"ep_wat_1"}) {
			t.Errorf("the event of ledger %d is for %v", p.Ledger, got)
		}
	}

	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) emptyMatches() {
	r.t.Helper()
	deleter, err := r.cluster.NewDeleter()
	if err != nil {
		r.t.Fatal(err)
	}
	defer deleter.Close()
	ends, err := deleter.Of(r.t.Context(), schemas.TopicMatches)
	if err != nil {
		r.t.Fatal(err)
	}
	err = deleter.DeleteBefore(r.t.Context(), kafka.Offsets{schemas.TopicMatches: ends})
	if err != nil {
		r.t.Fatal(err)
	}
}

// A backfill does not match ledgers again whose matches were deleted, and the problem names them.
// It matches later ledgers, and earlier ones that were never matched.
func TestABackfillWithoutAllMatchesDoesTheRest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	early := r.pay(r.wallet(), "1") // before the follower begins
	x, wallet := r.watching(r.source())
	first := r.pay(wallet, "70")
	x.until(first.Ledger)
	r.emptyMatches()
	amount := func(rule domain.AmountRule) {
		r.directory.ask(domain.UpdateWatch{WatchID: "wat_1", Change: domain.WatchChange{Amount: &rule}})
	}
	amount(domain.AmountRule{Kind: domain.AmountExact, AmountStroops: 1})
	between := r.pay(wallet, "7")
	x.until(between.Ledger) // its cursor proves that no later matches were deleted
	last := r.pay(wallet, "7")
	x.until(last.Ledger)
	amount(domain.AmountRule{Kind: domain.AmountAny})

	r.directory.ask(domain.BackfillWatch{WatchID: "wat_1", From: early.Ledger, To: last.Ledger})
	w := r.ended(x, "wat_1")
	b := w.Backfill
	var from, to uint32
	_, err := fmt.Sscanf(b.Problem, "ledgers %d to %d:", &from, &to)
	if err != nil || from != early.Ledger || to < first.Ledger || last.Ledger <= to || b.Done() ||
		b.Next != last.Ledger+1 || !strings.Contains(b.Problem, "--topic-retention") {
		t.Errorf("the backfill from %d to %d is %+v", early.Ledger, last.Ledger, b)
	}
	if since := w.LiveSince; b.Skipped != to+1-since || len(w.Uncovered(domain.Range{
		From: early.Ledger, To: last.Ledger})) != 0 {
		t.Errorf("live since %d, it left out %d ledgers of those up to %d, and has read %v", since,
			b.Skipped, to, w.Covered)
	}
	if got := r.endpointsOf(last); !slices.Equal(got, []string{"ep_wat_1"}) {
		t.Errorf("the event of the last ledger is for %v", got)
	}
	if got := r.endpointsOf(first); len(got) != 0 { // it was deleted above
		t.Errorf("the first payment has another event, for %v", got)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

// Retention has deleted records of the matches topic. Ledgers are still matched again if the
// watch's age or a cursor proves that none of the watch's records are missing.
func TestADeletedPartitionHidesNoEvent(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	earlyWallet := r.wallet()
	early := r.pay(earlyWallet, "1") // no cursor is as old as its ledger
	r.cutMatches(time.Now().Add(-30 * time.Minute))
	x, wallet := r.watching(r.source())
	again := func(watchID string, of devclient.Payment, created uint32) {
		t.Helper()
		r.directory.ask(domain.BackfillWatch{WatchID: watchID, From: of.Ledger, To: of.Ledger})
		if b := r.ended(x, watchID).Backfill; !b.Done() || b.Matched != 1 || b.Created != created {
			t.Errorf("the backfill is %+v, and should have matched 1 and created %d", b, created)
		}
	}
	const young = "wat_2"
	r.directory.add(young, earlyWallet)
	r.directory.created(young, time.Now().Add(40*time.Minute)) // clocks may differ by an hour
	again(young, early, 1)
	again(young, early, 0)
	r.directory.created(young, time.Now())
	r.directory.ask(domain.BackfillWatch{WatchID: young, From: early.Ledger, To: early.Ledger})
	if b := r.ended(x, young).Backfill; b.Skipped != 1 || b.Done() {
		t.Errorf("a watch that may have had events which are deleted: %+v", b)
	}

	old := r.pay(wallet, "1")
	x.until(old.Ledger)
	r.emptyMatches()
	before := r.pay(r.wallet(), "1")
	x.until(before.Ledger)
	paid := r.pay(wallet, "2")
	x.until(paid.Ledger)
	again("wat_1", paid, 0)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

// cutMatches gives each partition of the matches topic a record with the given timestamp, and
// deletes all records before it.
func (r *rig) cutMatches(at time.Time) {
	r.t.Helper()
	deleter, err := r.cluster.NewDeleter()
	if err != nil {
		r.t.Fatal(err)
	}
	defer deleter.Close()
	placer, err := r.cluster.NewPlacer()
	if err != nil {
		r.t.Fatal(err)
	}
	defer placer.Close()
	ends, err := deleter.Of(r.t.Context(), schemas.TopicMatches)
	for p := range ends {
		for offset := range int64(2) {
			filler := kafka.NewFiller(schemas.TopicMatches, p)
			filler.Offset, filler.Timestamp = offset, at
			err = errors.Join(err, placer.Place(r.t.Context(), filler))
		}
		ends[p] = 1
	}
	err = errors.Join(err, deleter.DeleteBefore(r.t.Context(),
		kafka.Offsets{schemas.TopicMatches: ends}))
	if err != nil {
		r.t.Fatal(err)
	}
}

func (b *directory) created(watchID string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.acknowledged {
		if w.ID == watchID {
			b.acknowledged[i].CreatedAtMillis = at.UnixMilli()
		}
	}
}
