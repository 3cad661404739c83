package bench

import (
	"context"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

var program = flag.String("service", "../../../bin/lumenhook", "the program that is measured")

const lookEvery = 20 * time.Millisecond

// metrics maps units to the results of a benchmark.
type metrics map[string]float64

func measured(measure func(*lab) metrics) func(*testing.B) {
	return func(b *testing.B) {
		for b.Loop() {
			for unit, value := range measure(newLab(b)) {
				b.ReportMetric(value, unit)
			}
		}
		b.ReportMetric(0, "ns/op")
	}
}

// lab is a receiver, and a folder for the services that send to it.
type lab struct {
	testing.TB
	receiver
	dir   string
	runs  int // number of runs, so that each has different events
	roots string
}

func newLab(t testing.TB) *lab {
	l := &lab{TB: t, dir: t.TempDir(), receiver: newReceiver(t)}
	l.roots = filepath.Join(l.dir, "receiver.pem")
	certificate := pem.EncodeToMemory(&pem.Block{
		Type:  "CERTIFICATE",
		Bytes: l.server.Certificate().Raw,
	})
	must(t, os.WriteFile(l.roots, certificate, 0o600))
	return l
}

// ownRun returns a unique name for a run, so that no other run has its events, not even in a
// folder that is kept.
func (l *lab) ownRun(name string) string {
	l.runs++
	return fmt.Sprintf("%s %s %d", name, l.dir, l.runs)
}

// service is the real program on a data folder.
type service struct {
	*lab
	cmd      *exec.Cmd
	began    time.Time
	ended    chan error
	log      string
	dir      string
	run      runfile.File
	payments payments
	since    time.Time // when the expected deliveries began
	before   int       // rows in the history at that time
	expected int       // attempts that the history should have gained since then
	others   func() map[string][]int
}

// start starts the program. It stops at the end of the test at the latest.
func (l *lab) start(dir string, env []string, args ...string) *service {
	l.Helper()
	s := &service{lab: l, dir: dir, log: dir + ".log", ended: make(chan error, 1)}
	s.others = func() map[string][]int {
		return map[string][]int{"ClickHouse": descendants(s.cmd.Process.Pid)}
	}
	must(l, os.MkdirAll(dir, 0o700))
	log, err := os.Create(s.log)
	must(l, err)
	s.cmd = exec.Command(*program, args...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = log, log, subprocess.Killed()
	s.began = time.Now()
	must(l, s.cmd.Start())
	go func() {
		s.ended <- s.cmd.Wait()
		close(s.ended)
		_ = log.Close()
	}()
	l.Cleanup(func() {
		s.stop()
		if l.Failed() {
			l.Logf("the service said: %s", s.lastWords())
		}
	})
	return s
}

// stop stops the program cleanly. Calling it again has no effect.
func (s *service) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended
	if err := <-s.ended; err != nil {
		s.Errorf("the service ended: %v\n%s", err, s.lastWords())
	}
}

func (s *service) lastWords() []byte {
	const most = 2000
	text, _ := os.ReadFile(s.log)
	return text[max(0, len(text)-most):]
}

// serve starts `lumenhook run` on an empty folder, with the given number of endpoints.
func (l *lab) serve(endpoints int, args ...string) *service {
	l.Helper()
	s := l.startRun(filepath.Join(l.dir, l.ownName("service")), args...)
	s.createEndpoints(endpoints)
	s.begin()
	return s
}

func (l *lab) ownName(kind string) string {
	l.runs++
	return kind + "-" + strconv.Itoa(l.runs)
}

// startRun starts `lumenhook run` and waits until its history answers queries.
func (l *lab) startRun(dir string, args ...string) *service {
	l.Helper()
	args = append([]string{"run", "--data-dir", dir, "--log-format", "text", "--no-demo",
		"--egress-ports", "1-65535",
		"--egress-ca", l.roots}, args...)
	for _, part := range []string{
		"api", "metrics", "kafka", "stellar", "receiver", "clickhouse-native", "clickhouse-http",
	} {
		args = append(args, "--"+part+"-listen", "127.0.0.1:0")
	}
	s := l.start(dir, nil, args...)
	s.await(func() (err error) {
		if s.run, err = runfile.Read(dir); err != nil {
			return err
		}
		if s.run.ClickHouse == nil || s.run.PID != s.cmd.Process.Pid {
			return fmt.Errorf("run.json is of process %d", s.run.PID)
		}
		_, err = s.rows()
		return err
	})
	return s
}

func (s *service) await(ready func() error) {
	s.Helper()
	testkit.EventuallyNil(s, "the service is ready", func() error {
		select {
		case err := <-s.ended:
			s.Fatalf("the service ended: %v\n%s", err, s.lastWords())
		default:
		}
		return ready()
	})
}

func (s *service) api() *client.Client {
	api, err := client.New(s.run.APIURL, s.run.APIKey, nil)
	must(s, err)
	return api
}

func (s *service) createEndpoints(n int) {
	s.Helper()
	s.payments = payments{account: s.run.AccountID}
	for i := range n {
		made, err := s.api().CreateEndpoint(s.Context(),
			client.EndpointCreate{URL: s.server.URL + "/" + strconv.Itoa(i)})
		must(s, err)
		s.payments.endpoints = append(s.payments.endpoints, made.ID)
	}
}

func (s *service) producer() *kafka.Producer {
	s.Helper()
	producer, err := s.cluster("lumenhook.").NewProducer()
	must(s, err)
	return producer
}

func (s *service) cluster(prefix string) kafka.Cluster {
	return kafka.Cluster{
		Brokers:  s.run.KafkaBrokers,
		Prefix:   prefix,
		ClientID: "bench",
		SASL:     s.run.Kafka.SASL(),
		Logger:   discarded,
	}
}

// begin records the contents of the history before any delivery.
func (s *service) begin() {
	s.Helper()
	rows, err := s.rows()
	must(s, err)
	s.since, s.expected, s.before = time.Now(), 0, rows
}

// awaitHistory waits until the history has a successful attempt for each of n more events.
func (s *service) awaitHistory(n int) {
	s.Helper()
	s.expected += n
	deadline := time.Now().Add(10 * time.Minute)
	for latest, at := -1, time.Now(); ; {
		rows, err := s.rows()
		must(s, err)
		if rows != latest {
			latest, at = rows, time.Now()
		}
		// The exact count is expensive, so it comes second. A row may temporarily exist twice.
		if rows >= s.before+s.expected || time.Since(at) > time.Second {
			delivered, err := s.ask(fmt.Sprintf("SELECT uniqExact(event_id) FROM attempts "+
				"WHERE endpoint_id IN ('%s') AND sent_at >= fromUnixTimestamp64Milli(%d) "+
				"AND state = 'DELIVERED'", strings.Join(s.payments.endpoints, "', '"),
				s.since.UnixMilli()))
			must(s, err)
			if delivered >= s.expected {
				return
			}
			at = time.Now()
		}
		if time.Now().After(deadline) {
			s.Fatalf("the history has %d more rows, want %d", rows-s.before, s.expected)
		}
		<-time.After(lookEvery)
	}
}

// rows returns the number of rows in the attempts table, which is a cheap query.
func (s *service) rows() (int, error) { return s.ask("SELECT count() FROM attempts") }

func (s *service) ask(query string) (int, error) {
	address := s.run.ClickHouse.HTTP
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	address += "/?database=" + url.QueryEscape(s.run.ClickHouse.Database)
	// When a cleanup stops the service, the benchmark's context has already ended.
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address,
		strings.NewReader(query))
	if err != nil {
		return 0, err
	}
	r.SetBasicAuth(s.run.ClickHouse.Reader.User, s.run.ClickHouse.Reader.Password)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the history answered %s: %s, %w", resp.Status, text, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// used returns the processor time of each process so far, in microseconds. "load" is this
// process, which contains the load and the receiver.
func (s *service) used() metrics {
	s.Helper()
	by := metrics{
		"load":    micros(testkit.ProcessorTime(s)),
		"service": micros(testkit.ProcessorTimeOf(s, s.cmd.Process.Pid)),
	}
	for name, pids := range s.others() {
		for _, pid := range pids {
			by[name] += micros(testkit.ProcessorTimeOf(s, pid))
		}
	}
	return by
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// memory returns a line of /proc/PID/status for the service and its children, in MiB.
func (s *service) memory(line string) metrics {
	s.Helper()
	by := metrics{"service": s.status(s.cmd.Process.Pid, line)}
	for name, pids := range s.others() {
		for _, pid := range pids {
			by[name] += s.status(pid, line)
		}
	}
	return by
}

func (s *service) status(pid int, line string) float64 {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(s, err)
	_, rest, found := strings.Cut(string(text), "\n"+line+":")
	var kib float64
	if _, err := fmt.Sscan(rest, &kib); !found || err != nil {
		s.Fatalf("/proc/%d/status has no %s: %v", pid, line, err)
	}
	return kib / 1024
}

func descendants(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may have ended
		for _, child := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(child); err == nil {
				pids = append(pids, n)
			}
		}
	}
	for _, child := range slices.Clone(pids) {
		pids = append(pids, descendants(child)...)
	}
	return pids
}

func (s *service) kill() {
	s.Helper()
	must(s, s.cmd.Process.Signal(syscall.SIGKILL))
	<-s.ended
}
