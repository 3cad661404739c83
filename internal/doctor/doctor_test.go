package doctor_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/doctor"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/mailer"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func TestMain(m *testing.M) { clickhousetest.Main(m) }

// newConfig returns a configuration for some checks. Tests set the parts that matter to them.
func newConfig(t *testing.T, only ...string) doctor.Config {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	return doctor.Config{
		What:       "a test",
		Only:       only,
		DataDir:    t.TempDir(),
		Timeout:    30 * time.Second,
		LeastFree:  1,
		LeastFiles: 1,
		Quorum:     1,
		Explain:    func(err error) string { return cli.Explain(err, flags) },
		Now:        time.Now,
	}
}

func found(t *testing.T, cfg doctor.Config) (status doctor.Status, said string) {
	t.Helper()
	ended := 0
	report := doctor.Run(t.Context(), cfg, func(doctor.Result) { ended++ })
	if ended != 1 || len(report.Checks) != 1 {
		t.Fatalf("%d checks ended, and there are %d", ended, len(report.Checks))
	}
	text, err := json.Marshal(report.Checks[0].Findings)
	if err != nil {
		t.Fatal(err)
	}
	said = strings.NewReplacer(`\u003e`, ">", `\"`, `"`).Replace(string(text))
	if failed := report.Fault() != nil; failed !=
		(report.Status == doctor.Problem || report.Status == doctor.Unknown) {
		t.Errorf("it is %s, and its fault is %v", report.Status, report.Fault())
	}
	return report.Status, said
}

func holds(t *testing.T, cfg doctor.Config, status doctor.Status, want ...string) {
	t.Helper()
	got, said := found(t, cfg)
	if got != status {
		t.Errorf("it is %s, and should be %s: %s", got, status, said)
	}
	for _, text := range want {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
}

// on configures a check of a cluster with one broker.
func on(t *testing.T, b *brokertest.Broker, only string) doctor.Config {
	t.Helper()
	cfg := newConfig(t, only)
	cfg.Cluster = b.Cluster(slog.New(slog.DiscardHandler))
	cfg.Cluster.Quiet = true
	cfg.Topology = topology.CheckOptions{
		Replicas: 1,
		Roles:    []string{"engine", "api"},
		Accept:   []string{topology.Replication, topology.MinInSync},
		Now:      time.Now,
	}
	return cfg
}

func TestTopicsThatAreWrongAreNamed(t *testing.T) {
	b := brokertest.Start(t)
	cfg := on(t, b, "topics")
	holds(t, cfg, doctor.Problem, "is missing", "run `lumenhook topics create`")
	shape := topology.Shape{Partitions: 3, Replicas: 1}
	if _, err := topology.Create(t.Context(), cfg.Cluster, shape); err != nil {
		t.Fatal(err)
	}
	holds(t, cfg, doctor.OK, "match the required settings: 3 partitions per keyed topic")
	err := cfg.Cluster.AlterTopic(t.Context(), "journal", map[string]string{"retention.ms": "1000"})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, cfg, doctor.Problem, "retention.ms of test.journal is 1000",
		"run `lumenhook topics create`")
	holds(t, on(t, b, "kafka"), doctor.OK, "broker 0 responds: Kafka")
	holds(t, on(t, b, "transactions"), doctor.OK, "transaction.version is 2")
	holds(t, on(t, b, "rights"), doctor.OK, "topics of engine, api")
}

// TestBrokersThatAreNotThereHoldNothingUp has a broker that refuses connections and one that never
// answers.
func TestBrokersThatAreNotThereHoldNothingUp(t *testing.T) {
	cfg := newConfig(t, "kafka")
	cfg.Cluster.Brokers, cfg.Cluster.Quiet = []string{"127.0.0.1:1"}, true
	cfg.Cluster.Logger = slog.New(slog.DiscardHandler)
	holds(t, cfg, doctor.Problem, "no broker can be reached at 127.0.0.1:1: connection refused")
	cfg.Only = []string{"topics"}
	holds(t, cfg, doctor.Unknown, "no broker answers", "see the result of the kafka check")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	cfg.Only, cfg.Timeout = []string{"kafka"}, 200*time.Millisecond
	cfg.Cluster.Brokers = []string{silent.Addr().String()}
	status, said := found(t, cfg)
	if status == doctor.OK || status == doctor.Warning {
		t.Errorf("it is %s: %s", status, said)
	}
}

