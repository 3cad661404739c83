package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// BenchmarkAPI measures the API of the real program with the broker's default
// writes: creations and reads at several concurrencies, and one creation at a
// time. LUMENHOOK_BENCH_WATCHES=1000000 loads as many watches first, through
// their table.
//
//	make bench-api
func BenchmarkAPI(b *testing.B) {
	s := &testService{t: b, dir: b.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--api-rate-limit", "1000000", "--log-level",
		"error", "--least-free-mib", "64")
	defer s.interrupt()
	l := &load{b: b, s: s, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}}}
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	endpointBody := `{"url":"https://127.0.0.1:8443/bench"}`
	var endpoint struct{ ID string }
	if err := json.Unmarshal(l.post("/v1/endpoints", endpointBody), &endpoint); err != nil {
		b.Fatal(err)
	}
	watchBody := fmt.Sprintf(`{"walletAddress":%q,"endpointId":%q,"assets":[{"code":"XLM","issuer":null}]}`, wallet.Address, endpoint.ID)
	if n, _ := strconv.Atoi(os.Getenv("LUMENHOOK_BENCH_WATCHES")); n > 0 {
		l.loadWatches(n)
	}
	l.measure("one endpoint at a time", 1, 500, func() { l.post("/v1/endpoints", endpointBody) })
	l.measure("one watch at a time", 1, 500, func() { l.post("/v1/watches", watchBody) })
	for _, at := range []int{32, 128} {
		l.measure("endpoints", at, 6000, func() { l.post("/v1/endpoints", endpointBody) })
		l.measure("watches", at, 6000, func() { l.post("/v1/watches", watchBody) })
		l.measure("reads of an endpoint", at, 20_000, func() { l.get("/v1/endpoints/" + endpoint.ID) })
		l.measure("lists of 50 watches", at, 1000, func() { l.get("/v1/watches") })
	}
	b.Logf("resident: %s", residentMemory(s.cmd.Process.Pid))
	b.ReportMetric(0, "ns/op")
}

// load asks the API and keeps how long each answer took.
type load struct {
	b    *testing.B
	s    *testService
	http *http.Client
}

func (l *load) post(path, body string) []byte { return l.ask(http.MethodPost, path, body, 201) }
func (l *load) get(path string) []byte        { return l.ask(http.MethodGet, path, "", 200) }

func (l *load) ask(method, path, body string, want int) []byte {
	request, err := http.NewRequest(method, l.s.file.APIURL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		l.b.Error(err)
		return nil
	}
	request.Header.Set("Authorization", "Bearer "+l.s.file.APIKey)
	request.Header.Set("Content-Type", "application/json")
	response, err := l.http.Do(request)
	if err != nil {
		l.b.Error(err)
		return nil
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != want {
		l.b.Errorf("%s %s: %d %v %s", method, path, response.StatusCode, err, got)
	}
	return got
}

// measure makes n requests, so many at once, and reports their rate and times.
func (l *load) measure(what string, at, n int, ask func()) {
	took := make([]time.Duration, n)
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range at {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				asked := time.Now()
				ask()
				took[i-1] = time.Since(asked)
			}
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	slices.Sort(took)
	l.b.Logf("%-24s %3d at once: %6.0f/s   p50 %6.2f ms   p99 %6.2f ms", what, at, float64(n)/seconds,
		float64(took[n/2].Microseconds())/1000, float64(took[n*99/100].Microseconds())/1000)
}

// loadWatches writes rows of watches, as the engine would have published them,
// of accounts of a thousand watches each.
func (l *load) loadWatches(n int) {
	cluster := streams.Cluster{
		Brokers:  l.s.file.KafkaBrokers,
		Prefix:   "lumenhook.",
		ClientID: "bench",
		SASL:     l.s.file.Kafka.SASL(),
		Logger:   slog.New(slog.DiscardHandler),
	}
	producer, err := cluster.NewProducer()
	if err != nil {
		l.b.Fatal(err)
	}
	defer producer.Close()
	endpoint := domain.DeriveID(domain.EndpointPrefix, "bench")
	began := time.Now()
	batch := make([]streams.Record, 0, 2000)
	for i := range n {
		w := domain.Watch{
			ID:        domain.DeriveID(domain.WatchPrefix, "bench", strconv.Itoa(i)),
			AccountID: domain.DeriveID(domain.AccountPrefix, "bench", strconv.Itoa(i/1000)),
			Version:   1,
			Revision:  1,
			WalletAddress: "G" + strings.ToUpper(domain.DeriveID("", strconv.Itoa(i)) + domain.DeriveID("",
				"x", strconv.Itoa(i)))[:52] + "AAA",
			EndpointID: endpoint,
			Label:      "Invoice " + strconv.Itoa(i),
			Rules: domain.Rules{
				Assets: []domain.Asset{domain.NativeAsset()},
				Amount: domain.AmountRule{Kind: domain.AmountAny},
				Memo:   domain.MemoRule{Kind: domain.MemoAny},
			},
			EventTypes:      []domain.EventType{domain.PaymentReceived},
			CreatedAtMillis: began.UnixMilli() - int64(n-i),
			UpdatedAtMillis: began.UnixMilli(),
		}
		m := schemas.EncodeWatch(w)
		batch = append(batch, streams.NewRecord(schemas.TopicWatches, w.ID, m.Value, m.EachHeader))
		if len(batch) == cap(batch) || i == n-1 {
			if err := producer.Append(l.b.Context(), batch...); err != nil {
				l.b.Fatal(err)
			}
			batch = batch[:0]
		}
	}
	written := time.Since(began)
	l.awaitDirectory()
	l.b.Logf("written in %s", written.Round(time.Second))
	l.b.Logf("%d watches loaded in %s; resident: %s", n, time.Since(began).Round(time.Second),
		residentMemory(l.s.cmd.Process.Pid))
}

// awaitDirectory waits until the node lets somebody in: one that is not up to
// date lets nobody in.
func (l *load) awaitDirectory() {
	deadline := time.NewTimer(10 * time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for l.s.call("GET", "/v1/endpoints?limit=1", nil, nil) != http.StatusOK {
		select {
		case <-deadline.C:
			l.b.Fatal("the directory never read them")
		case <-tick.C:
		}
	}
}

func residentMemory(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(status)) {
		if size, found := strings.CutPrefix(line, "VmRSS:"); found {
			return strings.TrimSpace(size)
		}
	}
	return "unknown"
}
