//go:build kafka

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stellar/go-stellar-sdk/clients/rpcclient"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	userPrefix    = "lumenhook-"
	saslMechanism = "SCRAM-SHA-512"
	siteWallets   = 12 // with a watch and an endpoint each
	ledgerEvery   = 2 * time.Second
)

type process struct {
	name string
	role node.Role
}

// processes returns the processes of a site in the order in which they are restarted.
func processes() (all []process) {
	for n := range *clusterEngines {
		all = append(all, process{fmt.Sprint("engine-", n), node.RoleEngine})
	}
	return append(all,
		process{"follower-0", node.RoleFollower}, process{"follower-1", node.RoleFollower},
		process{"api-0", node.RoleAPI}, process{"projector-0", node.RoleProjector},
		process{"mailer-0", node.RoleMailer},
	)
}

// site is a production deployment: processes of the real program, each with one role and only that
// role's rights, on three brokers that require a login.
type site struct {
	*addresses
	cluster  *kafkatest.Cluster
	config   string
	order    []*role
	by       map[string]*role
	key      string // API key
	receipts *receipts
	gone     []string      // payments to an endpoint that answers 410
	lacking  func() string // if set, describes what until still waits for
	mails    <-chan string
	logs     string // folder
}

func newSite(t *testing.T) *site {
	t.Helper()
	a := &addresses{t: t, dir: t.TempDir(), stack: &node.Stack{
		Failed: func(err error) { t.Error(err) },
		Logger: slog.New(slog.DiscardHandler),
	}}
	t.Cleanup(a.stack.Stop)
	if err := os.Mkdir(filepath.Join(a.dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.startDevnet(ledgerEvery, a.stack.Logger)
	a.startClickHouse(a.stack.Logger)
	s := &site{addresses: a, by: make(map[string]*role), logs: t.ArtifactDir()}
	s.receipts = startReceipts(t, a.dir)
	var mailAddr string
	mailAddr, s.mails = startMailServer(t)
	s.startBrokers()
	s.prepare(mailAddr)
	s.startProcesses()
	return s
}

func (s *site) startBrokers() {
	s.t.Helper()
	var err error
	s.cluster, err = kafkatest.Start(s.t.Context(), kafkatest.Config{
		Dir:     filepath.Join(s.logs, "kafka"),
		Brokers: 3,
		Secure:  true,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.cluster.Close(); err != nil {
			s.t.Error(err)
		}
	})
	admin, err := s.cluster.AdminClient()
	if err != nil {
		s.t.Fatal(err)
	}
	defer admin.Close()
	var users []kadm.UpsertSCRAM
	for _, name := range append(topology.RoleNames(), kafkatest.Admin) {
		user := userOf(name)
		users = append(users, kadm.UpsertSCRAM{
			User:       user,
			Mechanism:  kadm.ScramSha512,
			Iterations: 4096,
			Password:   kafkatest.Password(user),
		})
	}
	made, err := admin.AlterUserSCRAMs(s.t.Context(), nil, users)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func userOf(role string) string {
	if role == kafkatest.Admin {
		return role
	}
	return userPrefix + role
}

// prepare does the one-time setup: rights, topics, secrets, and configuration.
func (s *site) prepare(mailAddr string) {
	s.t.Helper()
	s.as(kafkatest.Admin, "topics", "acls", "--apply")
	s.as("topics", "topics", "create", "--partitions", strconv.Itoa(*clusterPartitions))
	s.as("topics", "topics", "check")
	key := filepath.Join(s.dir, "master-key")
	s.program("secrets", "create", "--master-key-file", key)
	masterKey, err := os.ReadFile(key)
	if err != nil {
		s.t.Fatal(err)
	}
	s.config = filepath.Join(s.dir, "lumenhook.yaml")
	s.write(s.config, fmt.Sprintf(`kafka:
  brokers: [%s]
  ca-file: %q
  sasl: %s
network: %q
stellar-rpc-url: [%q]
ledger-poll-interval: 50ms
api-listen: 127.0.0.1:0
metrics-listen: 127.0.0.1:0
retry-schedule: 2s,4s,8s,15s,30s,60s
standby-replicas: %d
egress:
  allow: [127.0.0.1/32]
  ports: 1024-65535
  ca: %q
smtp:
  addr: %q
  from: webhooks@shop.example
  tls: none
`, strings.Join(s.cluster.Addrs(), ", "), s.cluster.CAFile(), saslMechanism, s.devnet.Passphrase(),
		s.devnet.RPCURL(), *clusterStandbys, filepath.Join(s.dir, "ca.pem"), mailAddr))
	for _, role := range node.Roles() {
		secrets := s.secretsOf(role)
		if err := os.Mkdir(secrets, 0o700); err != nil {
			s.t.Fatal(err)
		}
		s.write(filepath.Join(secrets, "kafka-password"), kafkatest.Password(userOf(string(role))))
		if role == node.RoleAPI || role == node.RoleEngine {
			s.write(filepath.Join(secrets, "master-key"), string(masterKey))
		}
		if role == node.RoleAPI || role == node.RoleProjector {
			s.write(filepath.Join(secrets, "clickhouse-dsn"), s.history)
		}
	}
}

func (s *site) secretsOf(role node.Role) string {
	return filepath.Join(s.dir, "secrets-of-"+string(role))
}

func (s *site) write(path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// as runs a command with the rights of a role and returns its output.
func (s *site) as(role string, args ...string) []byte {
	s.t.Helper()
	args = append(args, "--kafka-brokers", strings.Join(s.cluster.Addrs(), ","),
		"--kafka-ca-file", s.cluster.CAFile(), "--kafka-sasl", saslMechanism,
		"--kafka-user", userOf(role))
	c := program(args...)
	c.Env = append(c.Env, "LUMENHOOK_KAFKA_PASSWORD="+kafkatest.Password(userOf(role)))
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		s.t.Fatalf("%v: %v\n%s%s", args, err, out, &stderr)
	}
	return out
}

func (s *site) startProcesses() {
	s.t.Helper()
	for _, p := range processes() {
		args := []string{
			"--config", s.config, "--secrets-dir", s.secretsOf(p.role), "--roles", string(p.role),
			"--node-name", p.name, "--data-dir", filepath.Join(s.dir, p.name),
			"--kafka-user", userOf(string(p.role)), "--supervised",
		}
		s.program(append([]string{"config", "check"}, args...)...)
		r := &role{t: s.t, name: p.name, args: append([]string{"serve"}, args...)}
		r.start()
		s.t.Cleanup(func() { s.keep(r) })
		s.by[p.name], s.order = r, append(s.order, r)
	}
	for _, r := range s.order {
		r.untilReady()
	}
}

func (s *site) again(r *role) {
	s.t.Helper()
	s.keep(r)
	r.start()
	r.untilReady()
}

func (s *site) keep(r *role) {
	path := filepath.Join(s.logs, r.name+".log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = io.WriteString(f, r.output.String())
	}
	if err != nil {
		s.t.Error(err)
		return
	}
	if err := f.Close(); err != nil {
		s.t.Error(err)
	}
}

// open creates an account, and siteWallets wallets with a watch and an endpoint each.
func (s *site) open() (wallets []string) {
	s.t.Helper()
	var made apicli.MadeKey
	out := s.as("operator", "accounts", "create", "--email", "ops@shop.example", "--json",
		"--data-dir", filepath.Join(s.dir, "none"))
	if err := json.Unmarshal(out, &made); err != nil {
		s.t.Fatal(err)
	}
	s.key = made.Key
	c := s.api()
	s.by["api-0"].until("the key is known", func() bool {
		_, err := c.ListKeys(s.t.Context(), client.Page{})
		return err == nil
	})
	for i := range siteWallets {
		wallets = append(wallets, s.walletAt(s.receipts.url+"/hook/"+strconv.Itoa(i)))
	}
	return wallets
}

func (s *site) api() *client.Client {
	s.t.Helper()
	c, err := client.New(s.by["api-0"].said(saidAPI), s.key, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// walletAt creates a wallet whose payments are reported to url.
func (s *site) walletAt(url string) (wallet string) {
	s.t.Helper()
	ctx, c := s.t.Context(), s.api()
	wallet, _, err := s.pays.CreateAccount(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	s.awaitRead() // otherwise the watch would report the wallet's first lumens
	var endpoint client.Endpoint
	s.asking("an endpoint", func() (err error) {
		endpoint, err = c.CreateEndpoint(ctx, client.EndpointCreate{URL: url})
		return err
	})
	s.receipts.knows(endpoint.Secret)
	s.asking("a watch", func() error {
		_, err := c.CreateWatch(ctx, client.WatchCreate{
			WalletAddress: wallet,
			EndpointID:    endpoint.ID,
			Assets:        []client.Asset{{Code: "XLM"}},
		})
		return err
	})
	return wallet
}

// asking repeats an API call while it fails with DIRECTORY_BEHIND, for longer than the client does:
// the machine may be busy with many partitions that move.
func (s *site) asking(what string, ask func() error) {
	s.t.Helper()
	s.until("the API takes "+what, func() bool {
		err := ask()
		if p, is := errors.AsType[*client.Problem](err); is && p.Code == "DIRECTORY_BEHIND" {
			return false
		}
		if err != nil {
			s.t.Fatal(err)
		}
		return true
	})
}

// awaitRead waits until a follower has read every ledger closed so far.
func (s *site) awaitRead() {
	s.t.Helper()
	network := rpcclient.NewClient(s.devnet.RPCURL(), http.DefaultClient)
	latest, err := network.GetLatestLedger(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.until("the follower has read the ledgers", func() bool {
		first := s.metric(s.by["follower-0"], "lumenhook_ledger_sequence")
		second := s.metric(s.by["follower-1"], "lumenhook_ledger_sequence")
		return max(first, second) >= float64(latest.Sequence)
	})
}

// metric returns the sum of a process's metric over all labels.
func (s *site) metric(r *role, name string) (sum float64) {
	s.t.Helper()
	resp, err := http.Get(r.said(saidOperations) + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^` + name + `(?:\{.*\})? (\S+)$`)
	for _, found := range line.FindAllSubmatch(text, -1) {
		value, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// until waits until a condition holds. It fails if a process ends that was not stopped here, or if
// no webhook has arrived for a while.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	const patience = 3 * time.Minute
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		<-tick.C
		for _, r := range s.order {
			select {
			case err := <-r.exited:
				s.t.Fatalf("%s ended (%v) before %s:\n%s", r.name, err, what, r.output)
			default:
			}
		}
		if time.Since(began) > patience && time.Since(s.receipts.posted()) > patience {
			if s.lacking != nil {
				s.t.Log(s.lacking())
			}
			s.t.Fatalf("never came true: %s\n%s", what, s.states())
		}
	}
}

// states returns the readiness checks and the last output of each process.
func (s *site) states() (text string) {
	for _, r := range s.order {
		status, checks := r.ready()
		said := r.output.String()
		text += fmt.Sprintf("%s: %d %q …%s\n", r.name, status, checks, said[max(0, len(said)-1500):])
	}
	return text
}

// complaints counts a process's warnings and errors by message.
func (s *site) complaints(r *role) map[string]int {
	s.t.Helper()
	counts := make(map[string]int)
	for line := range strings.Lines(s.said(r)) {
		var said struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &said) == nil && (said.Level == "WARN" || said.Level == "ERROR") {
			counts[said.Level+" "+said.Msg]++
		}
	}
	return counts
}

func (s *site) said(r *role) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.logs, r.name+".log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.t.Error(err)
	}
	return string(text) + r.output.String()
}
