package projections_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func payment(id string, closedAtMillis int64) schemas.Message {
	p := domain.Payment{ID: id, To: "GWALLET", ClosedAtMillis: closedAtMillis}
	return schemas.EncodePaymentObserved(schemas.PaymentObserved{
		Payment:          p,
		ObservedAtMillis: startMillis,
	})
}

// The projector skips an invalid record. The previous row stays, later records are projected, and
// rebuild and verify-projection agree. It does not skip an invalid record in the journal.
func TestTheProjectorGoesOnBehindWhatIsNoRow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	endpoint := domain.Endpoint{
		ID:               s.endpointID,
		AccountID:        testAccount,
		EndpointSettings: domain.EndpointSettings{URL: "https://a"},
		Status:           domain.StatusActive,
		CreatedAtMillis:  startMillis,
	}
	watch := domain.Watch{
		ID:              "wat_1",
		AccountID:       testAccount,
		EndpointID:      s.endpointID,
		WalletAddress:   "GA",
		CreatedAtMillis: startMillis,
	}
	other := watch
	other.ID = "wat_2"
	r.appendRecord(schemas.TopicEndpoints, s.endpointID, schemas.EncodeEndpoint(endpoint))
	r.appendRecord(schemas.TopicWatches, "wat_1", schemas.EncodeWatch(watch))
	r.appendRecord(schemas.TopicPayments, "GWALLET", payment("1", startMillis))
	noise := schemas.Message{Type: "Watch", Version: "1", Value: []byte("\xff\xff")}
	dead := []kafka.Record{
		kafka.NewRecord(schemas.TopicEndpoints, s.endpointID, noise.Value, noise.EachHeader),
		kafka.NewRecord(schemas.TopicWatches, "wat_1", noise.Value, noise.EachHeader),
		kafka.NewRecord(schemas.TopicWatches, "wat_1", schemas.EncodeWatch(other).Value,
			schemas.EncodeWatch(other).EachHeader),
		kafka.NewRecord(schemas.TopicPayments, "GWALLET", noise.Value, noise.EachHeader),
		kafka.NewRecord(schemas.TopicPayments, "GWALLET", nil, payment("2", 0).EachHeader),
		kafka.NewRecord(schemas.TopicPayments, "GWALLET", payment("3", -1).Value,
			payment("3", -1).EachHeader),
	}
	must(t, r.producer.Append(t.Context(), dead...))
	r.appendRecord(schemas.TopicPayments, "GWALLET", payment("4", startMillis))
	r.append(s.created(1))
	var told atomic.Int64
	run := r.project(func(c *writer.ProjectorConfig) {
		c.OnDeadLetter = func(string) { told.Add(1) }
	})
	r.awaitProjected()
	as := func(when string) {
		t.Helper()
		for query, want := range map[string]int{
			"SELECT count() FROM endpoints FINAL WHERE url = 'https://a'":                          1,
			"SELECT count() FROM watches FINAL WHERE watch_id = 'wat_1' AND wallet_address = 'GA'": 1,
			"SELECT count() FROM watches FINAL":                                                    1,
			"SELECT count() FROM payments FINAL":                                                   2,
			"SELECT count() FROM events FINAL":                                                     1,
		} {
			if got := r.count(query); got != want {
				t.Errorf("%s: %s gives %d, not %d", when, query, got, want)
			}
		}
	}
	as("projected")
	if n := int(told.Load()); n != len(dead) {
		t.Errorf("told of %d dead letters, not %d", n, len(dead))
	}
	if n := r.deadLetters(); n != len(dead) {
		t.Errorf("%d dead letters, not %d", n, len(dead))
	}
	v, err := writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	if len(v.Differences) > 0 || v.LeftOut[schemas.TopicPayments] != 3 ||
		v.LeftOut[schemas.TopicWatches] != 2 || v.LeftOut[schemas.TopicEndpoints] != 1 {
		t.Errorf("verified: %+v", v)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	as("rebuilt")
	if n := r.deadLetters(); n != len(dead) {
		t.Errorf("after a rebuild there are %d dead letters, not %d", n, len(dead))
	}
	r.appendRecord(schemas.TopicJournal, s.endpointID,
		schemas.Message{Type: "AttemptMade", Version: "1", Value: []byte("\xff")})
	<-run.ended
	if run.err == nil || !strings.Contains(run.err.Error(), schemas.TopicJournal+"/") {
		t.Errorf("at a fact that cannot be read the projector ends with %v", run.err)
	}
}

func (r *rig) deadLetters() (n int) {
	r.t.Helper()
	ends, err := r.ends.Of(r.t.Context(), schemas.TopicDeadLetters)
	must(r.t, err)
	for _, end := range ends {
		n += int(end)
	}
	return n
}

// A backfill may find payments from eleven years in one block.
func TestPaymentsOfManyYearsInOneBlock(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const months = 134
	for n := range months {
		at := time.Date(2015, time.October, 1, 0, 0, 0, 0, time.UTC).AddDate(0, n, 0)
		r.appendRecord(schemas.TopicPayments, "GWALLET", payment(fmt.Sprint(n), at.UnixMilli()))
	}
	r.project(nil)
	r.awaitProjected()
	if n := r.count("SELECT count() FROM payments FINAL"); n != months {
		t.Errorf("%d payments of %d", n, months)
	}
}
