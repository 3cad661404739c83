package follower_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/stellar/ledger"
	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

func TestPaymentIsObservedMatchedAndRead(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched, other := r.wallet(), r.wallet()
	x := r.startReady(r.config())
	w := r.directory.add("wat_1", watched) // acknowledged while the follower runs
	r.pay(other, "1")
	paid := r.pay(watched, "12.5")
	summaries := x.until(paid.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}

	matches := r.matches()
	if len(matches) != 1 || matches[0].WatchID != w.ID ||
		matches[0].Event.ID != domain.EventID(w.ID, paid.ID) ||
		matches[0].Event.Type != domain.PaymentReceived {
		t.Fatalf("matches %+v, want one of %s", matches, paid.ID)
	}
	var body struct {
		ID   string
		Data struct{ Payment domain.PaymentView }
	}
	if err := json.Unmarshal(matches[0].Event.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.ID != matches[0].Event.ID || body.Data.Payment.ID != paid.ID ||
		body.Data.Payment.TxHash != paid.TxHash || body.Data.Payment.Amount != "12.5000000" ||
		body.Data.Payment.From != r.identities.PayerAddress() {
		t.Errorf("the body is %s", matches[0].Event.Body)
	}
	observed := r.observed()
	if len(observed) != 1 || observed[0].ID != paid.ID || observed[0].AmountStroops != 125_000_000 {
		t.Errorf("observed %+v, want one of %s", observed, paid.ID)
	}
	last := summaries[len(summaries)-1]
	if len(last.Observed) != 1 || len(last.Matches) != 1 || last.Matches[0].EventID != body.ID {
		t.Errorf("the summary of ledger %d has %d observed, %d matches", paid.Ledger, len(last.Observed),
			len(last.Matches))
	}
	checkCursors(t, r.cursors())
	i := slices.IndexFunc(r.cursors(),
		func(l schemas.LedgerRead) bool { return l.Sequence == paid.Ledger })
	if c := r.cursors()[i]; c.Observed != 1 || c.Matches != 1 || c.Payments != 1 ||
		c.WatchesOffsets[0] != 1 || c.WatchesOffsets[1] != 7 || c.Hash != last.Ledger.Hash ||
		c.ClosedAtMillis != last.Ledger.ClosedAtMillis {
		t.Errorf("the cursor is %+v", c)
	}
}

// The follower commits to its group where it would read back from, so that earlier records may be
// deleted.
func TestTheGroupIsWhereTheFollowerReadsBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	x := r.startReady(r.config())
	x.until(r.pay(watched, "1").Ledger)
	x.until(r.pay(watched, "2").Ledger) // its cursor names the end after the first payment
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	cfg := r.config()
	needed, err := follower.Needed(t.Context(), r.cluster, cfg.Passphrase, r.directory)
	if err != nil {
		t.Fatal(err)
	}
	if sum := needed[schemas.TopicMatches][0] + needed[schemas.TopicMatches][1]; sum == 0 {
		t.Errorf("all matches are needed: %v", needed)
	}
	r.startReady(cfg)
	d, err := r.cluster.NewDeleter()
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	testkit.EventuallyNil(t, "the group is where the follower reads back", func() error {
		groups, err := d.Positions(t.Context())
		if err != nil {
			return err
		}
		// The follower may have continued since then.
		now, err := follower.Needed(t.Context(), r.cluster, cfg.Passphrase, r.directory)
		if have := groups["follower"]; err == nil && !between(needed, have, now) {
			return fmt.Errorf("it is at %v, and %v was needed, and %v is", have, needed, now)
		}
		return err
	})
}

// between reports whether each position of have lies between those of from and to.
func between(from, have, to kafka.Offsets) bool {
	for topic, partitions := range from {
		for p := range partitions {
			at, is := have[topic][p]
			if !is || at < from[topic][p] || at > to[topic][p] {
				return false
			}
		}
	}
	return len(from) > 0
}

func checkCursors(t testing.TB, cursors []schemas.LedgerRead) {
	t.Helper()
	for i := 1; i < len(cursors); i++ {
		if cursors[i].Sequence != cursors[i-1].Sequence+1 {
			t.Errorf("ledger %d was read after %d", cursors[i].Sequence, cursors[i-1].Sequence)
		}
	}
}

func TestGoesOnAtTheCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	x := r.startReady(r.config())
	first := r.pay(watched, "1")
	x.until(first.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	away := r.pay(watched, "2") // while no follower runs
	config := r.config()
	config.Start = follower.Start{Sequence: 1} // ignored, because there is a cursor
	x = r.startReady(config)
	x.until(away.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(r.matches()); !slices.Equal(got,
		[]string{domain.EventID("wat_1", first.ID), domain.EventID("wat_1", away.ID)}) {
		t.Errorf("matches %v, want each payment once", got)
	}
	checkCursors(t, r.cursors())
}

func eventIDs(matches []domain.MatchInput) (ids []string) {
	for _, m := range matches {
		ids = append(ids, m.Event.ID)
	}
	return ids
}

// Reading the same ledgers again, as after a crash before the cursor was written, appends the same
// IDs.
func TestReadAgainYieldsTheSameIdentifiers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	r.directory.add("wat_2", watched)
	r.pay(watched, "1")
	last := r.pay(watched, "2")
	read := func() []string {
		config := r.config()
		config.Start = follower.Start{Sequence: 2}
		x := r.startReady(config)
		x.until(last.Ledger)
		if err := x.stopped(); err != nil {
			t.Fatal(err)
		}
		ids := eventIDs(r.matches())
		slices.Sort(ids)
		return ids
	}
	first := read()
	r.renew("again")
	if again := read(); len(first) < 4 || !slices.Equal(first, again) {
		t.Errorf("first %v, then %v", first, again)
	}
}

func TestInterruptedBeforeMatchingRestartsAtTheCursor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	x := r.startReady(r.config())
	r.directory.mu.Lock()
	r.directory.failures = 3
	r.directory.mu.Unlock()
	paid := r.pay(watched, "1")
	x.until(paid.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(r.matches()); len(got) != 1 {
		t.Errorf("matches %v, want one", got)
	}
	checkCursors(t, r.cursors())
}

// undecided does not report its newest ledger until it is released.
type undecided struct {
	follower.Source
	let chan struct{}
}

func (s undecided) Latest(ctx context.Context) (uint32, error) {
	select {
	case <-s.let:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return s.Source.Latest(ctx)
}

// The follower is not ready before it knows which ledgers it skips. Otherwise, a client that waits
// until the first follower is ready, creates a watch and pays might get no event.
func TestTheFirstFollowerIsNotReadyWithoutItsFirstLedger(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	config := r.config()
	source := undecided{config.Source, make(chan struct{})}
	config.Source = source
	x := r.start(config)
	testkit.Eventually(t, "it is elected", x.Follows)
	testkit.Eventually(t, "it says that it does not know its first ledger", func() bool {
		err := x.Check()
		if err == nil {
			t.Fatal("it is ready before it knows its first ledger")
		}
		return strings.Contains(err.Error(), "the first reported ledger is not known yet")
	})
	close(source.let)
	testkit.EventuallyNil(t, "it is ready", x.Check)
	r.directory.add("wat_1", watched)
	x.until(r.pay(watched, "1").Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(r.matches()); len(got) != 1 {
		t.Errorf("matches %v, want one", got)
	}
}

func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	active := r.startReady(r.config())
	standby := r.start(r.config())
	paid := r.pay(watched, "1")
	active.until(paid.Ledger)
	select {
	case <-standby.Ready():
		t.Error("two followers are active")
	default:
	}
	if err := active.stopped(); err != nil {
		t.Fatal(err)
	}
	later := r.pay(watched, "2")
	standby.until(later.Ledger)
	if err := standby.stopped(); err != nil {
		t.Fatal(err)
	}
	if got := eventIDs(r.matches()); len(got) != 2 {
		t.Errorf("matches %v, want two", got)
	}
	checkCursors(t, r.cursors())
}

func TestUnreadableLedgerIsNotSkipped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var bad uint32
	config := r.config()
	config.Source = r.source(func(raw *ledger.Raw) {
		if bad == 0 && raw.Sequence > 5 {
			bad = raw.Sequence
		}
		if raw.Sequence == bad {
			raw.XDR = raw.XDR[:len(raw.XDR)-4]
		}
	})
	config.Start = follower.Start{Sequence: 2}
	x := r.start(config)
	x.failsWith("cannot be read", domain.ErrUnreadable)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	cursors := r.cursors()
	if last := cursors[len(cursors)-1].Sequence; last != bad-1 {
		t.Errorf("the cursor is at %d, want %d, before what cannot be read", last, bad-1)
	}
	checkCursors(t, cursors)
}

func TestForkIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.appendCursor(schemas.LedgerRead{
		NetworkPassphrase: r.network.Passphrase(),
		Sequence:          3,
		Hash:              strings.Repeat("ab", 32),
		Coverage:          domain.Coverage{}.Read(3, true),
	})
	r.start(r.config()).failsWith("reset or forked", domain.ErrForked)
	if got := r.cursors(); len(got) != 1 {
		t.Errorf("%d cursors, want the first one", len(got))
	}
}

// The follower checks a trusted ledger against the ledger that it followed. If that one is no
// longer in the topic, the log says so.
func TestATrustedLedgerBehindTheCursor(t *testing.T) {
	t.Parallel()
	hash := func(digits string) string { return strings.Repeat(digits, 32) }
	r := newRig(t)
	for sequence := uint32(7); sequence <= 9; sequence++ {
		r.appendCursor(schemas.LedgerRead{
			NetworkPassphrase: r.network.Passphrase(),
			Sequence:          sequence,
			Hash:              hash(fmt.Sprintf("0%d", sequence)),
		})
	}
	for name, c := range map[string]struct {
		trusted follower.Trusted
		wrong   bool
		said    string
	}{
		"as the cursor":      {follower.Trusted{Sequence: 9, Hash: hash("09")}, false, "is the one"},
		"not as the cursor":  {follower.Trusted{Sequence: 9, Hash: hash("08")}, true, ""},
		"as was followed":    {follower.Trusted{Sequence: 8, Hash: hash("08")}, false, "is the one"},
		"of another history": {follower.Trusted{Sequence: 8, Hash: hash("09")}, true, ""},
		"forgotten":          {follower.Trusted{Sequence: 6, Hash: hash("06")}, false, "it is not checked"},
		"none":               {follower.Trusted{}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var log testkit.Buffer
			config := r.config()
			config.Trusted = c.trusted
			config.Logger = slog.New(slog.NewTextHandler(&log, nil))
			x := r.start(config)
			if c.wrong {
				x.failsWith("--trusted-ledger", domain.ErrForked)
				if err := x.stopped(); err != nil {
					t.Error(err)
				}
				return
			}
			select { // the network is at an earlier ledger, and the follower waits for it
			case <-x.Ready():
			case err := <-x.ended:
				t.Fatal(err)
			case <-time.After(patience):
				t.Fatal("the follower did not become ready")
			}
			if err := x.stopped(); err != nil {
				t.Error(err)
			}
			if c.said != "" && !strings.Contains(log.String(), "trusted ledger") ||
				!strings.Contains(log.String(), c.said) {
				t.Errorf("the log has no %q:\n%s", c.said, log.String())
			}
		})
	}
}

func TestCursorOfAnotherNetworkIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.appendCursor(schemas.LedgerRead{NetworkPassphrase: "Another network", Sequence: 3})
	config := r.config()
	var log testkit.Buffer
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	var later atomic.Int64
	config.Now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	x := r.start(config)
	testkit.Eventually(t, "following is interrupted", func() bool {
		return strings.Contains(log.String(), "Another network")
	})
	later.Store(int64(2 * time.Minute)) // reported after one minute
	x.failsWith("Another network", nil)
}

func TestSourceOfAnotherNetworkIsNotFollowed(t *testing.T) {
	r := newRig(t)
	config := r.config()
	source, err := rpc.New(rpc.Config{URL: r.network.RPCURL(), Passphrase: "Another network"})
	if err != nil {
		t.Fatal(err)
	}
	config.Source, config.Passphrase = reader(t, source, "Another network"), "Another network"
	r.start(config).failsWith("serves another network", domain.ErrWrongNetwork)
}

