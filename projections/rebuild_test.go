package projections_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func (r *rig) refold(change func(*writer.RefoldConfig)) writer.RefoldConfig {
	cfg := writer.RefoldConfig{DB: r.db, Cluster: r.cluster, Logger: r.logger, Now: time.Now}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

func (r *rig) appendRecord(topic, key string, m schemas.Message) {
	r.t.Helper()
	must(r.t, r.producer.Append(r.t.Context(), kafka.NewRecord(topic, key, m.Value, m.EachHeader)))
}

func (r *rig) world(endpoints int) {
	r.t.Helper()
	for n := range endpoints {
		id := newStory(n).endpointID
		r.appendRecord(schemas.TopicEndpoints, id, schemas.EncodeEndpoint(domain.Endpoint{
			ID:               id,
			AccountID:        testAccount,
			Version:          1,
			EndpointSettings: domain.EndpointSettings{URL: "https://example.com/" + fmt.Sprint(n)},
			Status:           domain.StatusActive,
			CreatedAtMillis:  startMillis,
			UpdatedAtMillis:  startMillis,
		}))
		watch := domain.DeriveID(domain.WatchPrefix, fmt.Sprint(n))
		r.appendRecord(schemas.TopicWatches, watch, schemas.EncodeWatch(domain.Watch{
			ID:            watch,
			AccountID:     testAccount,
			Version:       1,
			WalletAddress: "GWALLET",
			Label:         "till " + fmt.Sprint(n),
			EndpointID:    id,
			Rules: domain.Rules{
				Assets: []domain.Asset{domain.NativeAsset(), {Code: "USDC", Issuer: "GISSUER"}},
				Amount: domain.AmountRule{Kind: "any"},
				Memo:   domain.MemoRule{Kind: "any"},
			},
			EventTypes:      []domain.EventType{domain.PaymentReceived},
			CreatedAtMillis: startMillis,
			UpdatedAtMillis: startMillis,
		}))
		p := domain.Payment{
			ID:             fmt.Sprint(4096 * (n + 1)),
			TxHash:         strings.Repeat("ab", 32),
			Ledger:         uint32(100 + n),
			ClosedAtMillis: startMillis,
			Operation:      "payment",
			From:           "GSENDER",
			To:             "GWALLET",
			Asset:          domain.NativeAsset(),
			AmountStroops:  12_500_000 + int64(n),
			Memo:           domain.Memo{Type: domain.MemoText, Raw: []byte("order")},
		}
		for again := range 2 { // as if a ledger was read twice
			r.appendRecord(schemas.TopicPayments, p.To,
				schemas.EncodePaymentObserved(schemas.PaymentObserved{
					Payment:          p,
					ObservedAtMillis: startMillis + int64(again),
				}))
			for i, m := range movesOf(n) {
				r.appendRecord(schemas.TopicPayments, m.Wallet,
					schemas.EncodeBalanceMoved(schemas.BalanceMoved{
						Move:             m,
						ObservedAtMillis: startMillis + int64(again) + int64(i),
					}))
			}
		}
	}
}

// movesOf returns the balance moves in the n-th ledger of world: a fee, a payment, and shares in
// a pool.
func movesOf(n int) []domain.BalanceMove {
	move := domain.BalanceMove{
		Wallet:         "GWALLET",
		Ledger:         uint32(100 + n),
		ClosedAtMillis: startMillis,
		TxHash:         strings.Repeat("ab", 32),
		Asset:          domain.NativeAsset(),
	}
	fee, paid, shares := move, move, move
	fee.ID, fee.Kind, fee.Place = fmt.Sprintf("mov_%da", n), domain.MoveFee, 1
	fee.BeforeStroops, fee.AfterStroops = int64(1000+10*n), int64(1000+10*n-5)
	paid.ID, paid.Kind, paid.Place = fmt.Sprintf("mov_%db", n), domain.MovePaymentIn, 1<<63
	paid.BeforeStroops, paid.AfterStroops = fee.AfterStroops, fee.AfterStroops+15
	paid.Operation, paid.PaymentIDs = 1, []string{fmt.Sprint(4096 * (n + 1))}
	shares.ID, shares.Kind, shares.Place = fmt.Sprintf("mov_%dc", n), domain.MovePool, 2
	shares.Asset, shares.Pool = domain.Asset{}, strings.Repeat("ef", 32)
	shares.BeforeStroops, shares.AfterStroops = int64(n), int64(n+1)
	return []domain.BalanceMove{fee, paid, shares}
}

// Moves that form a chain are explained, whatever the order of their records. A missing move
// shows at its place, and only there.
func TestAMissingMoveShows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(5)
	r.project(nil)
	r.awaitProjected()
	if n := r.count("SELECT count() FROM balance_moves FINAL WHERE change_stroops != 0"); n != 15 {
		t.Errorf("there are %d moves, not 15", n)
	}
	if n := r.count("SELECT count() FROM unexplained_moves"); n != 0 {
		t.Errorf("%d moves are unexplained", n)
	}
	late := movesOf(7)
	for _, m := range late {
		r.appendRecord(schemas.TopicPayments, m.Wallet,
			schemas.EncodeBalanceMoved(schemas.BalanceMoved{Move: m, ObservedAtMillis: startMillis}))
	}
	r.awaitProjected()
	for query, want := range map[string]int{
		"SELECT count() FROM unexplained_moves":                                                    2,
		"SELECT toUInt64(unexplained_stroops) FROM unexplained_moves WHERE move_id = 'mov_7a'":     20,
		"SELECT toUInt64(unexplained_stroops) FROM unexplained_moves WHERE balance LIKE 'pool:%'":  2,
		"SELECT count() FROM balance_moves FINAL WHERE payment_ids = ['4096'] AND balance = 'XLM'": 1,
		"SELECT toUInt64(change * 10000000) FROM balance_moves FINAL WHERE move_id = 'mov_7b'":     15,
	} {
		if got := r.count(query); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
	}
}

