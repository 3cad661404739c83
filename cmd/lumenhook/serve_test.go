package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// addresses are the surroundings of a service: a network and a receiver, and with `serve` also a
// broker and a ClickHouse.
type addresses struct {
	t       *testing.T
	dir     string
	stack   *node.Stack
	broker  string
	devnet  *devnet.Network
	rpc     string // where the service finds the network
	history string // DSN of ClickHouse
	hooks   *hooks

	// wallet is paid by payer. Both are funded before anything follows the network.
	pays          *devclient.Client
	wallet, payer string
}

func newAddresses(t *testing.T) *addresses {
	t.Helper()
	testkit.Long(t)
	a := newNetwork(t)
	a.startBroker(a.stack.Logger)
	a.startClickHouse(a.stack.Logger)
	return a
}

// newNetwork starts only a network and a receiver.
func newNetwork(t *testing.T) *addresses {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	a := &addresses{t: t, dir: t.TempDir(), stack: &node.Stack{
		Failed: func(err error) { t.Error(err) },
		Logger: logger,
	}}
	t.Cleanup(a.stack.Stop)
	if err := os.Mkdir(filepath.Join(a.dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.startDevnet(200*time.Millisecond, logger)
	a.hooks = startHooks(t, a.dir)
	return a
}

func (a *addresses) startBroker(logger *slog.Logger) {
	a.t.Helper()
	b, err := broker.Start(broker.Config{
		Dir:      filepath.Join(a.dir, "broker"),
		Listen:   "127.0.0.1:0",
		Logger:   logger,
		User:     "lumenhook",
		Password: "not told to anybody",
		Failed:   func(err error) { a.t.Error(err) },
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.stack.OnStop(b.Close)
	a.broker = b.Addr()
	cluster := kafka.Cluster{
		Brokers:  []string{a.broker},
		Prefix:   "shop.",
		ClientID: "test",
		Logger:   logger,
		SASL: kafka.SASL{
			Mechanism: kafka.SASLScramSHA256,
			User:      "lumenhook",
			Password:  "not told to anybody",
		},
	}
	if err := cluster.EnsureTopics(a.t.Context(),
		topology.RequiredTopics(topology.Shape{Partitions: 4, Replicas: 1})); err != nil {
		a.t.Fatal(err)
	}
}

func (a *addresses) startDevnet(closeInterval time.Duration, logger *slog.Logger) {
	a.t.Helper()
	ids, err := devnet.NewIdentities()
	if err != nil {
		a.t.Fatal(err)
	}
	a.devnet, err = devnet.Open(devnet.Config{
		Dir:           filepath.Join(a.dir, "devnet"),
		Identities:    ids,
		Listen:        "127.0.0.1:0",
		CloseInterval: closeInterval,
		Logger:        logger,
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.rpc = a.devnet.RPCURL()
	a.stack.OnStop(func() { _ = a.devnet.Close() })
	a.stack.Go("the development network", a.devnet.Run)
	if a.pays, err = devclient.New(a.devnet.RPCURL(), a.devnet.FriendbotURL()); err != nil {
		a.t.Fatal(err)
	}
	a.stack.OnStop(func() { _ = a.pays.Close() })
	wallet, _, err := a.pays.CreateAccount(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	_, payer, err := a.pays.CreateAccount(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.wallet, a.payer = wallet, payer
}

func (a *addresses) startClickHouse(logger *slog.Logger) {
	a.t.Helper()
	program, err := clickhouse.Find(a.t.Context(),
		clickhouse.Options{InstalledOnly: true, Logger: logger})
	if err != nil {
		a.t.Fatal(err)
	}
	e, err := clickhouse.Start(a.t.Context(), clickhouse.Config{
		Program:    program,
		DataDir:    filepath.Join(a.dir, "clickhouse"),
		Grants:     writer.Grants("lumenhook"),
		Logger:     logger,
		NativeAddr: "127.0.0.1:0",
		HTTPAddr:   "127.0.0.1:0",
	})
	if err != nil {
		a.t.Fatal(err)
	}
	a.stack.OnStop(func() { _ = e.Stop() })
	a.history = e.DSN()
}

func (a *addresses) configure() (config, secrets string) {
	a.t.Helper()
	config, secrets = filepath.Join(a.dir, "lumenhook.yaml"), filepath.Join(a.dir, "mounted")
	files := map[string]string{
		config: fmt.Sprintf(`kafka:
  brokers: [%q]
  user: lumenhook
topic-prefix: shop.
accept-loss: [%s]
network: %q
stellar-rpc-url: [%q]
ledger-poll-interval: 50ms
api-listen: 127.0.0.1:0
metrics-listen: 127.0.0.1:0
egress:
  allow: [127.0.0.1/32]
  ports: 1024-65535
  ca: %q
smtp:
  addr: 127.0.0.1:1
  from: webhooks@shop.example
`, a.broker, strings.Join(topology.Names(), ", "), a.devnet.Passphrase(), a.rpc,
			filepath.Join(a.dir, "ca.pem")),
		filepath.Join(secrets, "kafka-password"): "not told to anybody\n",
		filepath.Join(secrets, "clickhouse-dsn"): a.history + "\n",
	}
	if err := os.Mkdir(secrets, 0o700); err != nil {
		a.t.Fatal(err)
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	a.program("secrets", "create", "--master-key-file", filepath.Join(secrets, "master-key"))
	return config, secrets
}

func (a *addresses) program(args ...string) []byte {
	a.t.Helper()
	c := program(args...)
	c.Env = append(c.Env, "LUMENHOOK_KAFKA_PASSWORD=not told to anybody")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		a.t.Fatalf("%v: %v\n%s%s", args, err, out, &stderr)
	}
	return out
}

type role struct {
	t      *testing.T
	name   string
	args   []string
	cmd    *exec.Cmd
	exited chan error
	output *testkit.Buffer
}

func (r *role) start() {
	r.t.Helper()
	r.output, r.exited = &testkit.Buffer{}, make(chan error, 1)
	r.cmd = program(r.args...)
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	cmd, exited, over := r.cmd, r.exited, make(chan struct{})
	go func() {
		exited <- cmd.Wait()
		close(over)
	}()
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
	})
}

func (r *role) kill() {
	r.t.Helper()
	r.signal(syscall.SIGKILL)
	<-r.exited
}

// signal sends a signal to the process that serves.
func (r *role) signal(signal syscall.Signal) {
	r.t.Helper()
	if err := syscall.Kill(r.serving(), signal); err != nil {
		r.t.Fatal(err)
	}
}

// serving returns the ID of the process that serves, which is a child if it is supervised.
func (r *role) serving() (pid int) {
	r.t.Helper()
	if !slices.Contains(r.args, "--supervised") {
		return r.cmd.Process.Pid
	}
	pid, err := strconv.Atoi(r.said(saidChild))
	if err != nil {
		r.t.Fatal(err)
	}
	return pid
}

func (r *role) until(what string, holds func() bool) {
	r.t.Helper()
	testkit.EventuallyNil(r.t, what, func() error {
		if holds() {
			return nil
		}
		select {
		case err := <-r.exited:
			r.t.Fatalf("%s ended (%v) before %s:\n%s", r.name, err, what, r.output)
		default:
		}
		return fmt.Errorf("not by what %s says:\n%s", r.name, r.output)
	})
}

var (
	saidAPI        = regexp.MustCompile(`the API at (http://[0-9.:]+)`)
	saidChild      = regexp.MustCompile(`runs the roles","pid":([0-9]+)`)
	saidOperations = regexp.MustCompile(`readiness at (http://[0-9.:]+)`)
)

// said waits for output that matches form, and returns the address or number in it.
func (r *role) said(form *regexp.Regexp) (address string) {
	r.t.Helper()
	r.until("an address", func() bool {
		if found := form.FindStringSubmatch(r.output.String()); found != nil {
			address = found[1]
		}
		return address != ""
	})
	return address
}

func (r *role) ready() (status int, checks map[string]string) {
	asking := http.Client{Timeout: 10 * time.Second} // a process may be paused
	resp, err := asking.Get(r.said(saidOperations) + "/readyz")
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	var view struct {
		Checks []struct{ Name, Status, Detail string }
	}
	text, err := io.ReadAll(resp.Body)
	if err := json.Unmarshal(text, &view); err != nil {
		r.t.Fatalf("%s: /readyz answered %s", r.name, text)
	}
	checks = make(map[string]string)
	for _, c := range view.Checks {
		checks[c.Name] = strings.TrimSpace(c.Status + " " + c.Detail)
	}
	if err != nil {
		return 0, checks
	}
	return resp.StatusCode, checks
}

func (r *role) untilReady() {
	r.t.Helper()
	r.until("it is ready", func() bool {
		status, _ := r.ready()
		return status == http.StatusOK
	})
}

// terminate sends SIGTERM. The process must exit with 0.
func (r *role) terminate() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case err := <-r.exited:
		if err != nil {
			r.t.Errorf("%s ended with %v:\n%s", r.name, err, r.output)
		}
	case <-time.After(testkit.Patience(r.t)):
		r.t.Errorf("%s did not end:\n%s", r.name, r.output)
	}
}

// TestServeInFiveProcesses runs a service as one process per role. Each process is killed and
// restarted once while payments arrive. Every payment must be received under one id, with a valid
// signature.
func TestServeInFiveProcesses(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	config, secrets := a.configure()
	by := make(map[node.Role]*role)
	for _, name := range node.Roles() {
		by[name] = &role{t: t, name: string(name), args: []string{
			"serve", "--config", config, "--secrets-dir", secrets, "--roles", string(name),
			"--node-name", string(name) + "-0", "--data-dir", filepath.Join(a.dir, "of-"+string(name)),
		}}
		by[name].start()
	}
	for _, r := range by {
		r.untilReady()
	}
	if _, checks := by[node.RoleFollower].ready(); checks["disk"] != "ok" ||
		checks["directory"] != "ok" || checks["follower"] != "ok" || len(checks) != 4 {
		t.Errorf("the follower's /readyz: %q", checks)
	}

	a.watch(by[node.RoleAPI])
	paid := a.payThrough(func() {
		for _, name := range node.Roles() {
			by[name].kill()
			by[name].start()
			by[name].untilReady()
			told := a.hooks.count()
			by[node.RoleEngine].until("payments are received again",
				func() bool { return a.hooks.count() > told+2 })
		}
	})
	a.account(by[node.RoleEngine].until, paid)
	for _, name := range slices.Backward(node.Roles()) {
		by[name].terminate()
	}
}

func (a *addresses) watch(api *role) {
	a.t.Helper()
	var made apicli.MadeKey
	out := a.program("accounts", "create", "--email", "ops@shop.example", "--json", "--data-dir",
		filepath.Join(a.dir, "none"),
		"--kafka-brokers", a.broker, "--kafka-user", "lumenhook", "--topic-prefix", "shop.")
	if err := json.Unmarshal(out, &made); err != nil {
		a.t.Fatal(err)
	}
	c, err := client.New(api.said(saidAPI), made.Key, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	ctx := a.t.Context()
	api.until("the key is known", func() bool {
		_, err := c.ListKeys(ctx, client.Page{})
		return err == nil
	})
	a.watchBy(c)
}

func (a *addresses) watchBy(c *client.Client) {
	a.t.Helper()
	ctx := a.t.Context()
	endpoint, err := c.CreateEndpoint(ctx, client.EndpointCreate{URL: a.hooks.url})
	if err != nil {
		a.t.Fatal(err)
	}
	a.hooks.mu.Lock()
	a.hooks.secret = endpoint.Secret
	a.hooks.mu.Unlock()
	if _, err := c.CreateWatch(ctx, client.WatchCreate{
		WalletAddress: a.wallet,
		EndpointID:    endpoint.ID,
		Assets:        []client.Asset{{Code: "XLM"}},
	}); err != nil {
		a.t.Fatal(err)
	}
}

// payThrough pays the wallet continuously while something happens, and once more afterwards. It
// returns the ids of all payments.
func (a *addresses) payThrough(happens func()) (paid []string) {
	a.t.Helper()
	over, stop := context.WithCancel(a.t.Context())
	defer stop()
	var paying sync.WaitGroup
	paying.Go(func() {
		for last := false; !last; {
			last = over.Err() != nil
			p, err := a.pays.Pay(a.t.Context(),
				devclient.PayRequest{From: a.payer, To: a.wallet, Amount: "1"})
			if err != nil {
				a.t.Error(err)
				return
			}
			paid = append(paid, p.ID)
		}
	})
	happens()
	stop()
	paying.Wait()
	return paid
}

// A small merchant runs everything in one process, except the network. The process follows an
// existing network through a kill, and must never treat it as its own development network.
func TestRunFollowsANetworkOfOthers(t *testing.T) {
	t.Parallel()
	a := newNetwork(t)
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{
		"--no-demo", "--network", a.devnet.Passphrase(), "--stellar-rpc-url", a.devnet.RPCURL(),
		"--ledger-poll-interval", "50ms",
		"--egress-allow", "127.0.0.1/32", "--egress-ports", "1024-65535", "--egress-ca",
		filepath.Join(a.dir, "ca.pem"),
	}
	s.start(flags...)
	a.watchBy(s.client(s.file.APIKey))
	paid := a.payThrough(func() {
		s.kill()
		s.start(flags...)
		told := a.hooks.count()
		s.eventually("payments are received again", func() bool { return a.hooks.count() > told+1 })
	})
	a.account(s.eventually, paid)
	if at := s.file.Stellar; at.RPCURL != a.devnet.RPCURL() ||
		at.NetworkPassphrase != a.devnet.Passphrase() || at.FriendbotURL != "" {
		t.Errorf("run.json says of the network: %+v", at)
	}
	out, err := program("devnet", "account", "--data-dir", s.dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has no development network") {
		t.Errorf("devnet account: %v\n%s", err, out)
	}
	s.interrupt()
}

func TestFaultsOfTheNetworkAreNamed(t *testing.T) {
	for _, c := range []struct{ says, line string }{
		{"add --no-demo", "--network testnet"},
		{"--stellar-rpc-url", "--network pubnet --no-demo"},
		{"--ledger-source \"moon\"", "--network testnet --no-demo --ledger-source moon"},
		{"--stellar-rpc-url needs --network", "--stellar-rpc-url http://127.0.0.1:1"},
		{
			"--ledger-interval is of the development network",
			"--network testnet --no-demo --ledger-interval 1s",
		},
	} {
		args := append([]string{"run", "--data-dir", t.TempDir()}, strings.Fields(c.line)...)
		out, err := program(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, and should say %q:\n%s", c.line, err, c.says, out)
		}
	}
}

// Every fault is reported at once. The settings in effect are printed with their source, and
// without secrets.
func TestConfigCheck(t *testing.T) {
	dir := t.TempDir()
	secrets := filepath.Join(dir, "mounted")
	if err := os.Mkdir(secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "lumenhook.yaml")
	for path, text := range map[string]string{
		config:                                   "roles: [api, projector]\nkafka:\n  brokers: [kafka:9092]\n  user: shop\nnetwork: testnet\nattempt-timeout: 5s\nclickhouse:\n  user: shop\n",
		filepath.Join(secrets, "kafka-password"): "hidden in a file\n",
		filepath.Join(secrets, "clickhouse-dsn"): "clickhouse://shop:hidden@clickhouse:9000/shop\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(secrets, "master-key")
	said, err := program("secrets", "create", "--master-key-file", key).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	said, err = program("secrets", "create", "--master-key-file", key).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "it exists") {
		t.Errorf("a second master key in its place: %v\n%s", err, said)
	}
	check := func(args ...string) (string, error) {
		c := program(append([]string{"config", "check", "--config", config, "--secrets-dir", secrets},
			args...)...)
		c.Env = append(c.Env, "LUMENHOOK_API_RATE_LIMIT=7")
		out, err := c.CombinedOutput()
		if strings.Contains(string(out), "hidden") {
			t.Errorf("a secret is shown:\n%s", out)
		}
		return string(out), err
	}
	implied := regexp.MustCompile(`kafka-tls +true +kafka-ca-file\n`)
	if out, _ := check("--kafka-ca-file", config); !implied.MatchString(out) { // not a certificate
		t.Errorf("TLS is on, because of another flag:\n%s", out)
	}
	out, err := check("--json")
	var settings []struct{ Name, Value, From string }
	if err != nil || json.Unmarshal([]byte(out), &settings) != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := make(map[string]string)
	for _, s := range settings {
		got[s.Name] = s.Value + " " + s.From
	}
	for name, want := range map[string]string{
		"roles": "[api,projector] " + config + ":1", "kafka-brokers": "[kafka:9092] " + config + ":3",
		"api-rate-limit":  "7 LUMENHOOK_API_RATE_LIMIT",
		"log-level":       "info default",
		"attempt-timeout": "5s " + config + ":6", "clickhouse-user": "shop " + config + ":8",
		"clickhouse-dsn":  "******** " + filepath.Join(secrets, "clickhouse-dsn"),
		"master-key-file": key + " " + key,
		"kafka-password-file": filepath.Join(secrets, "kafka-password") + " " + filepath.Join(secrets,
			"kafka-password"),
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
	for _, name := range []string{"json", "field", "help"} {
		if from, listed := got[name]; listed {
			t.Errorf("%s is listed among the settings: %s", name, from)
		}
	}
	file := filepath.Join(dir, "odd.yaml")
	if err := os.WriteFile(file, []byte("json: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := check("--config", file); err == nil ||
		!strings.Contains(out, file+":1: json sets nothing") {
		t.Errorf("a file that serve refuses is taken: %v\n%s", err, out)
	}
	out, err = check("--roles", "mailer,chef", "--kafka-brokers", "kafka", "--accept-loss", "rain",
		"--node-name", "a b",
		"--network", "", "--log-level", "loud", "--partitions", "-1", "--kafka-key-file", key)
	if err == nil {
		t.Error("faults are no fault")
	}
	for _, flag := range []string{
		"--roles", "--kafka-brokers", "--accept-loss", "--node-name", "--log-level",
		"--partitions", "--kafka-key-file",
	} {
		if !strings.Contains(out, flag) {
			t.Errorf("%s is not named in:\n%s", flag, out)
		}
	}
	if out, _ = check("--roles", "api,engine,mailer,follower", "--secrets-dir", "", "--network",
		"pubnet"); !strings.Contains(out, "--master-key-file") ||
		!strings.Contains(out, "--clickhouse-dsn") || !strings.Contains(out, "--smtp-addr") ||
		!strings.Contains(out, "--stellar-rpc-url") {
		t.Errorf("what the roles need is not named in:\n%s", out)
	}
}

// account waits until every payment was received, each under one id, and checks that nothing else
// was.
func (a *addresses) account(until func(string, func() bool), paid []string) {
	a.t.Helper()
	eventOf := make(map[string]string)
	a.t.Cleanup(func() {
		for i, id := range paid {
			if eventOf[id] == "" {
				a.t.Logf("payment %d of %d was not received: %s", i+1, len(paid), id)
			}
		}
	})
	until("every payment is received", func() bool {
		for id, w := range a.hooks.events() {
			var event struct {
				Data struct{ Payment struct{ ID string } }
			}
			if err := json.Unmarshal(w.Body, &event); err != nil || !w.Verified {
				a.t.Fatalf("%s: %v, verified %v (%s)", id, err, w.Verified, w.Reason)
			}
			if other := eventOf[event.Data.Payment.ID]; other != "" && other != id {
				a.t.Fatalf("payment %s came under two ids, %s and %s", event.Data.Payment.ID, other, id)
			}
			eventOf[event.Data.Payment.ID] = id
		}
		return !slices.ContainsFunc(paid, func(id string) bool { return eventOf[id] == "" })
	})
	if len(eventOf) != len(paid) {
		a.t.Errorf("%d payments were made, and %d are told of", len(paid), len(eventOf))
	}
	a.t.Logf("%d payments, %d posts", len(paid), a.hooks.count())
}
