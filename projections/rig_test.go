// Package projections_test tests package writer and package history together: history reads what
// writer wrote. The tests share one ClickHouse engine.
package projections_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(projectorChild())
	}
	clickhouse.MaybeChild()
	brokertest.Main(clickhousetest.Sharing(m))
}

const (
	testPartitions = 4
	eventualMax    = 2 * brokertest.Patience // tests of other packages may run at the same time
	readMax        = 15 * time.Second        // for a lookup, for the same reason
	testAccount    = "acc_00000000000000000000000001"
	otherAccount   = "acc_00000000000000000000000002"
	startMillis    = 1_790_000_000_000
)

type rig struct {
	t        testing.TB
	cluster  kafka.Cluster
	engine   *clickhouse.Engine // nil if other tests share it
	dsn      string
	db       *writer.DB
	sql      driver.Conn
	producer *kafka.Producer
	ends     *kafka.Ends
	logger   *slog.Logger
}

// newRig returns a rig with its own database on the shared engine.
func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOn(t, clickhousetest.Database(t))
}

// newRigAlone returns a rig with its own engine, for tests that kill, stop or fill it, or read as
// the reader, who sees only one database.
func newRigAlone(t testing.TB) *rig {
	t.Helper()
	return newRigOf(t, clickhousetest.Start(t))
}

func newRigOf(t testing.TB, engine *clickhouse.Engine) *rig {
	t.Helper()
	r := newRigOn(t, engine.DSN())
	r.engine = engine
	return r
}

func newRigOn(t testing.TB, dsn string) *rig {
	t.Helper()
	b := brokertest.Start(t)
	return newRigAt(t, dsn, b.Replicas(), b.Cluster(nil))
}

func newRigAt(t testing.TB, dsn string, replicas int16, at kafka.Cluster) *rig {
	t.Helper()
	r := &rig{t: t, logger: slog.New(slog.DiscardHandler), dsn: dsn, cluster: at}
	r.cluster.ClientID, r.cluster.Logger = "test", r.logger
	var topics []kafka.TopicSpec
	for _, name := range append(writer.Topics(), schemas.TopicDeadLetters) {
		topics = append(topics, kafka.TopicSpec{
			Name:              name,
			Partitions:        testPartitions,
			ReplicationFactor: replicas,
		})
	}
	must(t, r.cluster.EnsureTopics(t.Context(), topics))
	var err error
	r.producer, err = r.cluster.NewProducer()
	must(t, err)
	t.Cleanup(r.producer.Close)
	r.ends, err = r.cluster.NewEnds()
	must(t, err)
	t.Cleanup(r.ends.Close)
	r.db = r.open(r.dsn)
	opts, err := driver.ParseDSN(r.dsn)
	must(t, err)
	r.sql, err = driver.Open(opts)
	must(t, err)
	t.Cleanup(func() { must(t, r.sql.Close()) })
	return r
}

func (r *rig) open(dsn string) *writer.DB {
	r.t.Helper()
	db, err := writer.Open(dsn)
	must(r.t, err)
	r.t.Cleanup(func() { must(r.t, db.Close()) })
	return db
}

// openOther opens another database, which does not exist yet.
func (r *rig) openOther(name string) *writer.DB {
	r.t.Helper()
	return r.open(r.dsn + "_" + name)
}

type running struct {
	*writer.Projector
	stop  context.CancelFunc
	ended chan struct{}
	err   error // valid once ended is closed
}