// twinChecksum returns the checksum of a database that a single, undisturbed projector filled
// from the same topics.
func (r *rig) twinChecksum() string {
	r.t.Helper()
	twin := r.openOther("twin")
	run := r.project(func(c *writer.ProjectorConfig) { c.DB = twin })
	testkit.EventuallyNil(r.t, "the twin is made", func() error {
		if lag, err := run.Lag(r.t.Context()); err != nil || lag > 0 ||
			len(run.Status().Partitions) < testPartitions {
			return fmt.Errorf("%d records are not there, %v", lag, err)
		}
		return nil
	})
	run.finish(r.t)
	return r.checksumOf(twin.Name())
}

// load appends the facts of events until it is stopped. stop returns the number of events.
func (r *rig) load() (stop func() int) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan int)
	go func() {
		n := 0
		stories := []*story{newStory(0), newStory(1), newStory(2), newStory(3), newStory(4)}
		tick := time.NewTicker(3 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			s := stories[n%len(stories)]
			r.append(s.created(n), s.refused(n, 1), s.delivered(n, 2))
			n++
			<-tick.C
		}
		ended <- n
	}()
	return func() int {
		cancel()
		return <-ended
	}
}

func TestRebuildWhileFactsCome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(5)
	run := r.project(nil)
	stop := r.load()
	testkit.EventuallyNil(t, "some facts are projected", func() error {
		if run.Status().Facts < 500 {
			return errors.New("too few")
		}
		return nil
	})
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	// All tables are dropped while the projector runs, and then rebuilt.
	for _, table := range writer.Tables() {
		r.exec("DROP TABLE " + table + " SYNC")
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	must(t,
		writer.Rebuild(t.Context(),
			r.refold(func(c *writer.RefoldConfig) { c.Tables = []string{"attempts"} })))
	events := stop()
	r.awaitProjected()
	got := r.checksum()
	run.finish(t)
	if want := r.twinChecksum(); got != want {
		t.Errorf("the rebuilt tables are\n%s\nand those of the twin\n%s", got, want)
	}
	n := r.count("SELECT count() FROM deliveries FINAL WHERE state = 'DELIVERED' AND attempts = 2 AND notEmpty(attempt_times)")
	if n != events {
		t.Errorf("%d events are delivered, not %d", n, events)
	}
	if n := r.count("SELECT count() FROM payments FINAL WHERE amount > 1.25 AND observed_at = fromUnixTimestamp64Milli(" + fmt.Sprint(
		startMillis,
	) + ")"); n != 4 {
		t.Errorf("%d of 5 payments are more than 1.25 and as they were observed first, not 4", n)
	}
	if n := r.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND (name LIKE '%rebuild' OR name LIKE '%exchange')"); n != 0 {
		t.Errorf("%d tables of the rebuilds are left", n)
	}
}

