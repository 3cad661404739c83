package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Service locates a service. The zero value has no folder and no address.
type Service struct {
	DataDir    string
	Kafka      Kafka
	ClickHouse ClickHouse

	apiURL string
	apiKey string
	caFile string
}

// Register adds --data-dir. The processes of `lumenhook serve` don't have it, because their folder
// contains only state.
func (s *Service) Register(f *pflag.FlagSet) {
	f.StringVar(&s.DataDir, "data-dir", ".lumenhook", "data folder of the running service")
	cli.NotShared(f, "data-dir")
}

// RegisterAPI adds the flags for the API.
func (s *Service) RegisterAPI(f *pflag.FlagSet) {
	f.StringVar(&s.apiURL, "api-url", "", "URL of the API, instead of the data folder's")
	f.StringVar(&s.apiKey, "api-key", "",
		"API key, instead of the data folder's; for security, use LUMENHOOK_API_KEY instead")
	f.StringVar(&s.caFile, "ca-file", "",
		"PEM file with certificate authorities to trust for the API (default the data folder's)")
}

// NamesAPI reports whether a flag names the API.
func (s *Service) NamesAPI() bool { return s.apiURL != "" }

// RegisterKafka adds the flags of commands that read topics or submit commands. Config files of
// `lumenhook serve` can also set them.
func (s *Service) RegisterKafka(f *pflag.FlagSet) {
	s.Kafka.Register(f)
	cli.ShareConfig(f)
}

// NamedCluster returns the connection settings from the flags. Brokers is empty if no flag names
// them. The Kafka client logs nothing, because its errors are returned.
func (s *Service) NamedCluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.Kafka.Cluster("lumenhook-cli", logger)
	c.Quiet = true
	return c, cli.Usage(err)
}

// Cluster returns the Kafka connection settings, or an error if no broker listens there.
func (s *Service) Cluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.addressedCluster(logger)
	if err != nil {
		return c, err
	}
	return c, c.Listening(context.Background())
}

func (s *Service) addressedCluster(logger *slog.Logger) (kafka.Cluster, error) {
	c, err := s.NamedCluster(logger)
	if err != nil || len(c.Brokers) > 0 {
		return c, err
	}
	run, err := s.Run("name the brokers with --kafka-brokers")
	if err != nil {
		return c, err
	}
	c.Brokers, c.SASL, c.TLS = run.KafkaBrokers, run.Kafka.SASL(), kafka.TLS{}
	return c, nil
}

// Run reads run.json in the data folder. or tells users what to do if there is none.
func (s *Service) Run(or string) (runfile.File, error) {
	run, err := runfile.Read(s.DataDir)
	if err != nil {
		return runfile.File{}, fmt.Errorf("%w; or %s", err, or)
	}
	return run, nil
}

// IsFoldersKey reports whether id is the id of the data folder's API key.
func (s *Service) IsFoldersKey(id string) bool {
	run, err := runfile.Read(s.DataDir)
	return err == nil && run.APIKeyID == id
}

// IsLive reports whether the data folder's service follows the public network.
func (s *Service) IsLive() bool {
	run, err := runfile.Read(s.DataDir)
	return err == nil && run.Stellar.NetworkPassphrase == network.PublicNetworkPassphrase
}

// Account returns id, or the data folder's account if id is empty.
func (s *Service) Account(id string) (string, error) {
	if id == "" {
		run, err := s.Run("give --account")
		return run.AccountID, err
	}
	if !domain.IsID(domain.AccountPrefix, id) {
		return "", cli.Usage(fmt.Errorf("--account %q: must be acc_ followed by 26 characters", id))
	}
	return id, nil
}

const (
	// requestTimeout applies to each request: a test waits for its attempt.
	requestTimeout = 45 * time.Second
	// keyTimeout bounds how long to wait until the API accepts a new key, and keyInterval is the
	// interval between checks.
	keyTimeout  = 5 * time.Second
	keyInterval = 50 * time.Millisecond
)

