//go:build browser

package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// picturesVariable names the folder in which the test keeps pictures of each page.
const picturesVariable = "CONSOLE_PICTURES"

// hostileMemo fits into a text memo, which has at most 28 bytes.
const hostileMemo = `"><img src=x onerror=hit=1>`

type watchedShop struct {
	Endpoint string `json:"endpoint"`
	Watch    string `json:"watch"`
	URL      string `json:"url"`
	Wallet   string `json:"wallet"`

	// Text that others control.
	Label  string `json:"label"`
	Memo   string `json:"memo"`
	Answer string `json:"answer"`
}

type consoleRig struct {
	*testService
	answers atomic.Int64 // status that the shop's receiver answers with
	shops   map[string]*watchedShop
}

// TestBrowserPersonAtTheConsole signs in, sees payments arrive without reloading the page, resends,
// disables, enables and replays, in a real Chromium. Each page is checked against axe's rules, and
// must show content by others as text.
func TestBrowserPersonAtTheConsole(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install chromium")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "console"))); err != nil {
		t.Fatal(err)
	}
	if _, err := command(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: t.TempDir()}
	var screen testkit.Buffer // the sign-in link is printed only on a terminal
	master, terminal := openPTY(t)
	defer master.Close()
	defer terminal.Close()
	go func() { _, _ = io.Copy(&screen, master) }() // ends with the terminal
	s.stdout = terminal
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms",
		"--balance-moves", "--retry-schedule", "500ms", "--attempt-timeout", "2s")
	defer s.interrupt()
	r := &consoleRig{testService: s, shops: make(map[string]*watchedShop)}
	r.answers.Store(http.StatusOK)
	r.openShop("shop", "Orders of the web shop", watchedShop{
		Label:  "Web shop",
		Answer: "thank you",
	})
	r.openShop("hostile", "<script>hit=1</script>", watchedShop{
		Label:  `"><img src=x onerror=hit=1><script>hit=1</script>`,
		Memo:   hostileMemo,
		Answer: `</pre></main><script>window.hit=1</script><svg onload=hit=1>`,
	})
	control := httptest.NewServer(http.HandlerFunc(r.control))
	defer control.Close()
	link := regexp.MustCompile(`http\S+/console/link\S+`)
	s.eventually("the link", func() bool { return link.MatchString(screen.String()) })
	r.visit(dir, map[string]any{
		"api": s.file.APIURL, "key": s.file.APIKey, "link": link.FindString(screen.String()),
		"chromium": chromium, "pictures": r.pictures(), "control": control.URL,
		// To a browser, localhost is another site than the console's 127.0.0.1.
		"elsewhere": strings.Replace(control.URL, "127.0.0.1", "localhost", 1),
		"shop":      r.shops["shop"], "hostile": r.shops["hostile"],
	})
}

func (r *consoleRig) visit(dir string, on map[string]any) {
	r.t.Helper()
	args, err := json.Marshal(on)
	if err != nil {
		r.t.Fatal(err)
	}
	if said, err := command(dir, "node", "console.mjs", string(args)); err != nil {
		r.t.Fatalf("%v\n%s", err, said)
	}
}

func (r *consoleRig) pictures() string {
	if dir := os.Getenv(picturesVariable); dir != "" {
		return dir
	}
	return r.t.TempDir()
}

func (r *consoleRig) openShop(name, description string, shop watchedShop) {
	r.t.Helper()
	ca, err := keys.LoadOrCreateCA(filepath.Join(r.dir, "secrets"), filepath.Join(r.dir, "ca.pem"),
		time.Now)
	if err != nil {
		r.t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			status := int(r.answers.Load())
			if name == "hostile" {
				status = http.StatusTeapot
			}
			w.Header().Set("X-Answer", "<script>hit=1</script>")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, shop.Answer)
		}))
	cert, err := ca.Issue()
	if err != nil {
		r.t.Fatal(err)
	}
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	server.StartTLS()
	r.t.Cleanup(server.Close)
	var made struct{ ID string }
	if status := r.call("POST", "/v1/endpoints", map[string]any{
		"url": server.URL + "/webhooks", "description": description,
		"headers": map[string]string{"X-Shop": "<script>hit=1</script>"},
	}, &made); status != http.StatusCreated {
		r.t.Fatalf("the endpoint was answered %d", status)
	}
	shop.Endpoint = made.ID
	var wallet struct{ Address string }
	r.devnet(&wallet, "account", "--json")
	shop.Wallet, shop.URL = wallet.Address, server.URL+"/webhooks"
	if status := r.call("POST", "/v1/watches", map[string]any{
		"walletAddress": wallet.Address, "endpointId": made.ID, "label": shop.Label,
		"assets": []map[string]any{{"code": "XLM", "issuer": nil}},
	}, &made); status != http.StatusCreated {
		r.t.Fatalf("the watch was answered %d", status)
	}
	shop.Watch = made.ID
	r.shops[name] = &shop
}

// control does what the script can't: it pays, sets the receiver's answers, and pauses the history.
// It also serves a page of another site.
func (r *consoleRig) control(w http.ResponseWriter, q *http.Request) {
	switch at := q.URL.Path; at {
	case "/pay":
		r.devnet(nil, "pay", "--to", r.shops[q.FormValue("to")].Wallet,
			"--amount", q.FormValue("amount"), "--memo-text", q.FormValue("memo"))
	case "/receiver":
		status, err := strconv.Atoi(q.FormValue("answers"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.answers.Store(int64(status))
	case "/history":
		if err := r.signalHistory(q.FormValue("is")); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	case "/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<title>Elsewhere</title><a href="`+r.file.APIURL+
			`/console/events">Console</a><form method="post" action="`+r.file.APIURL+
			`/console/endpoints/`+r.shops["shop"].Endpoint+`/disable"><button>Forged</button></form>`)
	default:
		http.NotFound(w, q)
	}
}

func (r *consoleRig) signalHistory(is string) error {
	signal, known := map[string]syscall.Signal{
		"away": syscall.SIGSTOP, "back": syscall.SIGCONT,
	}[is]
	if !known {
		return fmt.Errorf("the history cannot be %q", is)
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", r.cmd.Process.Pid))
	if err != nil {
		return err
	}
	var children []string
	for _, list := range lists {
		of, err := os.ReadFile(list)
		if err != nil {
			return err
		}
		children = append(children, strings.Fields(string(of))...)
	}
	if len(children) != 1 {
		return fmt.Errorf("the service has the children %v, not ClickHouse alone", children)
	}
	pid, err := strconv.Atoi(children[0])
	if err != nil {
		return err
	}
	return syscall.Kill(pid, signal)
}