// The guard may rebuild while an operator rebuilds or verifies. The second must wait for the
// first, neither may fail or lose rows, and a verification must find no difference.
func TestRebuildsTakeTurns(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]func(context.Context, writer.RefoldConfig) error{
		"rebuild": writer.Rebuild,
		"verification": func(ctx context.Context, cfg writer.RefoldConfig) error {
			v, err := writer.Verify(ctx, cfg)
			if len(v.Differences) > 0 {
				t.Errorf("the verification found %+v", v.Differences)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { takeTurns(t, second) })
	}
}

func takeTurns(t *testing.T, second func(context.Context, writer.RefoldConfig) error) {
	r := newRig(t)
	r.world(3)
	run := r.project(nil)
	defer run.finish(t)
	r.awaitProjected()
	want := r.checksum()
	began, finish := make(chan struct{}), make(chan struct{})
	var once, waits sync.Once
	var reports atomic.Int64
	ended := make(chan error, 2)
	go func() {
		ended <- writer.Rebuild(t.Context(), r.refold(func(c *writer.RefoldConfig) {
			c.Tables = []string{"attempts"}
			c.Report = func(writer.RefoldProgress) {
				once.Do(func() { close(began); <-finish })
			}
		}))
	}()
	<-began
	go func() {
		ended <- second(t.Context(), r.refold(func(c *writer.RefoldConfig) {
			c.Report = func(writer.RefoldProgress) {
				reports.Add(1)
				waits.Do(func() { close(finish) }) // it did not wait
			}
			c.Logger = slog.New(slog.NewTextHandler(writes(func(line string) {
				if strings.Contains(line, "waiting for another rebuild or verification") {
					waits.Do(func() { close(finish) })
				}
			}), nil))
		}))
	}()
	<-finish
	if n := reports.Load(); n != 0 {
		t.Errorf("the second reported %d times before the first had ended", n)
	}
	must(t, <-ended)
	must(t, <-ended)
	if got := r.checksum(); got != want {
		t.Errorf("the rebuilt tables are\n%s\nand were\n%s", got, want)
	}
}

type writes func(string)

func (w writes) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}

// A rebuild does not wait for a query that reads a table. It drops the table anyway and logs the
// query, which continues.
func TestARebuildNamesTheQueriesThatReadFormerTables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	run := r.project(nil)
	defer run.finish(t)
	r.awaitProjected()
	reading, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- r.sql.Exec(reading, "SELECT count() FROM numbers(1000000000000000) AS n "+
			"CROSS JOIN watches AS w WHERE sipHash64(n.number, w.watch_id) = 1")
	}()
	const reads = "SELECT count() FROM system.processes WHERE current_database = currentDatabase() " +
		"AND query LIKE '%CROSS JOIN watches%' AND query_id != queryID()"
	testkit.Eventually(t, "the query runs", func() bool { return r.count(reads) == 1 })
	var lines []string
	must(t, writer.Rebuild(t.Context(), r.refold(func(c *writer.RefoldConfig) {
		c.Logger = slog.New(slog.NewTextHandler(writes(func(line string) {
			lines = append(lines, line)
		}), nil))
	})))
	if text := strings.Join(lines, ""); !strings.Contains(text, "a query still reads the former") ||
		!strings.Contains(text, "CROSS JOIN watches") {
		t.Errorf("the rebuild says\n%s", text)
	}
	n := r.count("SELECT count() FROM system.tables WHERE database = currentDatabase() " +
		"AND (name LIKE '%rebuild' OR name LIKE '%exchange')")
	if n != 0 || r.count(reads) != 1 {
		t.Errorf("%d tables are left, and %d queries run", n, r.count(reads))
	}
	stop()
	<-ended
}

