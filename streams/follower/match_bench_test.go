package follower_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	tables "github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var benchWatches = flag.Int("watches", 1_000_000, "watches of BenchmarkMatch")

const (
	watchesOfAccount = 1000
	liveSince        = 50_000_000 // the first ledger that the watches are matched against
	ledgerPayments   = 1000
	benchLedgers     = 64 // different ledgers, matched repeatedly
)

// BenchmarkMatch matches ledgers of 1,000 payments against 1,000,000 watches of as many wallets.
// Their directory is on disk and has been closed and reopened. The names include the share of
// payments that go to a watched wallet. Each goes to a different one, because Pebble's cache would
// hold a wallet that is paid often. The baseline is a Go map of the same addresses with the same
// payments.
//
//	go test ./streams/follower -run - -bench Match -cpu 1
func BenchmarkMatch(b *testing.B) {
	w := newWatched(b, *benchWatches)
	for _, percent := range []int{0, 1, 50} {
		ledgers := w.ledgers(percent)
		b.Run(fmt.Sprintf("%d%% watched", percent), func(b *testing.B) { w.match(b, ledgers) })
		b.Run(fmt.Sprintf("floor %d%% watched", percent), func(b *testing.B) { w.floor(b, ledgers) })
	}
}

func (w *watched) match(b *testing.B, ledgers []domain.Ledger) {
	matcher := follower.Matcher(follower.Config{Watches: w.directory})
	b.ReportAllocs()
	observed, n, began := 0, 0, testkit.ProcessorTime(b)
	for b.Loop() {
		o, matches, err := matcher(ledgers[n%len(ledgers)])
		if err != nil || matches > o {
			b.Fatal(o, matches, err)
		}
		observed += o
		n++
	}
	w.report(b, n, observed, testkit.ProcessorTime(b)-began)
	b.ReportMetric(w.memoryBytes/float64(w.count), "memory-bytes/watch")
	b.ReportMetric(w.diskBytes/float64(w.count), "disk-bytes/watch")
	runtime.KeepAlive(matcher)
}

func (w *watched) floor(b *testing.B, ledgers []domain.Ledger) {
	known := make(map[string]struct{}, w.count)
	for i := range w.count {
		known[w.wallet(i)] = struct{}{}
	}
	b.ReportAllocs()
	b.ResetTimer()
	observed, n, began := 0, 0, testkit.ProcessorTime(b)
	for b.Loop() {
		for i := range ledgers[n%len(ledgers)].Payments {
			if _, is := known[ledgers[n%len(ledgers)].Payments[i].To]; is {
				observed++
			}
		}
		n++
	}
	w.report(b, n, observed, testkit.ProcessorTime(b)-began)
}

// report reports rates by the clock and by the processor time of the process. Other work on the
// machine affects the processor time least.
func (w *watched) report(b *testing.B, ledgers, observed int, took time.Duration) {
	payments := float64(ledgers) * ledgerPayments
	b.ReportMetric(payments/took.Seconds(), "payments/s")
	b.ReportMetric(float64(took.Nanoseconds())/payments, "cpu-ns/payment")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/payments, "ns/payment")
	b.ReportMetric(100*float64(observed)/payments, "%observed")
	b.ReportMetric(0, "ns/op")
}

type watched struct {
	count       int
	directory   watchesOf
	memoryBytes float64 // added to the heap by opening the directory
	diskBytes   float64
}

type watchesOf struct{ *tables.Directory }

func (w watchesOf) ByWallet(wallet string) (all []domain.Watch, err error) {
	err = w.EachMatchingWatch(wallet, func(one domain.Watch) error {
		all = append(all, one)
		return nil
	})
	return all, err
}

func newWatched(b *testing.B, count int) *watched {
	b.Helper()
	w := &watched{count: count}
	cfg := tables.Config{
		Dir:    b.TempDir(),
		Now:    time.Now,
		Logger: slog.New(slog.DiscardHandler),
	}
	w.fill(b, cfg)
	w.diskBytes = testkit.FolderBytes(b, cfg.Dir)
	// This measures the memory per watch without Pebble's cache and buffers.
	small := cfg
	small.CacheBytes, small.MemTableBytes = 1<<20, 1<<20
	before := testkit.HeapBytes()
	d := w.open(b, small)
	w.memoryBytes = testkit.HeapBytes() - before
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	d = w.open(b, cfg)
	b.Logf("the directory of %d watches is opened in %s", w.count, time.Since(began))
	w.directory = watchesOf{d}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return w
}

func (w *watched) open(b *testing.B, cfg tables.Config) *tables.Directory {
	b.Helper()
	d, err := tables.OpenOn(b.Context(), cfg, "bench", w)
	if err != nil {
		b.Fatal(err)
	}
	return d
}

