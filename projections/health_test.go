package projections_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
)

func (r *rig) owned(stories ...*story) {
	r.t.Helper()
	for _, s := range stories {
		r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(domain.Endpoint{
			ID: s.endpointID, AccountID: testAccount, Status: domain.StatusActive,
			CreatedAtMillis: startMillis,
		}))
	}
}

// Health must count each attempt once, however often the projector writes a fact. After a crash
// before its progress is recorded, it writes all of them again, which doubles a plain sum over
// the rows.
func TestHealthCountsEachAttemptOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, writer.Migrate(t.Context(), r.db))
	r.exec("CREATE TABLE summed (k UInt8, n SimpleAggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree ORDER BY k")
	r.exec("CREATE MATERIALIZED VIEW summing TO summed AS SELECT 1 AS k, count() AS n FROM attempts")
	now := int64(startMillis) / 3_600_000 * 3_600_000
	sent := func(ago time.Duration) domain.AttemptResult {
		return domain.AttemptResult{SentAtMillis: now - ago.Milliseconds(), StatusCode: 200}
	}
	good, bad := newStory(1), newStory(2)
	r.owned(good, bad)
	minute, hour := time.Minute, time.Hour
	r.append(
		good.created(0), good.created(1), good.created(2),
		good.attempted(0, 1, domain.StateWaiting, sent(2*minute)),
		good.attempted(0, 2, domain.StateDelivered, sent(minute)),
		good.attempted(1, 1, domain.StateDelivered, sent(5*hour)),
		good.attempted(2, 1, domain.StateDelivered, sent(100*hour)),
		bad.created(0), bad.created(1),
		bad.attempted(0, 1, domain.StateDelivered, sent(20*24*hour)),
		bad.attempted(1, 1, domain.StateWaiting, sent(3*minute)),
		bad.attempted(1, 2, domain.StateWaiting, sent(2*minute)))
	r.project(nil).finish2(r)
	h := r.history(0)
	ask := func(f readmodel.HealthFilter) map[string]domain.EndpointHealth {
		t.Helper()
		f.NowMillis = now
		by, err := h.Health(t.Context(), f)
		must(t, err)
		return by
	}
	check := func(when string) {
		t.Helper()
		by := ask(readmodel.HealthFilter{AccountID: testAccount})
		want := domain.EndpointHealth{
			Hour:              domain.AttemptCounts{Delivered: 1, Failed: 1},
			Day:               domain.AttemptCounts{Delivered: 2, Failed: 1},
			Week:              domain.AttemptCounts{Delivered: 3, Failed: 1},
			LastSuccessMillis: now - minute.Milliseconds(),
			LastFailureMillis: now - 2*minute.Milliseconds(),
		}
		want.Hours[22], want.Hours[18] = want.Hour, domain.AttemptCounts{Delivered: 1}
		if got := by[good.endpointID]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, not %+v", when, got, want)
		}
		down := by[bad.endpointID]
		if down.Week != (domain.AttemptCounts{Failed: 2}) ||
			down.LastSuccessMillis != now-(20*24*hour).Milliseconds() ||
			down.OldestPendingMillis != startMillis+1 ||
			down.State(domain.StatusActive, now) != domain.HealthDown {
			t.Errorf("%s: the other is %s: %+v", when, down.State(domain.StatusActive, now), down)
		}
		if n, err := h.EndpointsDown(t.Context(), now); err != nil || n != 1 {
			t.Errorf("%s: %d are down, %v", when, n, err)
		}
	}
	check("at first")
	r.exec("TRUNCATE TABLE projection_progress") // a crash before progress was recorded
	r.project(nil).finish2(r)
	if n := r.count("SELECT sum(n) FROM summed"); n != 14 {
		t.Fatalf("a sum over the written rows is %d, not 14: they were not written twice", n)
	}
	check("after a repeat")
	r.exec("OPTIMIZE TABLE attempt_counts FINAL")
	check("once merged")
	r.rebuiltAndVerified("attempt_counts", 10)
	check("once rebuilt")

	one := ask(readmodel.HealthFilter{
		AccountID: testAccount, EndpointIDs: []string{good.endpointID}, CountsOnly: true,
	})
	if len(one) != 1 || one[good.endpointID].Week.Delivered != 3 {
		t.Errorf("of one endpoint: %+v", one)
	}
	if none := ask(readmodel.HealthFilter{AccountID: otherAccount}); len(none) != 0 {
		t.Errorf("of another account: %+v", none)
	}
}

// Rows that only look pending because they are not merged yet must not hide deliveries that are.
// A delivery that was resent after its end must not be missed.
func TestTheOldestPendingIsPending(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	s := newStory(1)
	r.owned(s)
	run := r.project(nil)
	r.exec("SYSTEM STOP MERGES") // each fact keeps its own row
	const ended = 40
	for n := range ended + 2 {
		r.append(s.created(n))
	}
	r.awaitProjected()
	oldest := func(want int64) {
		t.Helper()
		by, err := r.history(0).Health(t.Context(), readmodel.HealthFilter{
			AccountID: testAccount, NowMillis: startMillis,
		})
		must(t, err)
		if got := by[s.endpointID].OldestPendingMillis; got != want {
			t.Errorf("the oldest pending event was created at %d, not %d", got, want)
		}
	}
	oldest(startMillis)
	testkit.Eventually(t, "the oldest pending event is read within half a second, too", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		by, err := r.history(0).Health(ctx, readmodel.HealthFilter{
			AccountID: testAccount, NowMillis: startMillis,
		})
		of := by[s.endpointID]
		return err == nil && !of.PendingUnknown && of.OldestPendingMillis == startMillis
	})
	for n := range ended {
		r.append(s.delivered(n, 1))
	}
	r.append(s.refused(ended, 1))
	r.awaitProjected()
	oldest(startMillis + ended)
	r.append(s.fact(domain.DeliveryRequeued{
		EventID: s.eventID(3), Run: 2, NextAttemptAtMillis: startMillis, Reason: domain.RequeueResend,
	}))
	r.awaitProjected()
	oldest(startMillis + 3)
	again := s.delivered(3, 2)
	body := again.Body.(domain.AttemptMade)
	body.Run = 2
	again.Body = body
	r.append(again, s.delivered(ended, 2),
		s.fact(domain.DeliveryCancelled{EventID: s.eventID(ended + 1), Reason: domain.CancelDeleted}))
	r.awaitProjected()
	oldest(0)
	run.finish(t)
}