func TestDroppedTableIsRefilled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	s := newStory(1)
	for n := range 30 {
		r.append(s.created(n), s.delivered(n, 1))
	}
	r.project(nil)
	r.awaitProjected()
	want := r.checksum()
	r.exec("DROP TABLE attempts SYNC")
	r.exec("DROP TABLE watches SYNC")
	r.append(domain.Fact{
		Aggregate: s.endpointID,
		Version:   1000,
		Body:      domain.CommandHandled{CommandID: "cmd_x"},
	})
	r.appendRecord(schemas.TopicPayments, "GWALLET",
		schemas.EncodePaymentObserved(schemas.PaymentObserved{
			Payment:          domain.Payment{ID: "4096", To: "GWALLET", ClosedAtMillis: startMillis},
			ObservedAtMillis: startMillis + 99,
		}))
	r.awaitProjected()
	if got := r.checksum(); got != want {
		t.Errorf("the tables are\n%s\nand were\n%s", got, want)
	}
}

func TestInterruptedRebuildGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	s := newStory(1)
	const events = 4000
	for from := 0; from < events; from += 1000 {
		var facts []domain.Fact
		for n := from; n < from+1000; n++ {
			facts = append(facts, s.created(n), s.delivered(n, 1))
		}
		r.append(facts...)
	}
	r.project(nil)
	r.awaitProjected()
	want := r.checksum()
	interrupt := func(tables ...string) (done int64) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := writer.Rebuild(ctx, r.refold(func(c *writer.RefoldConfig) {
			c.Tables = tables
			c.Report = func(p writer.RefoldProgress) {
				if p.Done > 0 {
					done = p.Done
					cancel()
				}
			}
		}))
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("the interrupted rebuild ended with %v", err)
		}
		return done
	}
	done := interrupt()
	if got := r.checksum(); got != want {
		t.Fatalf("an interrupted rebuild changed the live tables to\n%s", got)
	}
	first := int64(-1) // number of records that the rebuild does not need to read again
	must(t, writer.Rebuild(t.Context(), r.refold(func(c *writer.RefoldConfig) {
		c.Report = func(p writer.RefoldProgress) {
			if first < 0 {
				first = p.Done
			}
		}
	})))
	if first < done {
		t.Errorf("the rebuild did not go on: it began at %d records, where the interrupted one had come to %d", first, done)
	}
	// The tables of another rebuild are dropped.
	interrupt("payments", "deliveries")
	must(t,
		writer.Rebuild(t.Context(),
			r.refold(func(c *writer.RefoldConfig) { c.Tables = []string{"deliveries"} })))
	r.awaitProjected()
	if got := r.checksum(); got != want {
		t.Errorf("the tables are\n%s\nand were\n%s", got, want)
	}
	n := r.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE '%\\\\_rebuild'")
	if n != 0 {
		t.Errorf("%d tables of the rebuilds are left", n)
	}
}