// The documented privileges must suffice to create the projector's tables. If one is missing,
// doctor must print the statement that grants it. The API needs fewer privileges.
func TestMissingPrivilegesAreNamed(t *testing.T) {
	grants := writer.Grants("lumenhook")
	if !slices.Equal(grants, clickhousetest.ServiceGrants("lumenhook")) {
		t.Errorf("the tests' engines grant other privileges than %q", grants)
	}
	page, err := os.ReadFile("../../docs/operate/configure.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, grant := range append(grants, writer.ReaderGrants("lumenhook")...) {
		if !strings.Contains(string(page), strings.ReplaceAll(grant, "`", "")) {
			t.Errorf("configure.md does not name %s", grant)
		}
	}
	start := func(grants []string) doctor.Config {
		engine := clickhousetest.StartWith(t, clickhouse.Config{
			Program: clickhousetest.Program(t), DataDir: t.TempDir(), Database: "lumenhook",
			Grants: grants,
		})
		cfg := newConfig(t, "clickhouse")
		cfg.ClickHouse = engine.DSN()
		return cfg
	}
	cfg := start(append([]string{"SELECT ON system.disks"}, grants...))
	db, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := writer.Migrate(t.Context(), db); err != nil {
		t.Error(err)
	}
	// The status isn't checked, because the machine's disk may be full.
	if _, said := found(t, cfg); strings.Contains(said, "lacks") || strings.Contains(said, "cannot") ||
		!strings.Contains(said, "all migrations of the database lumenhook were applied") {
		t.Error(said)
	}

	grants[0] = strings.Replace(grants[0], "TRUNCATE, ", "", 1)
	cfg = start(slices.DeleteFunc(grants, func(g string) bool {
		return g == "TABLE ENGINE ON ReplacingMergeTree"
	}))
	holds(t, cfg, doctor.Problem, "lacks privileges",
		"GRANT TRUNCATE ON `lumenhook`.*, TABLE ENGINE ON ReplacingMergeTree TO ")
	cfg.Topology.Roles = []string{"api"}
	if _, said := found(t, cfg); strings.Contains(said, "lacks privileges") {
		t.Error(said)
	}
	// A check that could not read something must not be OK.
	cfg = start(slices.DeleteFunc(writer.Grants("lumenhook"), func(g string) bool {
		return strings.HasPrefix(g, "SELECT ON system.")
	}))
	unread, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	if err := writer.Migrate(t.Context(), unread); err != nil {
		t.Error(err)
	}
	if _, said := found(t, cfg); !strings.Contains(said, "cannot read its lost parts") ||
		strings.Contains(said, "is lost or damaged") {
		t.Error(said)
	}
}

// A dead broker must be named even though the others don't list it.
func TestADeadBrokerOfSeveralIsNamed(t *testing.T) {
	cfg := on(t, brokertest.Start(t), "kafka")
	cfg.Cluster.Brokers = append(cfg.Cluster.Brokers, "127.0.0.1:1")
	holds(t, cfg, doctor.Warning, "broker 0 responds",
		"127.0.0.1:1 does not respond: cannot connect", "start the broker")
}

