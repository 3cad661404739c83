package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// BenchmarkAPI measures the API of the real program with the broker's default writes: creates and
// reads at several concurrency levels, and creates one at a time. The baseline for each is a bare
// net/http server, also in a separate process, that answers the same requests with bodies of the
// same size. The load generator writes prepared requests to open connections, so that it uses
// little CPU. Each process's processor time is reported per request.
// LUMENHOOK_BENCH_WATCHES=1000000 first loads that many watches through their topic.
//
//	make bench-api
func BenchmarkAPI(b *testing.B) {
	s := &testService{t: b, dir: b.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--api-rate-limit", "1000000", "--log-level",
		"error")
	defer s.interrupt()
	l := &load{b: b, s: s, address: strings.TrimPrefix(s.file.APIURL, "http://")}
	l.floor, l.floorPID = startFloor(b)
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	endpointBody := `{"url":"https://127.0.0.1:8443/bench"}`
	var endpoint struct{ ID string }
	made := l.once(http.MethodPost, "/v1/endpoints", endpointBody)
	if err := json.Unmarshal(made, &endpoint); err != nil {
		b.Fatal(err)
	}
	watchBody := fmt.Sprintf(`{"walletAddress":%q,"endpointId":%q,"assets":[{"code":"XLM","issuer":null}]}`,
		wallet.Address, endpoint.ID)
	if n, _ := strconv.Atoi(os.Getenv("LUMENHOOK_BENCH_WATCHES")); n > 0 {
		l.loadWatches(n)
	}
	l.measure("one endpoint at a time", 1, 500, http.MethodPost, "/v1/endpoints", endpointBody)
	l.measure("one watch at a time", 1, 500, http.MethodPost, "/v1/watches", watchBody)
	for _, at := range []int{32, 128} {
		l.measure("endpoints", at, 12_000, http.MethodPost, "/v1/endpoints", endpointBody)
		l.measure("watches", at, 12_000, http.MethodPost, "/v1/watches", watchBody)
		l.measure("reads of an endpoint", at, 40_000, http.MethodGet, "/v1/endpoints/"+endpoint.ID, "")
		l.measure("lists of 50 watches", at, 2000, http.MethodGet, "/v1/watches", "")
	}
	b.Logf("resident: %s", residentMemory(s.cmd.Process.Pid))
	b.ReportMetric(0, "ns/op")
}

type load struct {
	b        *testing.B
	s        *testService
	address  string
	floor    string // address of the baseline server
	floorPID int
}

func (l *load) request(method, path, body string) []byte {
	return fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, l.address,
		l.s.file.APIKey, len(body), body)
}

func (l *load) once(method, path, body string) []byte {
	c := l.dial(l.address)
	defer c.close()
	answer, err := c.ask(l.request(method, path, body))
	if err != nil {
		l.b.Fatal(err)
	}
	return answer
}

type answers struct {
	perSecond    float64
	p50, p99     time.Duration
	server, load time.Duration // processor time per request
	answerBytes  int
}

// measure sends n requests to the service, at of them at a time, and then the same to the baseline.
// It reports their rates, latencies, and processor time per request.
func (l *load) measure(what string, at, n int, method, path, body string) {
	l.b.Run(fmt.Sprintf("%s/%d at once", what, at), func(b *testing.B) {
		l := *l
		l.b = b
		request := l.request(method, path, body)
		service := l.drive(l.address, l.s.cmd.Process.Pid, at, n, request)
		floor := l.drive(l.floor, l.floorPID, at, n,
			l.request(method, fmt.Sprintf("/?bytes=%d", service.answerBytes), body))
		service.report(b, "")
		floor.report(b, "floor-")
		b.ReportMetric(micros(service.load), "load-cpu-µs")
		b.ReportMetric(0, "ns/op")
	})
}

func (a answers) report(b *testing.B, of string) {
	b.Helper()
	b.ReportMetric(a.perSecond, of+"requests/s")
	b.ReportMetric(micros(a.server), of+"cpu-µs")
	b.ReportMetric(micros(a.p50)/1000, of+"p50-ms")
	b.ReportMetric(micros(a.p99)/1000, of+"p99-ms")
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// drive sends n requests to a process over at connections, and measures them.
func (l *load) drive(address string, pid, at, n int, request []byte) answers {
	took := make([]time.Duration, n)
	var next atomic.Int64
	var size atomic.Int64
	conns := make([]*conn, at)
	for i := range conns {
		conns[i] = l.dial(address)
		defer conns[i].close()
	}
	var all sync.WaitGroup
	server, own := testkit.ProcessorTimeOf(l.b, pid), testkit.ProcessorTimeOf(l.b, os.Getpid())
	began := time.Now()
	for _, c := range conns {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				asked := time.Now()
				answer, err := c.ask(request)
				if err != nil {
					l.b.Error(err)
					return
				}
				took[i-1] = time.Since(asked)
				size.Store(int64(len(answer)))
			}
		})
	}
	all.Wait()
	seconds := time.Since(began).Seconds()
	slices.Sort(took)
	return answers{
		perSecond:   float64(n) / seconds,
		p50:         took[n/2],
		p99:         took[n*99/100],
		server:      (testkit.ProcessorTimeOf(l.b, pid) - server) / time.Duration(n),
		load:        (testkit.ProcessorTimeOf(l.b, os.Getpid()) - own) / time.Duration(n),
		answerBytes: int(size.Load()),
	}
}

type conn struct {
	net.Conn
	in   *bufio.Reader
	body []byte
}

func (l *load) dial(address string) *conn {
	l.b.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		l.b.Fatal(err)
	}
	return &conn{Conn: c, in: bufio.NewReader(c)}
}

func (c *conn) close() { _ = c.Close() }

// ask sends a request and returns the response body, which is valid until the next call.
func (c *conn) ask(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, err
	}
	status, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	ok := bytes.HasPrefix(status, []byte("HTTP/1.1 20"))
	length := 0
	for {
		header, err := c.in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		if len(header) <= 2 {
			break
		}
		if size, is := bytes.CutPrefix(header, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(size))); err != nil {
				return nil, err
			}
		}
	}
	c.body = slices.Grow(c.body[:0], length)[:length]
	if _, err := io.ReadFull(c.in, c.body); err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("the answer is %s", c.body)
	}
	return c.body, nil
}

// asFloor is the environment variable that turns the test binary into the baseline server, which
// prints its address.
const asFloor = "LUMENHOOK_TEST_FLOOR"

// serveFloor answers each request with the number of bytes that its query asks for.
func serveFloor() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	body := bytes.Repeat([]byte("x"), 1<<20)
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		n, _ := strconv.Atoi(strings.TrimPrefix(r.URL.RawQuery, "bytes="))
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(n))
		_, _ = w.Write(body[:n])
	})))
}

func startFloor(b *testing.B) (address string, pid int) {
	b.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asFloor+"=1")
	c.SysProcAttr = subprocess.Killed()
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	return strings.TrimSpace(address), c.Process.Pid
}

// loadWatches writes n watches to their topic, as the engine publishes them, with a thousand
// watches per account.
func (l *load) loadWatches(n int) {
	cluster := kafka.Cluster{
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
	batch := make([]kafka.Record, 0, 2000)
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
		batch = append(batch, kafka.NewRecord(schemas.TopicWatches, w.ID, m.Value, m.EachHeader))
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

// awaitDirectory waits until the node accepts the API key, which it does only once its directory is
// up to date.
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