// API returns a client for the API.
func (s *Service) API() (*client.Client, error) {
	url, key, caFile := strings.TrimRight(s.apiURL, "/"), s.apiKey, s.caFile
	if url == "" || key == "" {
		run, err := s.Run("give --api-url and --api-key")
		switch {
		case url != "" && (err != nil || run.APIURL != strings.TrimSuffix(url, "/v1")):
			// The data folder's key must not be sent to any other service.
			return nil, cli.Usage(fmt.Errorf("--api-key is required with --api-url %s; "+
				"for security, set it with %s", url, cli.Variable("api-key")))
		case err != nil:
			return nil, err
		}
		url, key = cmp.Or(url, run.APIURL), cmp.Or(key, run.APIKey)
		caFile = cmp.Or(caFile, run.CAFile)
	}
	transport, err := trusting(caFile, url)
	if err != nil {
		return nil, fmt.Errorf("--ca-file %q: %w", caFile, err)
	}
	c, err := client.New(url, key, &http.Client{Transport: transport, Timeout: requestTimeout})
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--api-url %q: must be a URL such as "+
			"http://127.0.0.1:8080", url))
	}
	return c, nil
}

func trusting(caFile, url string) (http.RoundTripper, error) {
	pem, err := keys.ReadAuthorities(caFile)
	if err != nil || pem == nil || strings.HasPrefix(url, "http://") {
		return http.DefaultTransport, err
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	roots.AppendCertsFromPEM(pem)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport, nil
}

// AwaitKey waits a few seconds until the API accepts a new key. Without an API it returns
// immediately; nodes accept the key within 5 s.
func (s *Service) AwaitKey(ctx context.Context, key string) {
	asking := *s
	asking.apiKey = key
	c, err := asking.API()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, keyTimeout)
	defer cancel()
	tick := time.NewTicker(keyInterval)
	defer tick.Stop()
	for {
		_, err := c.ListKeys(ctx, client.Page{Limit: 1})
		var refused *client.Problem
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// catchUpMax bounds the wait for the history, which is normally less than a second behind.
const catchUpMax = 2 * time.Second

// RegisterClickHouse adds the flags of commands that read or write the history. Config files of
// `lumenhook serve` can also set them.
func (s *Service) RegisterClickHouse(f *pflag.FlagSet) {
	s.ClickHouse.Register(f, "ClickHouse server, such as "+
		"clickhouse://user:password@host:9000/lumenhook, instead of the data folder's")
	cli.ShareConfig(f)
}

// Database opens the history for writing. The caller must close it.
func (s *Service) Database() (*writer.DB, error) {
	dsn, err := s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Login })
	if err != nil {
		return nil, err
	}
	return writer.Open(dsn)
}

// ReaderDSN returns the DSN of the history's read-only user.
func (s *Service) ReaderDSN() (string, error) {
	return s.dsn(func(c *runfile.ClickHouse) runfile.Login { return c.Reader })
}

// AwaitHistory waits briefly until the history contains the current records of its topics, and
// returns how many are still missing. If flags name ClickHouse but no brokers, that is unknown and
// it returns 0.
func (s *Service) AwaitHistory(ctx context.Context, dsn string) (missing int64, err error) {
	if s.ClickHouse.DSN != "" && len(s.Kafka.Brokers) == 0 {
		return 0, nil // the data folder's brokers belong to another history
	}
	cluster, err := s.addressedCluster(slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	return missingRecords(ctx, dsn, cluster)
}

func missingRecords(ctx context.Context, dsn string, of kafka.Cluster) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, catchUpMax)
	defer cancel()
	db, err := writer.Open(dsn)
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	lag, err := writer.NewLag(db, of)
	if err != nil {
		return 0, err
	}
	defer lag.Close()
	missing, err := lag.CatchUp(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the brokers %s did not answer within %s",
			strings.Join(of.Brokers, ", "), catchUpMax)
	}
	return missing, err
}

