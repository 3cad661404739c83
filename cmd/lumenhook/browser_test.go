//go:build browser

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/stellar/source/rpc"
)

// hostilePage sends every kind of request that a page can make its visitor's browser send.
//
//go:embed testdata/hostile.html
var hostilePage []byte

type attacked struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Body string `json:"body"`
}

// report is the result of one attack: its target, how it was made, and what the page could read.
type report struct {
	Name, How, Read string
}

// browser runs Chromium on a page with its own profile until done is closed or Chromium exits, and
// returns its output.
func browser(t *testing.T, done <-chan struct{}, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install chromium")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
		"--user-data-dir=" + t.TempDir(),
		"--host-resolver-rules=MAP evil.test 127.0.0.1", "--ignore-certificate-errors",
	}, args...)...)
	// A separate process group, so that all of its processes can be killed.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = 5 * time.Second
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-done:
			cancel()
		case <-ended:
		}
	}()
	out, err := c.Output()
	if ctx.Err() == context.DeadlineExceeded {
		t.Fatalf("Chromium did not end: %v\n%s", err, out)
	}
	return string(out)
}

func attackWith(t *testing.T, host string, targets []attacked) []report {
	t.Helper()
	done := make(chan struct{})
	var reports []report
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(hostilePage)
	})
	mux.HandleFunc("GET /targets",
		func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(targets) })
	mux.HandleFunc("POST /report", func(w http.ResponseWriter, r *http.Request) {
		defer close(done)
		if err := json.NewDecoder(r.Body).Decode(&reports); err != nil {
			t.Error(err)
		}
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	browser(t, done, "http://"+net.JoinHostPort(host, port)+"/")
	select {
	case <-done:
	default:
		t.Fatalf("the page at %s has not reported", host)
	}
	return reports
}

// In a real browser, pages on another port and on another site must not read anything from any port
// or change anything there. An unprotected server shows that the attacks do arrive.
func TestBrowserPagesReachNoPort(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--ledger-interval", "200ms", "--demo-interval", "1h")
	defer s.interrupt()
	outside := filepath.Join(t.TempDir(), "written-by-a-page")
	write := "INSERT INTO FUNCTION file('" + outside + "', 'TSV', 'x String') SELECT 'x'"
	var arrived atomic.Int64
	open := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = io.WriteString(w, "the control's answer")
	}))
	defer open.Close()
	targets := []attacked{
		{"control", open.URL + "/", "x"},
		{"api", s.file.APIURL + "/v1/openapi.yaml", "{}"}, {"api", s.file.APIURL + "/healthz", "{}"},
		{"friendbot", s.file.Stellar.FriendbotURL + "?addr=" + strangerWallet, ""},
		{"rpc", s.file.Stellar.RPCURL + "/", `{"jsonrpc":"2.0","id":1,"method":"getHealth"}`},
		{"receiver", s.file.Receiver.URL, "{}"}, {"metrics", s.file.MetricsURL, ""},
		{"clickhouse", s.file.ClickHouse.HTTP + "/", write},
		{"clickhouse", s.file.ClickHouse.HTTP + "/?user=default&query=" + url.QueryEscape(write), ""},
		{"clickhouse", s.file.ClickHouse.HTTP + "/?add_http_cors_header=1&query=SELECT+1", ""},
		{"clickhouse native", "http://" + s.file.ClickHouse.Native + "/", write},
		{"kafka", "http://" + s.file.KafkaBrokers[0] + "/", "x"},
	}
	for _, host := range []string{"127.0.0.1", "evil.test"} {
		before := arrived.Load()
		read := map[string]bool{}
		for _, r := range attackWith(t, host, targets) {
			t.Logf("a page at %s: %s by %s: %.80q", host, r.Name, r.How, r.Read)
			read[r.Name] = read[r.Name] || r.Read != ""
			if r.Read != "" && r.Name != "control" {
				t.Errorf("a page at %s read of %s by %s: %s", host, r.Name, r.How, r.Read)
			}
		}
		if n := arrived.Load() - before; n < 5 || !read["control"] {
			t.Errorf("only %d attacks of a page at %s arrived at the control, read: %v", n, host,
				read["control"])
		}
	}
	if _, err := os.Stat(outside); !os.IsNotExist(err) {
		t.Errorf("a page wrote a file (%v)", err)
	}
	accounts, err := rpc.NewAccounts(s.file.Stellar.NetworkPassphrase, s.file.Stellar.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	if held, err := accounts.Holdings(t.Context(), strangerWallet, nil); err != nil || held.Exists {
		t.Errorf("the attacks created an account: %+v, %v", held, err)
	}
}

// A page whose name was rebound to 127.0.0.1 has the same origin as the port, but may only read a
// refusal.
func TestBrowserReboundNamesReadNothing(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--ledger-interval", "200ms", "--demo-interval", "1h")
	defer s.interrupt()
	for name, target := range map[string]struct{ url, want string }{
		"api":        {s.file.APIURL + "/healthz", "HOST_NOT_ALLOWED"},
		"docs":       {s.file.APIURL + "/docs", "HOST_NOT_ALLOWED"},
		"friendbot":  {s.file.Stellar.FriendbotURL + "?addr=" + strangerWallet, "HOST_NOT_ALLOWED"},
		"rpc":        {s.file.Stellar.RPCURL + "/", "HOST_NOT_ALLOWED"},
		"metrics":    {s.file.MetricsURL, "HOST_NOT_ALLOWED"},
		"receiver":   {s.file.Receiver.URL, "HOST_NOT_ALLOWED"},
		"clickhouse": {s.file.ClickHouse.HTTP + "/?query=SELECT+42", "Name a user and a password"},
	} {
		u, err := url.Parse(target.url)
		if err != nil {
			t.Fatal(err)
		}
		u.Host = net.JoinHostPort("evil.test", u.Port())
		shown := browser(t, nil, "--dump-dom", u.String())
		if !strings.Contains(shown, target.want) {
			t.Errorf("%s: the browser was shown %s", name, fmt.Sprintf("%.400q", shown))
		}
	}
	if shown := browser(t, nil, "--dump-dom", s.file.APIURL+"/healthz"); strings.Contains(shown,
		"NOT_ALLOWED") || !strings.Contains(shown, "ok") {
		t.Errorf("a person who types the address is shown %.400q", shown)
	}
}