// fill writes the rows of endpoints and watches, as if they had been read from their tables.
func (w *watched) fill(b *testing.B, cfg tables.Config) {
	b.Helper()
	d := w.open(b, cfg)
	at := kafka.Offsets{schemas.TopicEndpoints: {0: 0}, schemas.TopicWatches: {0: 0}}
	var batch []kafka.Record
	take := func(topic, id string, m schemas.Message, last bool) {
		batch = append(batch, kafka.NewRecord(topic, id, m.Value, m.EachHeader))
		at[topic][0]++
		if len(batch) < 4096 && !last {
			return
		}
		if err := d.Take(positions(at), batch); err != nil {
			b.Fatal(err)
		}
		batch = batch[:0]
	}
	for account := range (w.count + watchesOfAccount - 1) / watchesOfAccount {
		e := endpointNo(account)
		take(schemas.TopicEndpoints, e.ID, schemas.EncodeEndpoint(e), false)
	}
	for i := range w.count {
		one := w.watch(i)
		take(schemas.TopicWatches, one.ID, schemas.EncodeWatch(one), i == w.count-1)
	}
	if err := d.Close(); err != nil {
		b.Fatal(err)
	}
}

func endpointNo(account int) domain.Endpoint {
	return domain.Endpoint{
		ID:        domain.DeriveID(domain.EndpointPrefix, "bench", strconv.Itoa(account)),
		AccountID: domain.DeriveID(domain.AccountPrefix, "bench", strconv.Itoa(account)),
		Version:   1,
		Revision:  1,
		EndpointSettings: domain.EndpointSettings{
			URL: "https://merchant.example.org/webhooks/" + strconv.Itoa(account),
		},
		Status:          domain.StatusActive,
		Secrets:         []domain.SealedSecret{{Sealed: make([]byte, 100)}},
		CreatedAtMillis: 1_760_000_000_000,
	}
}

// watch returns the i-th watch. The watches cover the kinds that merchants create.
func (w *watched) watch(i int) domain.Watch {
	e := endpointNo(i / watchesOfAccount)
	usdc := domain.Asset{
		Code:   "USDC",
		Issuer: "GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
	}
	rules := domain.Rules{
		Assets: [][]domain.Asset{{domain.NativeAsset()}, {usdc}, {domain.NativeAsset(), usdc}}[i%3],
		Amount: []domain.AmountRule{
			{Kind: domain.AmountAny},
			{Kind: domain.AmountExact, AmountStroops: 12_5000000},
			{Kind: domain.AmountMin, AmountStroops: 1_0000000},
			{Kind: domain.AmountRange, MinStroops: 1_0000000, MaxStroops: 500_0000000},
		}[i%4],
		Memo: []domain.MemoRule{
			{Kind: domain.MemoAny},
			{Kind: domain.MemoPresent},
			{Kind: domain.MemoEquals, Value: domain.Memo{Type: domain.MemoText, Raw: []byte("order 4711")}},
		}[i%7%3],
	}
	if i%20 == 0 {
		rules.SenderAllowlist = []string{w.wallet(i + 1)}
	}
	return domain.Watch{
		ID:              domain.DeriveID(domain.WatchPrefix, "bench", strconv.Itoa(i)),
		AccountID:       e.AccountID,
		Version:         2,
		Revision:        1,
		WalletAddress:   w.wallet(i),
		Label:           "Invoice " + strconv.Itoa(i),
		EndpointID:      e.ID,
		Rules:           rules,
		EventTypes:      []domain.EventType{domain.PaymentReceived, domain.PaymentRejected},
		CreatedAtMillis: e.CreatedAtMillis + int64(i),
		UpdatedAtMillis: e.CreatedAtMillis + int64(i),
		LiveSince:       liveSince,
	}
}

// wallet returns an address. Addresses from count on are not watched.
func (w *watched) wallet(i int) string {
	var key [32]byte
	random := rand.New(rand.NewPCG(1, uint64(i))) // #nosec G404 G115 -- the same in each run
	for n := range key {
		key[n] = byte(random.Uint32())
	}
	return strkey.MustEncode(strkey.VersionByteAccountID, key[:])
}

// ledgers returns ledgers in which the given percentage of payments go to watched wallets.
func (w *watched) ledgers(percent int) []domain.Ledger {
	random := rand.New(rand.NewPCG(2, 2)) // #nosec G404 -- the same in each run
	ledgers := make([]domain.Ledger, benchLedgers)
	for n := range ledgers {
		l := domain.Ledger{Sequence: liveSince + uint32(n)}
		for i := range ledgerPayments {
			to := w.count + random.IntN(w.count)
			if random.IntN(100) < percent {
				to = random.IntN(w.count)
			}
			l.Payments = append(l.Payments, domain.Payment{
				ID:            strconv.Itoa(n*ledgerPayments + i),
				Ledger:        l.Sequence,
				Operation:     "payment",
				From:          w.wallet(random.IntN(w.count)),
				To:            w.wallet(to),
				Memo:          domain.Memo{Type: domain.MemoText, Raw: []byte("order 4711")},
				Asset:         domain.NativeAsset(),
				AmountStroops: 1 + random.Int64N(100_0000000),
			})
		}
		ledgers[n] = l
	}
	return ledgers
}

// positions are the positions of a reader of tables with one partition.
type positions kafka.Offsets

func (p positions) Position(topic string, partition int32) int64 { return p[topic][partition] }
func (positions) Epoch(string, int32) int32                      { return -1 }

// Starts, Of and OfEpochs return the ends of the filled tables.
func (w *watched) Starts(context.Context, string) (map[int32]int64, error) {
	return map[int32]int64{0: 0}, nil
}

func (w *watched) Of(context.Context, string) (map[int32]int64, error) {
	return map[int32]int64{0: int64(w.count)}, nil
}

func (w *watched) OfEpochs(context.Context, string, map[int32]int32) map[int32]int64 { return nil }