// The result of a slow check must come before that of a fast one with a later name.
func TestResultsHaveAFixedOrder(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	cfg := newConfig(t, "limits", "kafka", "configuration")
	cfg.Cluster.Brokers, cfg.Cluster.Quiet = []string{silent.Addr().String()}, true
	cfg.Cluster.Logger, cfg.Timeout = slog.New(slog.DiscardHandler), 200*time.Millisecond
	var names []string
	doctor.Run(t.Context(), cfg, func(r doctor.Result) { names = append(names, r.Name) })
	if want := []string{"configuration", "kafka", "limits"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
}

func TestClickHouseIsAskedWhatItLacks(t *testing.T) {
	engine := clickhousetest.Start(t)
	cfg := newConfig(t, "clickhouse")
	cfg.ClickHouse = engine.DSN()
	holds(t, cfg, doctor.Warning, "lacks", "run `lumenhook migrate`")
	db, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := writer.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	_, said := found(t, cfg)
	if !strings.Contains(said, "all migrations of the database") {
		t.Error(said)
	}
	cfg.Only = []string{"clock"}
	cfg.Cluster.Logger = slog.New(slog.DiscardHandler)
	holds(t, cfg, doctor.OK, "agrees with that of ClickHouse at")
	cfg.Only = []string{"clickhouse"}
	user, _, _ := strings.Cut(strings.TrimPrefix(cfg.ClickHouse, "clickhouse://"), ":")
	_, place, _ := strings.Cut(cfg.ClickHouse, "@")
	cfg.ClickHouse = "clickhouse://" + user + ":geheim@" + place
	status, said := found(t, cfg)
	if status != doctor.Problem || strings.Contains(said, "geheim") ||
		!strings.Contains(said, "the user and the password") {
		t.Errorf("%s: %s", status, said)
	}
}

// node is a Stellar RPC server with configurable answers.
type node struct {
	passphrase string
	behind     time.Duration // age of its latest ledger
	skew       time.Duration // error of its clock
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	w.Header().Set("Date", now.Add(n.skew).UTC().Format(http.TimeFormat))
	body, _ := io.ReadAll(r.Body)
	result := fmt.Sprintf(`{"passphrase":%q}`, n.passphrase)
	if strings.Contains(string(body), "getHealth") {
		result = fmt.Sprintf(`{"status":"healthy","latestLedger":900,"oldestLedger":100,`+
			`"latestLedgerCloseTime":"%d"}`, now.Add(-n.behind).Unix())
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":%s}`, result)
}

// follow makes a configuration use RPC servers for the network "our network".
func follow(t *testing.T, cfg *doctor.Config, nodes ...*node) {
	t.Helper()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var ledgers config.Ledgers
	ledgers.Register(flags, "our network")
	args := []string{"--ledger-quorum", fmt.Sprint(len(nodes))}
	for _, n := range nodes {
		server := httptest.NewServer(n)
		t.Cleanup(server.Close)
		args = append(args, "--stellar-rpc-url", server.URL+"/key-of-a-provider")
	}
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err := ledgers.Check(); err != nil {
		t.Fatal(err)
	}
	cfg.Ledgers, cfg.NoLedgers = ledgers.Servers()
	cfg.Clocks, _ = ledgers.Servers()
	cfg.Quorum = ledgers.Quorum
}

func TestSourcesOfLedgersAreAskedOneByOne(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  []*node
		status doctor.Status
		want   string
	}{
		"well": {
			[]*node{{passphrase: "our network"}}, doctor.OK,
			"latest ledger is 900, its oldest 100 (800 back)",
		},
		"another": {[]*node{{passphrase: "their network"}}, doctor.Problem, `serves "their network"`},
		"old": {
			[]*node{{passphrase: "our network", behind: time.Hour}}, doctor.Warning, "closed 1h0m",
		},
		"one of two": {
			[]*node{{passphrase: "our network"}, {passphrase: "their network"}}, doctor.Problem,
			"2 of the servers must agree, but only 1 can",
		},
		"two": {
			[]*node{{passphrase: "our network"}, {passphrase: "our network"}}, doctor.OK,
			"2 servers respond, and their latest ledgers are 0 apart; 2 must agree",
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, "ledgers")
			follow(t, &cfg, c.nodes...)
			status, said := found(t, cfg)
			if status != c.status || !strings.Contains(said, c.want) {
				t.Errorf("it is %s, and says %s", status, said)
			}
			if strings.Contains(said, "key-of-a-provider") {
				t.Errorf("it names a key: %s", said)
			}
		})
	}
}

func TestAClockThatIsOffIsNamed(t *testing.T) {
	for skew, want := range map[time.Duration]doctor.Status{
		0:                 doctor.OK,
		-20 * time.Second: doctor.Warning,
		10 * time.Minute:  doctor.Problem,
	} {
		cfg := newConfig(t, "clock")
		cfg.Cluster.Brokers, cfg.Cluster.Quiet = []string{"127.0.0.1:1"}, true
		cfg.Cluster.Logger = slog.New(slog.DiscardHandler)
		follow(t, &cfg, &node{passphrase: "our network", skew: skew})
		if status, said := found(t, cfg); status != want {
			t.Errorf("%s off it is %s: %s", skew, status, said)
		}
	}
}

// receiver starts an HTTPS server whose certificate expires at a time.
func receiver(t *testing.T, ends time.Time) (url string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             ends.Add(-365 * 24 * time.Hour),
		NotAfter:              ends,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(certificate)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("it got a request")
	}))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.TLS = &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		MinVersion:   tls.VersionTLS12,
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, roots
}