// project starts a projector. change may modify its settings, and may be nil.
func (r *rig) project(change func(*writer.ProjectorConfig)) *running {
	r.t.Helper()
	cfg := writer.ProjectorConfig{
		DB:        r.db,
		Cluster:   r.cluster,
		Logger:    r.logger,
		Now:       time.Now,
		BlockWait: 20 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	p, err := writer.NewProjector(cfg)
	must(r.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	run := &running{Projector: p, stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(run.ended)
		run.err = p.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-run.ended
		p.Close()
	})
	return run
}

func (run *running) finish(t testing.TB) {
	t.Helper()
	run.stop()
	<-run.ended
	must(t, run.err)
}

// history returns a history whose reads wait for the projection for the given time, or for
// eventualMax if it is 0.
func (r *rig) history(wait time.Duration) *history.History {
	return r.historyOf(r.db, cmp.Or(wait, eventualMax), readMax)
}

func (r *rig) historyOf(db *writer.DB, wait, read time.Duration) *history.History {
	return history.New(history.Config{
		DB:      db,
		Ends:    r.journalEnds,
		WaitMax: wait,
		ReadMax: read,
	})
}

func (r *rig) journalEnds(ctx context.Context) (map[int32]int64, error) {
	return r.ends.Of(ctx, schemas.TopicJournal)
}

func (r *rig) journalAt() []int64 {
	r.t.Helper()
	ends, err := r.journalEnds(r.t.Context())
	must(r.t, err)
	at := make([]int64, testPartitions)
	for p, end := range ends {
		at[p] = end
	}
	return at
}

// restart moves the tables to new topics, and returns a rig with these topics.
func (r *rig) restart() *rig {
	r.t.Helper()
	must(r.t, writer.Restart(r.t.Context(), r.db, r.journalAt()))
	other := newRigOn(r.t, r.dsn)
	other.engine = r.engine
	return other
}

func (r *rig) paymentsEnds(ctx context.Context) (map[int32]int64, error) {
	return r.ends.Of(ctx, schemas.TopicPayments)
}

// rebuiltAndVerified checks that a rebuild does not change the tables and that a verification
// finds no difference. The given table must have the given number of rows.
func (r *rig) rebuiltAndVerified(table string, rows uint64) {
	r.t.Helper()
	live := r.checksum()
	must(r.t, writer.Rebuild(r.t.Context(), r.refold(nil)))
	if rebuilt := r.checksum(); rebuilt != live {
		r.t.Errorf("rebuilt: %s, live: %s", rebuilt, live)
	}
	found, err := writer.Verify(r.t.Context(), r.refold(nil))
	must(r.t, err)
	if found.Rows[table] != rows || len(found.Differences) > 0 {
		r.t.Errorf("verified: %+v", found)
	}
}

func (r *rig) append(facts ...domain.Fact) {
	r.t.Helper()
	records := make([]kafka.Record, len(facts))
	for i, f := range facts {
		m := schemas.EncodeFact(f)
		records[i] = kafka.NewRecord(schemas.TopicJournal, f.Aggregate, m.Value, m.EachHeader)
	}
	must(r.t, r.producer.Append(r.t.Context(), records...))
}

// awaitProjected waits until every table has all records of its topic.
func (r *rig) awaitProjected() {
	r.t.Helper()
	lag, err := writer.NewLag(r.db, r.cluster)
	must(r.t, err)
	defer lag.Close()
	testkit.EventuallyNil(r.t, "the topics are projected", func() error {
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		records, err := lag.CatchUp(ctx)
		if err == nil && records > 0 {
			err = fmt.Errorf("%d records are not", records)
		}
		return err
	})
}

func (r *rig) count(query string, args ...any) int {
	r.t.Helper()
	var n uint64
	if err := r.sql.QueryRow(r.t.Context(), query, args...).Scan(&n); err != nil {
		r.t.Fatalf("%s: %v", query, err)
	}
	return int(n)
}

func (r *rig) exec(statement string) {
	r.t.Helper()
	must(r.t, r.sql.Exec(r.t.Context(), statement))
}

// checksum covers all rows as a reader sees them, including their positions.
func (r *rig) checksum() string { return r.checksumOf(r.db.Name()) }

func (r *rig) checksumOf(database string) string {
	r.t.Helper()
	var sums []string
	for _, table := range writer.Tables() {
		columns := "*"
		switch table { // the order within sets is undefined
		case "deliveries":
			columns = "* REPLACE (arraySort(attempt_times) AS attempt_times)"
		case "attempt_counts":
			columns = "* REPLACE (arraySort(bitmapToArray(delivered)) AS delivered, " +
				"arraySort(bitmapToArray(failed)) AS failed)"
		}
		var n, sum uint64
		query := "SELECT count(), sum(sipHash64(toString(tuple(*)))) FROM (SELECT " + columns + " FROM " + database + "." + table + " FINAL)"
		if err := r.sql.QueryRow(r.t.Context(), query).Scan(&n, &sum); err != nil {
			r.t.Fatalf("%s: %v", query, err)
		}
		sums = append(sums, fmt.Sprintf("%s %d %x", table, n, sum))
	}
	return strings.Join(sums, ", ")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isFault(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the fault is %v, not %v", err, want)
	}
}

// story creates the facts of one endpoint, with consecutive versions.
type story struct {
	endpointID string
	version    uint64
	sequence   uint64 // of the last delivery
}

func newStory(n int) *story {
	return &story{endpointID: domain.DeriveID(domain.EndpointPrefix, fmt.Sprint(n))}
}

func (s *story) fact(body domain.FactBody) domain.Fact {
	s.version++
	return domain.Fact{
		Aggregate: s.endpointID,
		Version:   s.version,
		AtMillis:  startMillis + int64(s.version)*10,
		Body:      body,
	}
}

func (s *story) eventID(n int) string {
	return domain.DeriveID(domain.EventPrefix, s.endpointID, fmt.Sprint(n))
}

func (s *story) created(n int) domain.Fact {
	id := s.eventID(n)
	s.sequence++
	return s.fact(domain.DeliveryCreated{
		Sequence:      s.sequence,
		AccountID:     testAccount,
		EndpointID:    s.endpointID,
		WatchID:       "wat_00000000000000000000000001",
		WalletAddress: "GWALLET",
		Event: domain.Event{
			ID:              id,
			Type:            domain.PaymentReceived,
			CreatedAtMillis: startMillis + int64(n),
			Body:            []byte(`{"id":"` + id + `","note":"` + strings.Repeat("x", 800) + `"}`),
		},
	})
}

func (s *story) attempted(
	n, number int, state domain.DeliveryState, r domain.AttemptResult,
) domain.Fact {
	made := domain.AttemptMade{
		EventID:   s.eventID(n),
		EventType: domain.PaymentReceived,
		Number:    number,
		Run:       1,
		Result:    r,
		State:     state,
	}
	if state == domain.StateWaiting {
		made.NextAttemptAtMillis = r.SentAtMillis + 30_000
	}
	return s.fact(made)
}

func (s *story) delivered(n, number int) domain.Fact {
	return s.attempted(n, number, domain.StateDelivered,
		domain.AttemptResult{
			SentAtMillis:   startMillis + int64(n)*7,
			DurationMillis: 12,
			StatusCode:     200,
			ResponseBody:   []byte("ok"),
		})
}

func (s *story) refused(n, number int) domain.Fact {
	return s.attempted(n, number, domain.StateWaiting,
		domain.AttemptResult{
			SentAtMillis:   startMillis + int64(n)*7,
			DurationMillis: 10_000,
			Error:          domain.AttemptTimeout,
			ErrorDetail:    "connect: timed out",
		})
}