func TestFailedRebuildLeavesTheLiveTables(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	for n := range 20 {
		r.append(s.created(n), s.delivered(n, 1))
	}
	run := r.project(nil)
	r.awaitProjected()
	run.finish(t)
	want := r.checksum()
	r.appendRecord(schemas.TopicJournal, s.endpointID,
		schemas.Message{Type: "FromTheFuture", Version: "1", Value: []byte("?")})
	err := writer.Rebuild(t.Context(), r.refold(nil))
	if err == nil || !strings.Contains(err.Error(), "FromTheFuture") {
		t.Fatalf("the rebuild ended with %v", err)
	}
	if got := r.checksum(); got != want {
		t.Errorf("the live tables are\n%s\nand were\n%s", got, want)
	}
	_, err = writer.Verify(t.Context(), r.refold(nil))
	if err == nil || !strings.Contains(err.Error(), "FromTheFuture") {
		t.Errorf("the verification ended with %v", err)
	}
	if err := writer.Rebuild(t.Context(),
		r.refold(func(c *writer.RefoldConfig) { c.Tables = []string{"atempts"} })); err == nil ||
		!strings.Contains(err.Error(), `no table "atempts"`) {
		t.Errorf("a table that there is not gives %v", err)
	}
}

func TestRebuildOfATopicThatLostItsBeginning(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	for n := range 20 {
		r.append(s.created(n), s.refused(n, 1))
	}
	r.project(nil)
	r.awaitProjected()
	ends, err := r.journalEnds(t.Context())
	must(t, err)
	var partition int32
	for p, end := range ends {
		if end > 0 {
			partition = p
		}
	}
	must(t, r.cluster.WithAdmin(t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		offsets := make(kadm.Offsets)
		offsets.AddOffset(r.cluster.Prefix+schemas.TopicJournal, partition, 15, -1)
		deleted, err := admin.DeleteRecords(ctx, offsets)
		return errors.Join(err, deleted.Error())
	}))
	for n := range 20 {
		r.append(s.delivered(n, 2))
	}
	r.awaitProjected()
	want := r.checksum()
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	r.awaitProjected()
	if got := r.checksum(); got != want {
		t.Errorf("the tables are\n%s\nand were\n%s", got, want)
	}

	// A verification compares what the topic still has: deliveries created after the cut.
	for n := 20; n < 23; n++ {
		r.append(s.created(n), s.delivered(n, 1))
	}
	r.awaitProjected()
	found, err := writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	if len(found.Differences) > 0 || found.Rows["deliveries"] < 3 || found.Former["deliveries"] < 7 ||
		found.Rows["deliveries"]+found.Former["deliveries"] != 23 {
		t.Errorf("found %+v", found)
	}
	r.exec("ALTER TABLE events UPDATE memo = 'x' WHERE event_id = '" + s.eventID(22) +
		"' SETTINGS mutations_sync = 2")
	found, err = writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	if len(found.Differences) != 1 || len(found.Differences[0].Examples) != 1 {
		t.Errorf("with a damaged row, it found %+v", found.Differences)
	}
}

func TestVerifyNamesWhatDiffers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.world(3)
	s, other := newStory(1), newStory(2)
	for n := range 40 {
		r.append(s.created(n), s.refused(n, 1), other.created(n), other.delivered(n, 1))
	}
	r.project(nil)
	r.awaitProjected()
	stop := r.load() // while all of this runs
	found, err := writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	stop()
	if len(found.Differences) > 0 || found.Rows["events"] < 80 || found.Rows["payments"] != 3 {
		t.Fatalf("of undisturbed tables it found %+v", found)
	}
	r.awaitProjected()
	r.exec("DELETE FROM attempts WHERE event_id = '" + s.eventID(7) + "' SETTINGS mutations_sync = 2")
	r.exec("ALTER TABLE payments UPDATE amount_stroops = 1 WHERE payment_id = '8192' SETTINGS mutations_sync = 2")
	r.exec("INSERT INTO deliveries (event_id, account_id, endpoint_id, created_at, version, fact_state, partition, offset) SELECT event_id, account_id, endpoint_id, created_at, 10000, 'FAILED', partition, 0 FROM deliveries FINAL WHERE event_id = '" + other.eventID(
		3,
	) + "'")
	found, err = writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	named := make(map[string][]string)
	for _, d := range found.Differences {
		named[d.Table] = append(named[d.Table], d.Examples...)
	}
	if len(found.Differences) != 3 ||
		!slices.Equal(named["attempts"], []string{s.eventID(7) + "/" + s.endpointID + "/1"}) ||
		!slices.Equal(named["payments"], []string{"8192"}) ||
		!slices.Equal(named["deliveries"], []string{other.eventID(3) + "/" + other.endpointID}) {
		t.Fatalf("it found %+v", found.Differences)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	r.awaitProjected()
	found, err = writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	if len(found.Differences) > 0 {
		t.Fatalf("after a rebuild it found %+v", found.Differences)
	}
}