func (s *Service) dsn(who func(*runfile.ClickHouse) runfile.Login) (string, error) {
	err := errors.Join(s.ClickHouse.Check()...)
	if err != nil || s.ClickHouse.DSN != "" {
		return s.ClickHouse.Address, cli.Usage(err)
	}
	run, err := s.Run("name ClickHouse with --clickhouse-dsn")
	if err != nil {
		return "", err
	}
	if run.ClickHouse == nil {
		return "", fmt.Errorf("the service has no ClickHouse: %s; to use another server, set "+
			"--clickhouse-dsn", cmp.Or(run.NoHistory, "it was started with --clickhouse-dsn"))
	}
	return run.ClickHouse.DSN(who(run.ClickHouse)), nil
}

const (
	// processTimeout is longer than a process's own health checks.
	processTimeout = 10 * time.Second
	// processMaxBytes bounds a response. The health of all roles takes 2 KB, and 32 abandoned
	// ledger sources take 20 KB.
	processMaxBytes = 64 << 10
)

// Process locates the metrics port of a process (--metrics-listen).
type Process struct {
	Service
	listen  string
	timeout time.Duration
	flags   *pflag.FlagSet
}

// Register adds the flags. Their defaults come from the config files of `lumenhook serve`.
func (p *Process) Register(f *pflag.FlagSet) {
	p.Service.Register(f)
	cli.ShareConfig(f)
	f.StringVar(&p.listen, "metrics-listen", "127.0.0.1:9464",
		"address where the process serves /readyz; without this flag, the command uses the data "+
			"folder's address")
	f.DurationVar(&p.timeout, "timeout", processTimeout,
		"how long to wait for a response (1ms to 1m)")
	p.flags = f
}

// said is the response of a process.
type said struct {
	url      string // requested URL
	status   int
	body     []byte
	byFolder bool // expected from the data folder's service
}

func (s said) strange() error {
	return fmt.Errorf("unexpected response from %s (HTTP %d %s); "+
		"is it the process's --metrics-listen address?", s.url, s.status, http.StatusText(s.status))
}

// ask requests a path. It bypasses proxies and follows no redirects, to reach the process itself.
func (p *Process) ask(ctx context.Context, path string) (s said, err error) {
	if p.timeout < time.Millisecond || p.timeout > time.Minute {
		return s, cli.Usage(fmt.Errorf("--timeout %s: must be from 1ms to 1m", p.timeout))
	}
	base, noFolder, err := p.base()
	if err != nil {
		return s, err
	}
	s.url, s.byFolder = base+path, !p.flags.Changed("metrics-listen")
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return s, err
	}
	answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	switch {
	case noFolder != nil && errors.Is(err, syscall.ECONNREFUSED):
		return s, fmt.Errorf("%w; and nothing listens at %s, the default of lumenhook serve; "+
			"set --metrics-listen", noFolder, p.listen)
	case err != nil:
		return s, &url.Error{Op: http.MethodGet, URL: s.url, Err: err}
	}
	defer answer.Body.Close()
	s.status = answer.StatusCode
	if s.body, err = io.ReadAll(io.LimitReader(answer.Body, processMaxBytes)); err != nil {
		return s, &url.Error{Op: http.MethodGet, URL: s.url, Err: err}
	}
	return s, nil
}

// base returns the base URL of the process's metrics port: the data folder's or, if the folder has
// no running service, the --metrics-listen address. noFolder then says why.
func (p *Process) base() (address string, noFolder, err error) {
	if !p.flags.Changed("metrics-listen") {
		run, err := runfile.Read(p.DataDir)
		switch {
		case err == nil && run.MetricsURL == "":
			return "", nil, fmt.Errorf("the service of %s has no metrics port; "+
				"start it with --metrics-listen", p.DataDir)
		case err == nil:
			return strings.TrimSuffix(run.MetricsURL, "/metrics"), nil, nil
		case runfile.IsPackaged(p.DataDir):
			return "", nil, err
		case cli.OnCommandLine(p.flags, "data-dir") || runfile.HasRun(p.DataDir):
			return "", nil, fmt.Errorf("%w; or set --metrics-listen", err)
		}
		noFolder = err
	}
	if p.listen == "" {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"must be the address of a running process", p.listen))
	}
	if err := cli.CheckAddress(p.listen); err != nil {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: %w", p.listen, err))
	}
	host, port, _ := net.SplitHostPort(p.listen) // checked
	if port == "0" {
		return "", nil, cli.Usage(fmt.Errorf("--metrics-listen %q: "+
			"must be the actual port; see the process's log", p.listen))
	}
	return "http://" + net.JoinHostPort(reachable(host), port), noFolder, nil
}

