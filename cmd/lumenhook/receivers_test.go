//go:build receivers

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// kits is the folder of the receiver kits, one per language, with an example per framework.
// TestReceiverKitsConform holds them all to the same rules.
const kits = "../../examples/receivers"

// kit is a receiver kit. What it installs and builds stays in its folder, where git ignores it.
type kit struct {
	dir     string
	lock    string     // lock file of what is installed
	fetch   []string   // installs it, again only when the file changes
	prepare [][]string // builds the kit and its examples
	check   [][]string // its own tests of published vectors and event types
	env     []string
	apps    []kitApp
}

// kitApp is an example with its command in the kit's folder. It reads PORT, DATABASE,
// LUMENHOOK_SECRET_FILE and WORKER, and shows what it did at /processed.
type kitApp struct {
	name string
	run  []string
}

// pipInstall installs the packages of a lock file, checked by hash, into the kit's folder.
var pipInstall = []string{
	"python3", "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary", ":all:",
	"--upgrade", "--target", "build/deps", "--requirement", "requirements.txt",
}

var allKits = []kit{
	{
		dir:     kits + "/go",
		prepare: [][]string{{"go", "build", "-o", "build/example", "./example"}},
		check:   [][]string{{"go", "test", "./..."}},
		apps:    []kitApp{{"net-http", []string{"build/example"}}},
	},
	{
		dir:   kits + "/python",
		lock:  "requirements.txt",
		fetch: pipInstall,
		check: [][]string{{"python3", "-m", "unittest", "discover", "-s", "tests"}},
		env:   []string{"PYTHONPATH=src:build/deps"},
		apps: []kitApp{
			{"flask", []string{"python3", "examples/flask_app.py"}},
			{"fastapi", []string{"python3", "examples/fastapi_app.py"}},
			{"django", []string{"python3", "examples/django_app.py"}},
		},
	},
	{
		dir:   kits + "/javascript",
		lock:  "package-lock.json",
		fetch: []string{"npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"},
		prepare: [][]string{
			{"node", "node_modules/typescript/bin/tsc"},
			{"node", "node_modules/next/dist/bin/next", "build", "examples/next"},
		},
		check: [][]string{{"node", "--test", "test/"}},
		env:   []string{"NEXT_TELEMETRY_DISABLED=1", "NODE_ENV=production"},
		apps: []kitApp{
			{"express", []string{"node", "examples/express.js"}},
			{"fastify", []string{"node", "examples/fastify.js"}},
			{"next", []string{
				"sh", "-c",
				`exec node node_modules/next/dist/bin/next start examples/next --hostname 127.0.0.1 --port $PORT`,
			}},
		},
	},
	{
		dir:     kits + "/rust",
		prepare: [][]string{{"cargo", "build", "--quiet", "--example", "axum"}},
		check:   [][]string{{"cargo", "test", "--quiet", "--test", "published"}},
		env:     []string{"CARGO_TARGET_DIR=build"},
		apps:    []kitApp{{"axum", []string{"build/debug/examples/axum"}}},
	},
	{
		dir:   kits + "/java",
		lock:  "pom.xml",
		fetch: []string{"mvn", "-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=build/lib"},
		prepare: [][]string{
			{"mvn", "-q", "-B", "package"}, // as merchants build it
			{
				"sh", "-c", "javac --release 17 -parameters -d build/classes -cp 'build/lib/*'" +
					" src/main/java/com/lumenhook/receiver/*.java example/*.java check/*.java",
			},
		},
		check: [][]string{{
			"java", "-cp", "build/classes:build/lib/*", "Published", "../../../schemas/vectors",
		}},
		apps: []kitApp{{"spring", []string{"java", "-cp", "build/classes:build/lib/*", "Shop"}}},
	},
}