// A broker that returned aborted records where its responses were cut may have filled a history
// with them. Verification reports these records. A rebuild, which fetches in many pieces, must
// not read them again.
func TestAHistoryWithAbortedFactsIsNamedAndHealed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := newStory(1)
	r.append(s.created(0))
	cut := *s // the partition's next owner decides again from this version on
	r.transact(kgo.TryAbort, cut.created(7_000), cut.created(7_001))
	for n := range 3_000 {
		r.append(s.created(n + 1))
	}
	r.project(nil)
	r.awaitProjected()
	r.exec("INSERT INTO events SELECT * REPLACE ('" + s.eventID(7_000) +
		"' AS event_id) FROM events LIMIT 1")
	found, err := writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	wrong := []string{s.eventID(7_000) + "/" + s.endpointID}
	if len(found.Differences) != 1 || !slices.Equal(found.Differences[0].Examples, wrong) {
		t.Fatalf("it found %+v", found.Differences)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	r.awaitProjected()
	if n := r.count("SELECT count() FROM events FINAL"); n != 3_001 {
		t.Errorf("rebuilt with %d events", n)
	}
	found, err = writer.Verify(t.Context(), r.refold(nil))
	must(t, err)
	if len(found.Differences) > 0 {
		t.Errorf("after a rebuild it found %+v", found.Differences)
	}
}

// A projector that starts before ClickHouse has its database must set the retention once it has
// created the tables.
func TestAProjectorSetsTheRetentionOfTheTablesItMakes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	month := 30 * 24 * time.Hour
	r.project(func(c *writer.ProjectorConfig) { c.Retention = &month })
	r.append(newStory(1).paid(0, 5, startMillis))
	r.awaitProjected()
	if n := r.count("SELECT count() FROM system.tables WHERE database = currentDatabase()" +
		" AND engine_full LIKE '%TTL toDateTime(%toIntervalSecond(2592000)%'"); n != 8 {
		t.Errorf("%d tables have the TTL, not 8", n)
	}
}

func TestRetentionBecomesATTL(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, writer.Migrate(t.Context(), r.db))
	ttls := func() int {
		return r.count("SELECT count() FROM system.tables WHERE database = currentDatabase() AND engine_full LIKE '%TTL toDateTime(%toIntervalSecond(7776000)%'")
	}
	must(t, writer.SetRetention(t.Context(), r.db, 90*24*time.Hour))
	must(t, writer.SetRetention(t.Context(), r.db, 90*24*time.Hour))
	if n := ttls(); n != 8 {
		t.Errorf("%d tables have the TTL, not 8", n)
	}
	must(t, writer.Rebuild(t.Context(), r.refold(nil)))
	if n := ttls(); n != 8 {
		t.Errorf("%d tables have the TTL after a rebuild, not 8", n)
	}
	must(t, writer.SetRetention(t.Context(), r.db, 0))
	if n := ttls(); n != 0 {
		t.Errorf("%d tables still have the TTL", n)
	}
	if err := writer.SetRetention(t.Context(), r.db, time.Hour); err == nil ||
		!strings.Contains(err.Error(), "at least 7d") {
		t.Errorf("a retention of an hour gives %v", err)
	}
}