func TestTheWayToAReceiverIsGone(t *testing.T) {
	all, err := egress.ParsePorts("1-65535")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		left   time.Duration // until its certificate expires
		allow  bool
		status doctor.Status
		want   string
	}{
		"well":    {365 * 24 * time.Hour, true, doctor.OK, "the --url is reached: 127.0.0.1"},
		"soon":    {3*24*time.Hour + time.Hour, true, doctor.Warning, "which is in 3 days"},
		"expired": {-time.Hour, true, doctor.Problem, "would end with TLS: "},
		"private": {365 * 24 * time.Hour, false, doctor.Problem, "would end with SSRF_BLOCKED: "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := newConfig(t, "egress")
			cfg.TryURL, cfg.Egress.RootCAs = receiver(t, time.Now().Add(c.left))
			cfg.Egress.Policy.Ports = all
			if c.allow {
				cfg.Egress.Policy.Allow = egress.LoopbackPrefixes()
			}
			holds(t, cfg, c.status, c.want)
		})
	}
	cfg := newConfig(t, "egress")
	cfg.Egress.Policy.Allow, err = egress.ParsePrefixes([]string{"169.254.0.0/16"})
	if err != nil {
		t.Fatal(err)
	}
	holds(t, cfg, doctor.Problem, "169.254.169.254, where clouds hand out credentials")
}

func TestANameServerThatDoesNotAnswerIsNamed(t *testing.T) {
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	cfg := newConfig(t, "dns")
	cfg.Egress.DNSServer, cfg.Egress.AttemptTimeout = silent.LocalAddr().String(), time.Second
	holds(t, cfg, doctor.Problem, "did not answer for lumenhook-doctor.invalid", "--dns-server")
}

func TestADiskThatCannotBeUsedIsNamed(t *testing.T) {
	cfg := newConfig(t, "disk")
	holds(t, cfg, doctor.OK, "a write reaches the disk in")
	left, err := os.ReadDir(cfg.DataDir)
	if err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
	cfg.LeastFree = 1 << 62
	holds(t, cfg, doctor.Problem, "free up space: until then the service accepts no new work")
	cfg.LeastFree, cfg.DataDir = 0, "/proc/nowhere"
	holds(t, cfg, doctor.Problem, "writing to /proc")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = file
	holds(t, cfg, doctor.Problem, "is not a folder")
}

func TestFilesThatOthersMayReadAreNamed(t *testing.T) {
	cfg := newConfig(t, "files")
	file := filepath.Join(t.TempDir(), "password")
	cfg.SecretFiles = []string{file}
	holds(t, cfg, doctor.Problem, "does not exist")
	if err := os.WriteFile(file, []byte("geheim"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, cfg, doctor.OK, "only their user can read the secret files (1)")
	if err := os.Chmod(file, 0o644); err != nil { // what the check must find
		t.Fatal(err)
	}
	holds(t, cfg, doctor.Problem, "has mode 0644", "run `chmod 600 "+file+"`")
}

func TestLimitsAreRead(t *testing.T) {
	cfg := newConfig(t, "limits")
	if status, said := found(t, cfg); status == doctor.Problem {
		t.Error(said)
	}
	cfg.LeastFiles = 1 << 40
	holds(t, cfg, doctor.Warning, "LimitNOFILE=")
}

type noMails struct{ t *testing.T }

func (b noMails) NewSession(*smtp.Conn) (smtp.Session, error) { return b, nil }
func (b noMails) Reset()                                      {}
func (b noMails) Logout() error                               { return nil }
func (b noMails) Rcpt(string, *smtp.RcptOptions) error        { return nil }
func (b noMails) Data(io.Reader) error                        { return nil }
func (b noMails) Mail(string, *smtp.MailOptions) error {
	b.t.Error("a mail was sent")
	return nil
}

func TestTheMailServerIsTriedWithoutAMail(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(noMails{t})
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	for mode, c := range map[mailer.TLSMode]struct {
		status doctor.Status
		want   string
	}{
		mailer.TLSNone:     {doctor.OK, "no email was sent"},
		mailer.TLSStartTLS: {doctor.Problem, "STARTTLS"},
	} {
		cfg := newConfig(t, "mail")
		cfg.MailServer = l.Addr().String()
		cfg.Mail, err = mailer.NewSMTP(mailer.SMTPConfig{
			Addr: cfg.MailServer,
			From: "hooks@shop.example",
			TLS:  mode,
		})
		if err != nil {
			t.Fatal(err)
		}
		holds(t, cfg, c.status, c.want)
	}
}

func TestFaultsOfTheConfigurationAreNamed(t *testing.T) {
	cfg := newConfig(t, "configuration")
	cfg.Faults = []error{fmt.Errorf("--roles: name at least one")}
	holds(t, cfg, doctor.Problem, "--roles: name at least one", "lumenhook config check")
	if err := doctor.CheckNames([]string{"kafka", "x"}); err == nil {
		t.Error("a check that does not exist is taken")
	}
}