// TestReceiverKitsConform checks that each example accepts and refuses the right requests, and
// processes each event once, wherever it is killed. It must also accept a payment from the program
// itself.
func TestReceiverKitsConform(t *testing.T) {
	var preparing errgroup.Group
	for _, k := range allKits {
		preparing.Go(k.install)
	}
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms")
	var apps []*receiverApp
	for _, k := range allKits {
		for _, a := range k.apps {
			apps = append(apps, s.newReceiverApp(k, a))
		}
	}
	if err := preparing.Wait(); err != nil {
		t.Fatal(err)
	}
	t.Run("kits", func(t *testing.T) {
		for _, a := range apps {
			t.Run(a.name, func(t *testing.T) {
				t.Parallel()
				a.t = t
				a.conforms(s)
			})
		}
	})
}

// Lock files identify packages by hash and name no registry, because that is the merchant's choice.
func TestReceiverKitsLocksNameNoPlace(t *testing.T) {
	for _, file := range []string{
		kits + "/python/requirements.txt", "../../api/clients/python/requirements.txt",
		kits + "/javascript/package-lock.json", "../../api/clients/typescript/package-lock.json",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "--") || strings.Contains(line, `"resolved"`) {
				t.Errorf("%s: %s", file, line)
			}
		}
	}
}

func (k kit) install() error {
	if err := k.fetchOnce(); err != nil {
		return err
	}
	for _, args := range slices.Concat(k.prepare, k.check) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = k.dir, append(os.Environ(), k.env...)
		cmd.SysProcAttr = subprocess.Killed() // builds take minutes, and the tests may be killed
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %v: %w\n%s", k.dir, args, err, out)
		}
	}
	return nil
}

func (k kit) fetchOnce() error {
	if k.lock == "" {
		return nil
	}
	lock, err := os.ReadFile(filepath.Join(k.dir, k.lock))
	if err != nil {
		return err
	}
	installed := filepath.Join(k.dir, "build", "installed")
	if last, err := os.ReadFile(installed); err == nil && bytes.Equal(last, lock) {
		return nil
	}
	if _, err := command(k.dir, k.fetch...); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(installed), 0o755); err != nil {
		return err
	}
	return os.WriteFile(installed, lock, 0o600)
}

type receiverApp struct {
	t       *testing.T
	name    string
	dir     string // of its kit
	run     []string
	env     []string
	own     string // folder of its secret file and its database
	held    []domain.Secret
	wallet  string
	port    atomic.Pointer[string]
	process *receiverProcess
	sent    int
}

