package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

// newStarting serves the operations endpoints of a process whose two roles have not started, and
// returns their address. Tests change the configuration with more.
func newStarting(t *testing.T, more ...func(*node.Config)) (address string) {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	stack := &node.Stack{Failed: func(err error) { t.Error(err) }, Logger: logger}
	t.Cleanup(stack.Stop)
	say := func(string, ...any) {}
	cfg := node.Config{
		StateDir: t.TempDir(),
		Metrics:  node.NewMetrics(),
		Now:      time.Now,
		Logger:   logger,
		Say:      say,
		Disk:     node.NewDiskGuard(t.TempDir(), 1, say, logger),
		Roles:    []node.Role{node.RoleEngine, node.RoleMailer},
	}
	for _, change := range more {
		change(&cfg)
	}
	address, err := node.New(cfg, stack).ServeOperations("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func health(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	line := commandLine(append([]string{"health"}, args...))
	line.Root.SetOut(&stdout)
	line.Stderr = &stderr
	code = cli.Execute(t.Context(), line)
	return code, stdout.String(), stderr.String()
}

// A process that responds but does not do its work must not be healthy.
func TestHealthSaysWhichPartIsNotWell(t *testing.T) {
	address := newStarting(t)
	code, out, said := health(t, "--metrics-listen", address)
	const why = "engine: not started yet; mailer: not started yet"
	if code != cli.ExitFailure || !strings.Contains(said, "the process is not ready: "+why) {
		t.Errorf("%d: %s", code, said)
	}
	if !strings.Contains(out, "disk    ok") || !strings.Contains(out, "mailer  failed") {
		t.Errorf("printed is\n%s", out)
	}
	code, out, _ = health(t, "--metrics-listen", address, "--json")
	var got config.Health
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitFailure {
		t.Fatalf("%d, %v: %s", code, err, out)
	}
	if got.Status != "not ready" || len(got.Checks) != 3 || got.URL != "http://"+address+"/readyz" {
		t.Errorf("%+v", got)
	}
	if code, _, said := health(t, "--metrics-listen", address, "--alive"); code != 0 {
		t.Errorf("it does not answer: %d, %s", code, said)
	}
}

// A probe of a `serve` process finds its address in the configuration of that process.
func TestHealthAsksWhereTheFileHasTheProcessListen(t *testing.T) {
	_, port, err := net.SplitHostPort(newStarting(t))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lumenhook.yaml")
	text := "metrics-listen: 0.0.0.0:" + port + "\nnetwork: testnet\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, said := health(t, "--config", file, "--alive", "--field", "url")
	if code != 0 || out != "http://127.0.0.1:"+port+"/healthz\n" {
		t.Errorf("%d: %s%s", code, out, said)
	}
	t.Setenv("LUMENHOOK_METRICS_LISTEN", "127.0.0.1:1")
	code, _, said = health(t, "--config", file, "--alive")
	if code != cli.ExitFailure || !strings.Contains(said, "127.0.0.1:1: connection refused") {
		t.Errorf("%d: %s", code, said)
	}
}

// A process that hangs and a process that is not Lumenhook must not be healthy.
func TestHealthIsAnsweredInTimeByAProcessOfOurs(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	hangs, other := listen(), listen() // the kernel accepts connections for the one that hangs
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(other) }()
	t.Cleanup(func() { _ = server.Close() })
	for said, args := range map[string][]string{
		"timed out":           {"--metrics-listen", hangs.Addr().String(), "--timeout", "50ms"},
		"unexpected response": {"--metrics-listen", other.Addr().String()},
	} {
		says(t, cli.ExitFailure, said, []string{"health"}, args...)
	}
}

// A service must not be healthy because the service of another folder responds at its address, or
// because another one runs while it is stopped.
func TestHealthSpeaksForItsOwnFolder(t *testing.T) {
	other, mine := t.TempDir(), t.TempDir()
	address := newStarting(t, func(c *node.Config) { c.RunDir = other })
	folder, err := runfile.Open(mine)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := folder.APIKey(false); err != nil {
		t.Fatal(err)
	}
	file := runfile.File{MetricsURL: "http://" + address + "/metrics", PID: os.Getpid()}
	if err := folder.Publish(file); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LUMENHOOK_DATA_DIR", mine)
	for _, args := range [][]string{nil, {"--alive"}} {
		says(t, cli.ExitFailure, "is answered by the service of "+other, []string{"health"}, args...)
	}
	// If the address is given, a service of any folder counts.
	if code, _, said := health(t, "--metrics-listen", address, "--alive"); code != 0 {
		t.Errorf("%d: %s", code, said)
	}
	if err := errors.Join(folder.Unpublish(), folder.Close()); err != nil {
		t.Fatal(err)
	}
	says(t, cli.ExitFailure, "has been stopped", []string{"health"})
}
