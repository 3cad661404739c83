package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestHistoryWaitsForWhatWasWritten(t *testing.T) {
	t.Parallel()
	r := newRigAlone(t)
	run := r.project(func(c *writer.ProjectorConfig) { c.BlockWait = 300 * time.Millisecond })
	reader := r.history(time.Hour)
	s := newStory(1)
	for n := range 5 {
		r.append(s.created(n), s.delivered(n, 1))
		record, err := reader.Event(t.Context(), testAccount, s.eventID(n))
		must(t, err)
		if record.State != domain.StateDelivered || len(record.Attempts) != 1 ||
			record.Sequence != uint64(n+1) {
			t.Errorf("the record is %+v", record)
		}
	}
	for _, state := range []domain.DeliveryState{"", domain.StateDelivered} {
		page, _, err := reader.Events(t.Context(),
			readmodel.EventFilter{AccountID: testAccount, State: state}, nil, 5)
		must(t, err)
		for i, record := range page {
			if record.Sequence != uint64(5-i) {
				t.Errorf("in a list of %q: %+v", state, record)
			}
		}
	}

	// An event that does not exist is not found, without waiting for the full timeout.
	_, err := reader.Event(t.Context(), testAccount, s.eventID(99))
	isFault(t, err, readmodel.ErrNotFound)
	_, err = reader.Event(t.Context(), otherAccount, s.eventID(1))
	isFault(t, err, readmodel.ErrNotFound)

	// A journal that ends with control records and an aborted fact also counts as read to its
	// end.
	r.transact(kgo.TryCommit, s.created(50))
	r.transact(kgo.TryAbort, s.created(51))
	record, err := reader.Event(t.Context(), testAccount, s.eventID(50))
	must(t, err)
	if record.State != domain.StateQueued || record.NextAttemptAtMillis == 0 {
		t.Errorf("the record is %+v", record)
	}
	_, err = reader.Event(t.Context(), testAccount, s.eventID(51))
	isFault(t, err, readmodel.ErrNotFound)

	// Without a projector, nobody knows whether it exists.
	run.finish(t)
	r.append(s.created(100))
	short := r.history(200 * time.Millisecond)
	_, err = short.Event(t.Context(), testAccount, s.eventID(100))
	isFault(t, err, readmodel.ErrBehind)
	if _, err := short.Event(t.Context(), testAccount, s.eventID(1)); err != nil {
		t.Errorf("what is there is not read while the history is behind: %v", err)
	}
	blind := history.New(history.Config{
		DB:   r.db,
		Ends: func(context.Context) (map[int32]int64, error) { return nil, errors.New("no broker") },
	})
	_, err = blind.Event(t.Context(), testAccount, s.eventID(100))
	isFault(t, err, readmodel.ErrBehind)
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = reader.Event(hurried, testAccount, s.eventID(100))
	isFault(t, err, context.DeadlineExceeded)

	must(t, r.engine.Stop())
	_, err = reader.Event(t.Context(), testAccount, s.eventID(1))
	isFault(t, err, readmodel.ErrUnavailable)
}

// An attempt that is in the tables before its delivery's new state is omitted, so that the parts
// of a record belong together.
func TestStateAndAttemptsBelongTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	run := r.project(nil)
	s := newStory(1)
	r.append(s.created(1), s.refused(1, 1))
	r.awaitProjected()
	run.finish(t)
	// A block that was interrupted after its first table.
	r.exec("INSERT INTO attempts (event_id, number, run, sent_at, status_code, state, version) VALUES ('" + s.eventID(
		1,
	) + "', 2, 1, now64(3), 200, 'DELIVERED', 3)")
	record, err := r.history(0).Event(t.Context(), testAccount, s.eventID(1))
	must(t, err)
	if record.State != domain.StateWaiting || len(record.Attempts) != 1 {
		t.Errorf("the record is %+v", record)
	}
}

func (r *rig) transact(end kgo.TransactionEndTry, facts ...domain.Fact) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.TransactionalID(r.cluster.Prefix+"test"),
		kgo.TransactionTimeout(10*time.Second))
	must(r.t, err)
	defer client.Close()
	must(r.t, client.BeginTransaction())
	for _, f := range facts {
		m := schemas.EncodeFact(f)
		record := &kgo.Record{
			Topic: r.cluster.Prefix + schemas.TopicJournal,
			Key:   []byte(f.Aggregate),
			Value: m.Value,
		}
		for name, value := range m.EachHeader {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
		}
		must(r.t, client.ProduceSync(r.t.Context(), record).FirstErr())
		must(r.t, kafka.AwaitStored(r.t.Context(), client, []*kgo.Record{record}))
	}
	must(r.t, client.EndTransaction(r.t.Context(), end))
}