// The highest cursor counts, because an older follower that lost its election without noticing may
// have appended last.
func TestHighestCursorCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	x := r.startReady(r.config())
	summaries := x.until(r.pay(r.wallet(), "1").Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	cursors := r.cursors()
	r.appendCursor(cursors[len(cursors)-2])
	x = r.startReady(r.config())
	next := x.until(summaries[len(summaries)-1].Ledger.Sequence + 1)
	if want := cursors[len(cursors)-1].Sequence + 1; next[0].Ledger.Sequence != want {
		t.Errorf("went on at %d, want %d", next[0].Ledger.Sequence, want)
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

func TestOnlyIncomeIsObserved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	payer := r.identities.PayerAddress()
	r.directory.add("wat_1", payer)
	x := r.startReady(r.config())
	toOneself, err := r.client.Pay(t.Context(),
		devclient.PayRequest{From: r.identities.PayerSeed, To: payer, Amount: "5"})
	if err != nil {
		t.Fatal(err)
	}
	summaries := x.until(toOneself.Ledger)
	last := summaries[len(summaries)-1]
	if len(last.Ledger.Payments) != 1 || len(last.Observed) != 0 || len(last.Matches) != 0 {
		t.Errorf("a payment to oneself: %d extracted, %d observed, %d matched", len(last.Ledger.Payments),
			len(last.Observed), len(last.Matches))
	}
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
}

func TestWaitsForTheSourceAtStart(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	down := &patient{Source: r.source(), refusals: 2}
	config := r.config()
	config.Source = down
	x := r.startReady(config)
	if err := x.stopped(); err != nil || down.refusals != 0 {
		t.Errorf("got %v with %d refusals left", err, down.refusals)
	}
}

func TestParseStart(t *testing.T) {
	for text, want := range map[string]uint32{"latest": 0, "1": 1, "2147483647": 2147483647} {
		got, err := follower.ParseStart(text)
		if err != nil || got.Sequence != want || got.String() != text {
			t.Errorf("%q: got %v (%v)", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "now", "1.5", "2147483648", "99999999999"} {
		if _, err := follower.ParseStart(text); err == nil || !strings.Contains(err.Error(), "latest") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

func TestGoesOnWhenTheBrokerIsBack(t *testing.T) {
	brokertest.Exclusive(t)
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	x := r.startReady(r.config())
	first := r.pay(watched, "1")
	x.until(first.Ledger)
	var away devclient.Payment
	r.broker.Outage(func() { away = r.pay(watched, "2") })
	x.until(away.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	got := slices.Compact(eventIDs(r.matches())) // a repeat may occur twice, with the same ID
	if !slices.Equal(got, []string{domain.EventID("wat_1",
		first.ID), domain.EventID("wat_1", away.ID)}) {
		t.Errorf("matches %v, want each payment", got)
	}
}

// BenchmarkCatchUp reads about 300 devnet ledgers. Its time includes joining and leaving the group.
func BenchmarkCatchUp(b *testing.B) {
	r := newRig(b)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	last := r.pay(watched, "1").Ledger
	for range 300 {
		sequence, err := r.network.CloseNow()
		if err != nil {
			b.Fatal(err)
		}
		last = sequence
	}
	ledgers := 0
	for n := 0; b.Loop(); n++ {
		r.renew(fmt.Sprint("bench", n))
		config := r.config()
		config.Start = follower.Start{Sequence: 2}
		x := r.startReady(config)
		ledgers += len(x.until(last))
		if err := x.stopped(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ledgers)/b.Elapsed().Seconds(), "ledgers/s")
}

type quarantining struct {
	follower.Source
	sequence uint32
	unread   domain.QuarantinedTransaction
}

func (q quarantining) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	page, err := q.Source.Next(ctx, sequence)
	for i := range page {
		if page[i].Sequence == q.sequence {
			page[i].Quarantined = []domain.QuarantinedTransaction{q.unread}
		}
	}
	return page, err
}

// A transaction in quarantine delays nothing. Its hash is in a topic before the cursor passes it.
func TestWhatCannotBeReadIsKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	watched := r.wallet()
	r.directory.add("wat_1", watched)
	paid := r.pay(watched, "1")
	hash := strings.Repeat("ab", 32)
	config := r.config()
	config.Source = quarantining{config.Source, paid.Ledger, domain.QuarantinedTransaction{
		TxHash: hash,
		Order:  2,
		Reason: "a form that this program does not know",
	}}
	config.Start = follower.Start{Sequence: 2}
	x := r.start(config)
	x.until(paid.Ledger)
	if err := x.stopped(); err != nil {
		t.Fatal(err)
	}
	records := r.read(schemas.TopicQuarantine)
	if len(records) != 1 || string(records[0].Key) != hash {
		t.Fatalf("%d records", len(records))
	}
	q, err := schemas.DecodeTransactionQuarantined(schemas.Read(records[0].Value, records[0]))
	if err != nil || q.Ledger != paid.Ledger || q.TxHash != hash || q.Order != 2 || q.Reason == "" ||
		q.NetworkPassphrase != r.network.Passphrase() || q.ClosedAtMillis == 0 || q.ReadAtMillis == 0 {
		t.Errorf("%+v, %v", q, err)
	}
	if !slices.Contains(eventIDs(r.matches()), domain.EventID("wat_1", paid.ID)) {
		t.Error("the payment beside it was not told of")
	}
}
