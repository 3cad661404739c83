package engine_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// engineVariable turns the test binary into an engine. Its value is an [engineProcess] as JSON.
const engineVariable = "LUMENHOOK_TEST_ENGINE"

type engineProcess struct {
	Brokers          []string
	Prefix, StateDir string
	ReceiverURL      string
	ReceiverCert     []byte // PEM
	WaitMillis       int64
}

// runEngine is the main function of an engine process. It stops when its standard input is closed,
// so that no engine outlives the test.
func runEngine(settings string) error {
	var s engineProcess
	if err := json.Unmarshal([]byte(settings), &s); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.ReceiverCert)
	client, err := egressTo(s.ReceiverURL, roots, 0)
	if err != nil {
		return err
	}
	r := &rig{cluster: kafka.Cluster{
		Brokers:  s.Brokers,
		Prefix:   s.Prefix,
		ClientID: "process",
		Logger:   slog.New(slog.DiscardHandler),
	}}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	d := egress.NewDispatcher(context.Background(), client, time.Now)
	return engine.New(r.config(s.StateDir, retryingAfter(s.WaitMillis), d)).Run(ctx)
}

func retryingAfter(waitMillis int64) domain.Policy {
	return domain.Policy{Schedule: domain.Schedule{WaitsMillis: []int64{waitMillis}}}
}

// startProcess runs an engine in a separate process, which stops gracefully at the end of the test.
func (r *rig) startProcess(waitMillis int64) *exec.Cmd {
	r.t.Helper()
	settings, err := json.Marshal(engineProcess{
		Brokers:     r.cluster.Brokers,
		Prefix:      r.cluster.Prefix,
		StateDir:    r.t.TempDir(),
		ReceiverURL: r.receiver.server.URL,
		WaitMillis:  waitMillis,
		ReceiverCert: pem.EncodeToMemory(&pem.Block{
			Type:  "CERTIFICATE",
			Bytes: r.receiver.server.Certificate().Raw,
		}),
	})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), engineVariable+"="+string(settings))
	cmd.Stderr = r.t.Output()
	stdin, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		r.signal(cmd, syscall.SIGCONT)
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			r.t.Errorf("the engine's process ended: %v", err)
		}
	})
	return cmd
}

func (r *rig) signal(cmd *exec.Cmd, s syscall.Signal) {
	r.t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

// pause stops a process with SIGSTOP and waits until it has stopped.
func (r *rig) pause(cmd *exec.Cmd) {
	r.t.Helper()
	r.signal(cmd, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil ||
		!status.Stopped() {
		r.t.Fatalf("the process does not stand still: %v, %v", status, err)
	}
}

// While one engine is paused for longer than its session, another engine makes the due attempts.
// When the paused engine resumes, its state says that all of them are overdue, but it must not make
// them.
func TestAPausedEngineThatWakesStartsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.receiver.status = func(attempt int) int {
		if attempt == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	}
	const events = 20
	wait := (brokertest.Patience / 10).Milliseconds() // time to pause it before retries are due
	process := r.startProcess(wait)
	id := r.endpoint(1)
	r.openWindow(id)
	r.receiver.answer(nil)
	ids := r.pay(id, 1, events)
	r.eventuallyIn(id, domain.StateWaiting, events)
	r.pause(process)

	stop := r.startWith(t.TempDir(), retryingAfter(wait))
	r.eventuallyIn(id, domain.StateDelivered, opening+events)
	r.signal(process, syscall.SIGCONT)
	stop()

	// The engine works again when it gets its partitions back.
	r.pay(id, 1000, 1)
	r.eventuallyIn(id, domain.StateDelivered, opening+events+1)
	_, deliveries := r.fold(id)
	for _, event := range ids {
		if posts := r.receiver.attempts(event); posts != 2 || deliveries[event].Attempts != 2 {
			t.Errorf("%s: %d posts, and %d attempts in the journal",
				event, posts, deliveries[event].Attempts)
		}
	}
}