// newReceiverApp creates an endpoint for an example, and a watch of a wallet. The endpoint's HTTPS
// address leads to the example through a proxy.
func (s *testService) newReceiverApp(k kit, app kitApp) *receiverApp {
	a := &receiverApp{
		name: filepath.Base(k.dir) + "/" + app.name,
		dir:  k.dir,
		run:  app.run,
		env:  k.env,
		own:  s.t.TempDir(),
		held: []domain.Secret{"whsec_of_the_time_before"},
	}
	proxy := httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", *a.port.Load())})
	}}
	hook := serveTLS(s.t.(*testing.T), s.dir, proxy.ServeHTTP) + "/webhooks"
	secrets := filepath.Join(a.own, "secrets")
	if err := os.WriteFile(secrets, []byte(a.held[0]+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", hook, "--secret-out", secrets)
	text, err := os.ReadFile(secrets)
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.FieldsSeq(string(text)) {
		a.held = append(a.held, domain.Secret(line))
	}
	a.held = a.held[1:]
	if len(a.held) != 2 {
		s.t.Fatalf("the example is to hold two secrets, and not %d", len(a.held))
	}
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	a.wallet = wallet.Address
	s.cli(nil, "watches", "create", "--wallet", a.wallet, "--endpoint", e.ID)
	return a
}

type receiverProcess struct {
	group  *processGroup // frameworks start child processes
	output *testkit.Buffer
	over   chan struct{}
	ended  error // how it ended, valid once over is closed
}

// start runs the example on its database and waits until it answers. Without a worker, it only
// receives.
func (a *receiverApp) start(worker string) {
	a.t.Helper()
	port := freePort(a.t)
	a.process = a.launch(port, worker, filepath.Join(a.own, "secrets"))
	a.port.Store(&port)
	a.eventually("it answers", func() error {
		_, err := a.processed()
		return err
	})
}

func (a *receiverApp) launch(port, worker, secrets string) *receiverProcess {
	a.t.Helper()
	group, err := newProcessGroup()
	if err != nil {
		a.t.Fatal(err)
	}
	p := &receiverProcess{group: group, output: &testkit.Buffer{}, over: make(chan struct{})}
	cmd := exec.Command(a.run[0], a.run[1:]...)
	cmd.Dir = a.dir
	cmd.Env = append(os.Environ(), "PORT="+port, "WORKER="+worker,
		"DATABASE="+filepath.Join(a.own, "shop.db"),
		"LUMENHOOK_SECRET_FILE="+secrets)
	cmd.Env = append(cmd.Env, a.env...)
	cmd.Stdout, cmd.Stderr = p.output, p.output
	cmd.SysProcAttr = group.Member()
	if err := cmd.Start(); err != nil {
		group.Kill()
		a.t.Fatal(err)
	}
	go func() {
		p.ended = cmd.Wait()
		close(p.over)
	}()
	a.t.Cleanup(p.kill)
	return p
}

// kill kills the process and everything it started, as a crash does. It may have ended already.
func (p *receiverProcess) kill() {
	p.group.Kill()
	<-p.over
}

func (a *receiverApp) eventually(what string, holds func() error) {
	a.t.Helper()
	testkit.EventuallyNil(a.t, what, func() error {
		err := holds()
		select {
		case <-a.process.over:
			a.t.Fatalf("the example ended before %s (%v):\n%s", what, err, a.process.output)
		default:
		}
		if err != nil {
			return fmt.Errorf("%w\nthe example says:\n%s", err, a.process.output)
		}
		return nil
	})
}

// receiverDone is an example's work: the events that it handled, and the stroops credited per
// payment.
type receiverDone struct {
	Events  []string
	Credits map[string]string
}

func (a *receiverApp) processed() (done receiverDone, err error) {
	response, err := http.Get("http://127.0.0.1:" + *a.port.Load() + "/processed")
	if err != nil {
		return done, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return done, fmt.Errorf("answered %d: %s (%v)", response.StatusCode, text, err)
	}
	return done, json.Unmarshal(text, &done)
}

// processes waits until every event in want was handled, and checks that each was handled once and
// that nothing else was.
func (a *receiverApp) processes(want []string) receiverDone {
	a.t.Helper()
	var done receiverDone
	a.eventually("every event is processed", func() (err error) {
		if done, err = a.processed(); err != nil {
			return err
		}
		for _, id := range want {
			if !slices.Contains(done.Events, id) {
				return fmt.Errorf("%s is not processed, of %d that are to be", id, len(want))
			}
		}
		return nil
	})
	got := slices.Sorted(slices.Values(done.Events))
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		a.t.Errorf("processed were\n%q\nand not\n%q", got, want)
	}
	return done
}

// post sends a request to the example and returns the status, or 0 if there was no answer.
func (a *receiverApp) post(d hook) (status int, says string) {
	request, err := http.NewRequest(http.MethodPost,
		"http://127.0.0.1:"+*a.port.Load()+"/webhooks", bytes.NewReader(d.body))
	if err != nil {
		return 0, err.Error()
	}
	request.Header = d.header
	if d.chunked {
		request.ContentLength = -1
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(text)
}

func (a *receiverApp) takes(hooks ...hook) {
	a.t.Helper()
	for _, d := range hooks {
		if status, says := a.post(d); status != http.StatusOK {
			a.t.Errorf("%s was answered %d: %s\n%s", d.body, status, says, a.process.output)
		}
	}
}
