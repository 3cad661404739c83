package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/keypair"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/receiver"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/internal/testkit/openapicheck"
)

// asProgram is the environment variable that makes the test binary the program, so that these tests
// run the real thing in separate processes.
const asProgram = "LUMENHOOK_TEST_AS_PROGRAM"

// exitDeparts is the exit code after a response that openapi.yaml does not describe.
const exitDeparts = 99

func TestMain(m *testing.M) {
	clickhouse.MaybeChild()
	// Every API response is compared with openapi.yaml, here and in the programs that the tests
	// start.
	var departs atomic.Bool
	openapicheck.CheckDefaultTransport(func(err error) {
		fmt.Fprintln(os.Stderr, "openapi.yaml:", err)
		if departs.Store(true); os.Getenv(asProgram) != "" {
			os.Exit(exitDeparts)
		}
	})
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	if os.Getenv(asFloor) != "" {
		serveFloor()
	}
	// The program fetches the engine in the background, but these tests need a history.
	_, err := clickhouse.Ensure(context.Background(), clickhouse.Options{Progress: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if departs.Load() {
		code = exitDeparts
	}
	os.Exit(code)
}

func program(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asProgram+"=1")
	c.SysProcAttr = subprocess.Killed()
	return c
}

type testService struct {
	t      testing.TB
	dir    string
	cmd    *exec.Cmd
	exited chan error
	output *testkit.Buffer
	stderr io.Writer // nil: output
	stdout *os.File  // nil: output
	files  int       // limit of open files; 0: the test's
	group  string    // procs file of its cgroup; empty: the test's
	file   runfile.File
	asker  *http.Client // used by call; nil: http.DefaultClient
}

func anyPorts(dir string, more ...string) []string {
	args := []string{"run", "--data-dir", dir, "--log-format", "text"}
	for _, flag := range []string{
		"api", "kafka", "stellar", "receiver", "metrics", "clickhouse-native",
		"clickhouse-http",
	} {
		args = append(args, "--"+flag+"-listen", "127.0.0.1:0")
	}
	return append(args, more...)
}

// TestAServiceLogsJSON checks that run logs JSON on stderr if its output is not a terminal. The log
// must not contain secrets or memos, and the level must apply to every line.
func TestAServiceLogsJSON(t *testing.T) {
	t.Parallel()
	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	s := &testService{t: t, dir: t.TempDir(), stdout: stdout}
	flags := []string{
		"--log-format", "auto", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--demo-interval", "200ms",
	}
	s.start(flags...)
	s.eventually("payments are logged", func() bool {
		return strings.Count(s.output.String(), `"msg":"delivered evt_`) > 2
	})
	s.interrupt()
	text := s.output.String()
	for line := range strings.Lines(text) {
		var entry struct {
			Time       time.Time
			Level, Msg string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time.IsZero() ||
			entry.Level == "" || entry.Msg == "" {
			t.Errorf("%v: %q", err, line)
		}
	}
	for _, never := range []string{s.file.APIKey, "order-1", "whsec_", "/console/sign-in"} {
		if strings.Contains(text, never) {
			t.Errorf("the log has %q:\n%s", never, text)
		}
	}
	for _, want := range []string{`"msg":"ready"`, `"msg":"observed ledger `, `"msg":"stopped"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %s:\n%s", want, text)
		}
	}
	for _, format := range []string{"json", "text"} {
		s.start(append(flags, "--log-level", "error", "--log-format", format)...)
		s.eventually("a payment is delivered", func() bool {
			return s.call("GET", "/v1/events?state=DELIVERED", nil, nil) == 200
		})
		s.interrupt()
		if text := s.output.String(); text != "" {
			t.Errorf("%s, at the level error:\n%s", format, text)
		}
	}
	if about, err := stdout.Stat(); err != nil || about.Size() > 0 {
		t.Errorf("stdout has something, or %v", err)
	}
}

// start starts the program and waits until it has written run.json.
func (s *testService) start(more ...string) {
	s.t.Helper()
	s.launch(more...)
	cmd := s.cmd
	s.eventually("run.json of this process", func() bool {
		file, err := runfile.Read(s.dir)
		s.file = file
		return err == nil && file.PID == cmd.Process.Pid
	})
}

func (s *testService) launch(more ...string) {
	s.t.Helper()
	testkit.Long(s.t)
	s.output, s.exited = &testkit.Buffer{}, make(chan error, 1)
	s.cmd = program(anyPorts(s.dir, more...)...)
	if s.files > 0 || s.group != "" {
		limit := `exec "$0" "$@"`
		if s.files > 0 {
			limit = fmt.Sprintf("ulimit -n %d; ", s.files) + limit
		}
		if s.group != "" {
			limit = fmt.Sprintf("echo $$ >%s && ", s.group) + limit
		}
		s.cmd.Path, s.cmd.Args = "/bin/sh", append([]string{"sh", "-c", limit}, s.cmd.Args...)
	}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if s.stderr != nil {
		s.cmd.Stderr = s.stderr
	}
	if s.stdout != nil {
		s.cmd.Stdout = s.stdout
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	cmd, exited, over := s.cmd, s.exited, make(chan struct{})
	go func() {
		exited <- cmd.Wait()
		close(over)
	}()
	s.t.Cleanup(func() { // the program must not outlive the test
		_ = cmd.Process.Kill()
		<-over
	})
}

func (s *testService) kill() {
	s.t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	<-s.exited
}

// interrupt sends SIGINT, as Ctrl-C does. The program must exit with 0.
func (s *testService) interrupt() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		s.t.Fatal(err)
	}
	select {
	case err := <-s.exited:
		if err != nil {
			s.t.Fatalf("ended with %v:\n%s", err, s.output)
		}
	case <-time.After(testkit.Patience(s.t)):
		s.t.Fatalf("did not end:\n%s", s.output)
	}
}

func (s *testService) eventually(what string, holds func() bool) {
	s.t.Helper()
	testkit.EventuallyNil(s.t, what, func() error {
		if holds() {
			return nil
		}
		select {
		case err := <-s.exited:
			s.t.Fatalf("the program ended (%v) before %s:\n%s", err, what, s.output)
		default:
		}
		return fmt.Errorf("not by what the program says:\n%s", s.output)
	})
}

func (s *testService) call(method, path string, body any, into any) int {
	s.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		s.t.Fatal(err)
	}
	req, err := http.NewRequest(method, s.file.APIURL+path, bytes.NewReader(data))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.file.APIKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := cmp.Or(s.asker, http.DefaultClient).Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if into != nil && resp.StatusCode < 300 {
		if err := json.Unmarshal(got, into); err != nil {
			s.t.Fatalf("%s: %v", got, err)
		}
	}
	return resp.StatusCode
}

func (s *testService) devnet(into any, args ...string) {
	s.t.Helper()
	c := program(append([]string{"devnet"}, append(args, "--data-dir", s.dir)...)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("devnet %v: %v\n%s", args, err, &stderr)
	}
	if into != nil {
		if err := json.Unmarshal(out, into); err != nil {
			s.t.Fatalf("%s: %v", out, err)
		}
	}
}

// hooks is a receiver with a certificate of the run's authority.
type hooks struct {
	mu     sync.Mutex
	secret string
	got    []receiver.Webhook
	url    string
}

func (h *hooks) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.got)
}

func (h *hooks) last() receiver.Webhook {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.got[len(h.got)-1]
}

func startHooks(t *testing.T, dir string) *hooks {
	t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(dir,
		"secrets"), filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	h := &hooks{}
	check := checkEvents(t)
	r, err := receiver.New(receiver.Config{
		Listen:         "127.0.0.1:0",
		GetCertificate: ca.GetCertificate,
		Secrets: func() []domain.Secret {
			h.mu.Lock()
			defer h.mu.Unlock()
			return []domain.Secret{domain.Secret(h.secret)}
		},
		OnWebhook: func(w receiver.Webhook) {
			if err := check(w.Body); err != nil {
				t.Errorf("what was delivered departs from its schema: %v\n%s", err, w.Body)
			}
			h.mu.Lock()
			defer h.mu.Unlock()
			h.got = append(h.got, w)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h.url = r.URL()
	return h
}

func TestAPaymentReachesAReceiverThroughKills(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)

	var endpoint struct{ ID, Secret string }
	status := s.call("POST", "/v1/endpoints", map[string]any{"url": h.url}, &endpoint)
	if status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	h.mu.Lock()
	h.secret = endpoint.Secret
	h.mu.Unlock()
	var wallet struct{ Address, Secret string }
	s.devnet(&wallet, "account", "--json")
	if status := s.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address,
		"endpointId":    endpoint.ID, "assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, nil); status != http.StatusCreated {
		t.Fatalf("the watch was answered %d", status)
	}
	seen := make(map[string]bool)
	for n := range 4 {
		var paid struct{ ID string }
		s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", fmt.Sprint(n+1),
			"--memo-text", "order", "--json")
		if n > 0 {
			s.kill() // somewhere between the ledger and the receiver
			s.start(flags...)
		}
		s.eventually("a webhook of payment "+paid.ID, func() bool { return h.has(paid.ID) })
		seen[paid.ID] = true
	}
	s.eventually("four events", func() bool { return len(h.events()) == 4 })
	for id, w := range h.events() {
		if !w.Verified {
			t.Errorf("%s: %s", id, w.Reason)
		}
		var event struct {
			ID       string
			Delivery struct{ State string }
			Attempts []struct{ StatusCode int }
		}
		s.eventually("the history of "+id, func() bool {
			return s.call("GET", "/v1/events/"+id, nil, &event) == http.StatusOK &&
				event.Delivery.State == "DELIVERED"
		})
		if event.ID != id || len(event.Attempts) == 0 || event.Attempts[0].StatusCode != 200 {
			t.Errorf("GET answered %+v", event)
		}
	}

	// The folder is locked while it is in use. After a clean stop, the service continues without
	// sending anything again.
	if out, err := program(anyPorts(s.dir)...).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "in use by another lumenhook") {
		t.Errorf("a second service on the folder: %v\n%s", err, out)
	}
	key, posts := s.file.APIKey, h.count()
	s.interrupt()
	s.start(flags...)
	var paid struct{ ID string }
	s.devnet(&paid, "pay", "--to", wallet.Address, "--amount", "9", "--json")
	s.eventually("a webhook after a clean restart", func() bool { return h.has(paid.ID) })
	if s.file.APIKey != key || h.count() != posts+1 {
		t.Errorf("after a clean restart: %d posts after %d, and the key is the same: %v", h.count(), posts,
			s.file.APIKey == key)
	}
	var ready struct {
		Status string
		Checks []struct{ Name, Status, Detail string }
	}
	if status := s.call("GET", "/readyz", nil, &ready); status != http.StatusOK ||
		len(ready.Checks) != 5 {
		t.Errorf("/readyz answered %d: %+v", status, ready)
	}
	if history := ready.Checks[len(ready.Checks)-1]; history.Name != "history" ||
		history.Detail != "up to date" && !strings.HasSuffix(history.Detail, "records behind") {
		t.Errorf("/readyz says of the history: %+v", history)
	}
	var numbers string // the attempt is counted on commit, after it arrived
	s.eventually("the attempt among the metrics", func() bool {
		numbers = s.text(s.file.MetricsURL)
		return strings.Contains(numbers, `lumenhook_facts_total{type="AttemptMade"} 1`) &&
			strings.Contains(numbers, "lumenhook_topic_safe_offset") && // the topics were checked
			strings.Contains(numbers, "lumenhook_endpoints_down") // so was the history
	})
	for _, line := range []string{
		`lumenhook_attempts_total{error="",state="DELIVERED",status="2xx"} 1`, `lumenhook_matches_total 1`,
		`lumenhook_facts_total{type="AttemptMade"} 1`,
		`lumenhook_api_requests_total{method="GET",route="/readyz",status="200"} 1`,
	} {
		if !strings.Contains(numbers, line+"\n") {
			t.Errorf("/metrics lacks %s:\n%s", line, numbers)
		}
	}
	for _, line := range []string{
		`lumenhook_projection_lag_records{topic="journal"} `, `lumenhook_ready{part="engine"} 1`,
		`lumenhook_ready{part="api"} 1`, `lumenhook_ready{part="projector"} 1`,
		`lumenhook_build_info{commit="`, `lumenhook_part_restarts_total{part="follower"} 0`,
		`lumenhook_engine_partitions{state="working"} 4`, `lumenhook_restore_left_records 0`,
		`lumenhook_engine_lag_records{topic="matches"} 0`,
		fmt.Sprintf("go_sched_gomaxprocs_threads %d\n", goroutinesAtATime()),
	} {
		if !strings.Contains(numbers, "\n"+line) {
			t.Errorf("/metrics lacks %s:\n%s", line, numbers)
		}
	}
	checkMetricsPage(t, numbers)
	s.interrupt()
}

// goroutinesAtATime returns the GOMAXPROCS of a service in the test's environment. It is at least
// four, unless a container's limit or the environment decides otherwise.
func goroutinesAtATime() int {
	used := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || used < runtime.NumCPU() {
		return used
	}
	return max(used, 4)
}

// checkMetricsPage compares docs/metrics.md with a scrape. The page must name every metric with its
// type, except those that kprom adds, and no others.
func checkMetricsPage(t *testing.T, scrape string) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]string)
	elsewhere := make(map[string]bool)
	rows := regexp.MustCompile("(?m)^\\| `(lumenhook_\\w+)` \\| (\\w+) \\| (With several sources)?")
	for _, row := range rows.FindAllStringSubmatch(string(page), -1) {
		named[row[1]], elsewhere[row[1]] = row[2], row[3] != ""
	}
	there := make(map[string]string)
	types := regexp.MustCompile(`(?m)^# TYPE (lumenhook_\w+) (\w+)$`)
	for _, line := range types.FindAllStringSubmatch(scrape, -1) {
		there[line[1]] = line[2]
	}
	for name, kind := range named {
		if there[name] != kind && !(elsewhere[name] && there[name] == "") {
			t.Errorf("docs/metrics.md says that %s is a %s, and the scrape has %q", name, kind, there[name])
		}
	}
	for name := range there {
		if named[name] == "" && !strings.HasPrefix(name, "lumenhook_kafka_") {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
}

func (s *testService) text(url string) string {
	s.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(got)
}

// If a machine dies, the broker may lose its last records, and the history may then be ahead of the
// topics. An operator must fix that, but deliveries must not wait for it.
func TestAHistoryThatCannotGoOnStopsNothingElse(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--ledger-interval", "200ms"}
	s.start(flags...)
	url := map[string]any{"url": "https://127.0.0.1:8443/hook"}
	var endpoint struct{ ID string }
	if status := s.call("POST", "/v1/endpoints", url, &endpoint); status != http.StatusCreated {
		t.Fatalf("an endpoint was answered %d", status)
	}
	var tested struct{ EventID string }
	testing := "/v1/endpoints/" + endpoint.ID + "/test"
	if status := s.call("POST", testing, struct{}{}, &tested); status != http.StatusOK {
		t.Fatalf("a test was answered %d", status)
	}
	s.eventually("the history holds a test", func() bool {
		return s.call("GET", "/v1/events/"+tested.EventID, nil, nil) == http.StatusOK
	})
	s.interrupt()
	for _, name := range []string{"broker", "secrets/account", "secrets/api-key"} {
		if err := os.RemoveAll(filepath.Join(s.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	s.start(flags...)
	s.eventually("what is wrong, and what to do", func() bool {
		return strings.Contains(s.output.String(), "a part has failed and is restarted") &&
			strings.Contains(s.output.String(), "drop the database")
	})
	status := s.call("GET", "/v1/events/evt_00000000000000000000000000", nil, nil)
	if status != http.StatusServiceUnavailable {
		t.Errorf("the history answered %d", status)
	}
	if status := s.call("POST", "/v1/endpoints", url, nil); status != http.StatusCreated {
		t.Errorf("an endpoint was answered %d", status)
	}
	s.interrupt()
}

func (h *hooks) events() map[string]receiver.Webhook {
	h.mu.Lock()
	defer h.mu.Unlock()
	by := make(map[string]receiver.Webhook)
	for _, w := range h.got {
		by[w.ID] = w
	}
	return by
}

func (h *hooks) has(paymentID string) bool {
	for _, w := range h.events() {
		var event struct {
			Data struct{ Payment struct{ ID string } }
		}
		if json.Unmarshal(w.Body, &event) == nil && event.Data.Payment.ID == paymentID {
			return true
		}
	}
	return false
}

func TestTheDemoShowsTheWholePath(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--ledger-interval", "200ms", "--demo-interval", "300ms")
	for _, word := range []string{
		"observed ", "matched ", "queued ", "received ", "delivered ",
		"valid signature",
	} {
		s.eventually("a line with "+word, func() bool {
			return strings.Contains(s.output.String(), word)
		})
	}
	if s.file.Receiver == nil || s.file.ClickHouse == nil {
		t.Errorf("run.json: %+v", s.file)
	}
	// When the receiver's address changes, the demo's endpoint follows. There must be only one, and
	// nothing may be reported twice.
	receiver := s.file.Receiver.URL
	s.interrupt()
	s.start("--ledger-interval", "200ms", "--demo-interval", "300ms")
	if s.file.Receiver.URL == receiver {
		t.Fatal("the receiver has the same address again")
	}
	s.eventually("three deliveries",
		func() bool { return strings.Count(s.output.String(), "delivered ") >= 3 })
	var endpoints client.List[client.Endpoint]
	s.call("GET", "/v1/endpoints", nil, &endpoints)
	if len(endpoints.Data) != 1 || endpoints.Data[0].URL != s.file.Receiver.URL {
		t.Errorf("endpoints after the move: %+v, want one at %s", endpoints.Data, s.file.Receiver.URL)
	}
	s.interrupt()
	if observed, matched := strings.Count(s.output.String(), "observed "),
		strings.Count(s.output.String(), "matched "); matched > observed {
		t.Errorf("%d payments were matched %d times:\n%s", observed, matched, s.output)
	}
	paidIn := make(map[string]string) // ledger by order
	for _, seen := range regexp.MustCompile(`observed +ledger (\d+): .*(order-\d+)`).
		FindAllStringSubmatch(s.output.String(), -1) {
		ledger, order := seen[1], seen[2]
		if was := paidIn[order]; was != "" && was != ledger {
			t.Errorf("%s was paid in ledgers %s and %s", order, was, ledger)
		}
		paidIn[order] = ledger
	}
	if len(paidIn) == 0 {
		t.Error("no order was paid")
	}
	if _, err := os.Stat(filepath.Join(s.dir, runfile.Name)); !os.IsNotExist(err) {
		t.Errorf("run.json is left behind: %v", err)
	}
}

func TestEveryBadFlagIsNamed(t *testing.T) {
	out, err := program("run", "--data-dir", t.TempDir(), "--api-listen", "nowhere",
		"--retry-schedule", "30s,soon", "--egress-ports", "443,99999",
		"--attempt-timeout", "1ns", "--ledger-interval", "1ms", "--log-level", "loud",
		"--attempts-in-flight", "0",
		"--egress-allow", "10.0.0.1/8", "--egress-deny", "everything", "--dns-server", "dns.example",
		"--egress-proxy", "socks5://user:hidden@proxy:1",
		"--api-tls-cert", "cert.pem", "--api-max-connections-per-client", "0", "--api-trusted-proxies",
		"nginx").CombinedOutput()
	if err == nil {
		t.Fatal("it started")
	}
	for _, flag := range []string{
		"api-listen", "retry-schedule", "egress-ports", "attempt-timeout",
		"ledger-interval", "log-level", "attempts-in-flight", "egress-allow",
		"egress-deny", "dns-server", "egress-proxy", "api-tls-key", "no-demo",
		"api-max-connections-per-client", "api-trusted-proxies",
	} {
		if !strings.Contains(string(out), "--"+flag) {
			t.Errorf("--%s is not named in:\n%s", flag, out)
		}
	}
	if strings.Contains(string(out), "hidden") {
		t.Errorf("a password is repeated in:\n%s", out)
	}
	wallet, seed := keypair.MustRandom().Address(), keypair.MustRandom().Seed()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	pay := func(args ...string) []string {
		return append([]string{"devnet", "pay", "--to", wallet, "--amount", "1"}, args...)
	}
	verify := func(args ...string) []string {
		return append([]string{
			"verify", "--secret", "whsec_a", "--timestamp", "1", "--signature", "v1=00",
			"--body", file,
		}, args...)
	}
	for _, c := range []struct {
		flag string
		args []string
	}{
		{"--data-dir", []string{"run", "--data-dir", ""}},
		{"--data-dir", []string{"run", "--data-dir", file}},
		{"--clickhouse-dsn", []string{"run", "--data-dir", t.TempDir(), "--clickhouse-dsn", "garbage"}},
		{
			"--clickhouse-dsn",
			[]string{
				"run", "--data-dir", t.TempDir(), "--clickhouse-dsn",
				"clickhouse://127.0.0.1:9000/no-name",
			},
		},
		{"--egress-ca", []string{"run", "--data-dir", t.TempDir(), "--egress-ca", "/nowhere"}},
		{"--egress-ca", []string{"run", "--data-dir", t.TempDir(), "--egress-ca", file}},
		{"--no-demo", []string{"run", "--no-demo=perhaps"}},
		{"--demo-interval", []string{"run", "--demo-interval", "1"}},
		{"--data-dir", pay("--data-dir", t.TempDir())},
		{"--data-dir", pay("--data-dir", "")},
		{"--data-dir", pay("--data-dir", file)},
		{"--to", pay("--to", "G123")},
		{"--to", pay("--to", seed)},
		{"--amount", pay("--amount", "0")},
		{"--amount", pay("--amount", "1.12345678")},
		{"--asset", pay("--asset", "USD")},
		{"--asset", pay("--asset", "TOOLONGASSETCODE:"+wallet)},
		{"--asset", pay("--asset", "USD:"+seed)},
		{"--asset", pay("--asset", seed)},
		{"--memo-text", pay("--memo-text", strings.Repeat("x", 29))},
		{"--memo-id", pay("--memo-id", "x")},
		{"--memo-hash", pay("--memo-hash", "00")},
		{"--memo-text", pay("--memo-text", "a", "--memo-id", "1")},
		{"--muxed-id", pay("--muxed-id", "-1")},
		{"--asset", []string{"devnet", "account", "--asset", "USD:" + seed}},
		{
			"--secret-file or --secret is required",
			[]string{"verify", "--timestamp", "1", "--signature", "v1=00"},
		},
		{
			"--secret-file \"/nowhere\"",
			[]string{
				"verify", "--secret-file", "/nowhere", "--timestamp", "1", "--signature", "v1=00",
				"--body", file,
			},
		},
		{
			"contains no secrets",
			[]string{
				"verify", "--secret-file", file, "--timestamp", "1", "--signature", "v1=00",
				"--body", file,
			},
		},
		{
			"both want standard input",
			[]string{"verify", "--secret-file", "-", "--timestamp", "1", "--signature", "v1=00"},
		},
		{"did you mean lumenhook endpoints list?", []string{"endpoints", "lst"}},
		{
			"--api-key is required",
			[]string{"endpoints", "list", "--api-url", "http://127.0.0.1:1", "--data-dir", t.TempDir()},
		},
		{
			"connection refused",
			[]string{"endpoints", "list", "--api-url", "http://127.0.0.1:1", "--api-key", "x"},
		},
		{"connection refused", []string{"topics", "cat", "journal", "--kafka-brokers", "127.0.0.1:1"}},
		{
			"connection refused",
			[]string{"sql", "--clickhouse-dsn", "clickhouse://127.0.0.1:1/x", "SELECT 1"},
		},
		{"--data-dir", []string{"devnet", "account", "--data-dir", file}},
		{"--out", []string{"devnet", "cert", "--out", ""}},
		{"--out is required", []string{"devnet", "cert"}},
		{"nonsense", []string{"devnet", "nonsense"}},
		{"--secret", verify("--secret", "abc")},
		{"--secret", []string{"verify", "--secret", "", "--timestamp", "1", "--signature", "v1=00"}},
		{"--timestamp", verify()},
		{"--timestamp", verify("--timestamp", "12x")},
		{"--timestamp", verify("--timestamp", "0x10", "--any-time")},
		{"--signature", verify("--any-time")},
		{"--body", verify("--body", "/nowhere")},
		{"nonsense", []string{"nonsense"}},
		{"holds no v1=", verify("--any-time", "--signature", "abc")},
		{"ENDPOINT_ID", []string{"endpoints", "get"}},
		{"EVENT_ID", []string{"events", "resend", "evt_1", "evt_2"}},
		{"NAME", []string{"topics", "tail"}},
		{"--limit", []string{"events", "list", "--limit", "0"}},
	} {
		out, err := program(c.args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.flag) {
			t.Errorf("%v: ended with %v, and should name %s:\n%s", c.args, err, c.flag, out)
		}
		if strings.Contains(string(out), seed) {
			t.Errorf("%v: a secret key is repeated:\n%s", c.args, out)
		}
	}
}

// A directory that is still loading knows no key. The service must not reject the folder's key
// because of that.
func TestARunThatLostItsDirectoryKnowsItsKey(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	key := s.file.APIKey
	s.interrupt()
	if err := os.RemoveAll(filepath.Join(s.dir, "state", "directory")); err != nil {
		t.Fatal(err)
	}
	s.start("--no-demo")
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != http.StatusOK ||
		s.file.APIKey != key {
		t.Errorf("the key is answered %d", status)
	}
	s.interrupt()
}

// A folder that has data but lost its master key or API key is rejected and left unchanged, so that
// the file can be restored.
func TestAFolderThatLostItsSecretsIsRefused(t *testing.T) {
	for _, name := range []string{"master-key.json", "api-key"} {
		dir := t.TempDir()
		for _, folder := range []string{"broker", "secrets"} {
			if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range []string{"master-key.json", "api-key"} {
			if other == name {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, "secrets", other), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		missing := filepath.Join(dir, "secrets", name)
		out, err := program(anyPorts(dir, "--no-demo")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), missing+" is missing") {
			t.Errorf("without %s it ended with %v:\n%s", name, err, out)
		}
		if _, err := os.Stat(missing); !os.IsNotExist(err) {
			t.Errorf("%s was made anew (%v)", name, err)
		}
	}
}

// If a given address is in use, the error must name its flag.
func TestATakenAddressIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for _, part := range []string{
		"api", "kafka", "stellar", "receiver", "metrics", "clickhouse-native",
		"clickhouse-http",
	} {
		flag := "--" + part + "-listen"
		out, err := program(anyPorts(dir, flag, taken.Addr().String())...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), flag) {
			t.Errorf("%s: ended with %v, and should name the flag:\n%s", flag, err, out)
		}
	}
}