// reachable returns the loopback address if host stands for all addresses.
func reachable(host string) string {
	at, err := netip.ParseAddr(host)
	switch {
	case err != nil || !at.IsUnspecified():
		return host
	case at.Is4():
		return "127.0.0.1"
	}
	return "::1"
}

// HealthFlags selects the process to check and the kind of check.
type HealthFlags struct {
	Process
	alive bool
}

// Register adds the flags. Their defaults come from the config files of `lumenhook serve`.
func (h *HealthFlags) Register(f *pflag.FlagSet) {
	h.Process.Register(f)
	f.BoolVar(&h.alive, "alive", false,
		"only check whether the process responds (/healthz), not whether its parts are healthy")
}

// Health is a process's health report.
type Health struct {
	URL     string       `json:"url"` // requested URL
	Status  string       `json:"status"`
	DataDir string       `json:"dataDir,omitempty"` // of `lumenhook run`
	Checks  []HealthPart `json:"checks"`
	ok      bool
}

// HealthPart is the health of one part of the process.
type HealthPart struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

const partOK = "ok"

// Fault returns an error that lists the unhealthy parts, or nil if there are none.
func (h Health) Fault() error {
	if h.ok {
		return nil
	}
	var parts []string
	for _, c := range h.Checks {
		if c.Status != partOK {
			parts = append(parts, c.Name+": "+c.Detail)
		}
	}
	return fmt.Errorf("the process is %s: %s", h.Status, strings.Join(parts, "; "))
}

// Ask requests the health. An error means that no Lumenhook process responded.
func (h *HealthFlags) Ask(ctx context.Context) (health Health, err error) {
	path := "/readyz"
	if h.alive {
		path = "/healthz"
	}
	said, err := h.ask(ctx, path)
	if err != nil {
		return health, err
	}
	health.ok = said.status == http.StatusOK
	known := health.ok || said.status == http.StatusServiceUnavailable
	if !known || json.Unmarshal(said.body, &health) != nil || health.Status == "" {
		return health, said.strange()
	}
	health.URL = said.url
	if said.byFolder && health.DataDir != "" && !sameFolder(health.DataDir, h.DataDir) {
		return health, fmt.Errorf("the service of %s is not running: %s is answered by the service of "+
			"%s; set  --data-dir to that folder, or set --metrics-listen",
			h.DataDir, said.url, health.DataDir)
	}
	return health, nil
}

func sameFolder(a, b string) bool {
	at, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(at, other)
}

var (
	errNoFollower = errors.New("the process has no follower, so it has no ledger sources; use " +
		"--metrics-listen to select a process with the role follower")
	errStandsBy = errors.New("the follower of this process does not read ledgers now. If it waits " +
		"for its sources, `lumenhook health` says so, and `lumenhook doctor --only ledgers` checks " +
		"each one. If it is on standby, use --metrics-listen to select the process whose " +
		"lumenhook_ledger_sequence grows")
)

// LedgerSources returns the state of the ledger sources from the process that follows them. Any
// other process is an error, because its state would be outdated.
func (p *Process) LedgerSources(ctx context.Context) (sources node.LedgerSources, err error) {
	said, err := p.ask(ctx, "/ledger-sources")
	if err != nil {
		return sources, err
	}
	switch {
	case said.status != http.StatusOK || json.Unmarshal(said.body, &sources) != nil:
		return sources, said.strange()
	case !sources.Follower:
		return sources, errNoFollower
	case !sources.Following:
		return sources, errStandsBy
	}
	return sources, nil
}
