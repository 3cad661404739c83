package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet"
	"github.com/lumenhook/lumenhook/projections"
)

// runSettings are the flags of `lumenhook run`.
type runSettings struct {
	dataDir             string
	apiListen           string
	kafkaListen         string
	clickhouseNative    string
	clickhouseHTTP      string
	stellarListen       string
	receiverListen      string
	metricsListen       string
	clickhouseDSN       string
	brokerSync          bool
	noDemo              bool
	demoInterval        time.Duration
	ledgerInterval      time.Duration
	retrySchedule       string
	honourRetryAfter    bool
	disableAfter        int
	attemptTimeout      time.Duration
	egressPorts         string
	egressCA            string
	egress              egressSettings
	edge                edgeSettings
	mail                mailSettings
	history             historySettings
	attemptsInFlight    int
	attemptsPerEndpoint int
	leastFreeMiB        int
	apiRateLimit        int
	logLevel            string
	holdFile            string // for tests
	changed             func(name string) bool
	schedule            domain.Schedule
	ports               egress.PortSet
	egressPEM           []byte
	source              sourceSettings // only where to start: run follows its own network
	stellarRetention    uint32
	stellarFaults       string
	stellarLake         string
	faults              []devnet.Fault
}

const defaultSchedule = "30s,2m,10m,30m,1h,3h,6h,12h,24h"

func (s *runSettings) register(f *pflag.FlagSet) {
	f.StringVar(&s.dataDir, "data-dir", ".lumenhook", "folder of all data and secrets")
	f.StringVar(&s.apiListen, "api-listen", "127.0.0.1:8080", "address of the API; port 0 picks a free one")
	f.StringVar(&s.kafkaListen, "kafka-listen", "127.0.0.1:9092", "address of the embedded Kafka broker")
	f.StringVar(&s.clickhouseNative, "clickhouse-native-listen", "127.0.0.1:9000", "address of the embedded ClickHouse, native protocol")
	f.StringVar(&s.clickhouseHTTP, "clickhouse-http-listen", "127.0.0.1:8123", "address of the embedded ClickHouse, HTTP")
	f.StringVar(&s.stellarListen, "stellar-listen", "127.0.0.1:8000", "address of the development network's RPC and friendbot")
	f.StringVar(&s.receiverListen, "receiver-listen", "127.0.0.1:8444", "address of the demo receiver (HTTPS); 8443 is left to a receiver of yours")
	f.StringVar(&s.metricsListen, "metrics-listen", "127.0.0.1:9464", "address of /metrics, for Prometheus; empty: none")
	f.StringVar(&s.clickhouseDSN, "clickhouse-dsn", "", "use this ClickHouse instead of an embedded one (clickhouse://host:9000/database)")
	f.BoolVar(&s.brokerSync, "broker-sync", false, "fsync every write of the embedded broker")
	f.BoolVar(&s.noDemo, "no-demo", false, "no demo receiver, endpoint, watch and payments")
	f.DurationVar(&s.demoInterval, "demo-interval", 15*time.Second, "time between the demo's payments")
	f.DurationVar(&s.ledgerInterval, "ledger-interval", time.Second, "time between ledgers of the development network")
	f.Uint32Var(&s.stellarRetention, "stellar-retention", 0, "ledgers that the development network keeps; 0: as many as a public server")
	f.StringVar(&s.stellarFaults, "stellar-faults", "", "answers of the development network to spoil: KIND@LEDGERxANSWERS, comma-separated; errors, garbage, gap, behind or reset")
	f.StringVar(&s.stellarLake, "stellar-lake", "", "folder to export the development network's ledgers to, as a lake")
	s.source.registerStart(f)
	f.StringVar(&s.retrySchedule, "retry-schedule", defaultSchedule, "waits between attempts, comma-separated; attempts = waits + 1")
	f.BoolVar(&s.honourRetryAfter, "honour-retry-after", false, "let a receiver's Retry-After lengthen a wait, at most to the next one of the schedule")
	f.IntVar(&s.disableAfter, "disable-after", domain.DefaultDisableAfter, "events in a row that used up all attempts before an endpoint is disabled; 0: never")
	f.DurationVar(&s.attemptTimeout, "attempt-timeout", 10*time.Second, "time that a receiver has for a complete answer")
	f.StringVar(&s.egressPorts, "egress-ports", "443,8443", "ports that endpoint URLs may name, with ranges: 443,9000-9100")
	f.StringVar(&s.egressCA, "egress-ca", "", "PEM file of further certificate authorities to trust")
	s.egress.register(f)
	s.edge.register(f)
	s.mail.register(f)
	s.history.register(f)
	f.IntVar(&s.attemptsInFlight, "attempts-in-flight", 512, "attempts under way for each partition")
	f.IntVar(&s.attemptsPerEndpoint, "attempts-per-endpoint", 128, "attempts under way to one endpoint")
	f.IntVar(&s.leastFreeMiB, "least-free-mib", 256, "room that the data folder's disk must have; with less, no new work is taken")
	f.IntVar(&s.apiRateLimit, "api-rate-limit", 10_000, "requests a second that each API key may make, with bursts of twice as many")
	f.StringVar(&s.logLevel, "log-level", "warn", "debug, info, warn or error")
	f.StringVar(&s.holdFile, "fault-hold-file", "", "for tests: file that names a request of the broker to hold")
	_ = f.MarkHidden("fault-hold-file")
	s.changed = f.Changed
}

// check parses what is text and names every fault at once.
func (s *runSettings) check() error {
	var faults []error
	fault := func(flag, value string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, value, err))
		}
	}
	var err error
	if s.dataDir == "" {
		fault("data-dir", s.dataDir, errNoFolder)
	} else if s.dataDir, err = filepath.Abs(s.dataDir); err != nil {
		fault("data-dir", s.dataDir, err)
	}
	for flag, address := range map[string]string{
		"api-listen": s.apiListen, "kafka-listen": s.kafkaListen, "clickhouse-native-listen": s.clickhouseNative,
		"clickhouse-http-listen": s.clickhouseHTTP, "stellar-listen": s.stellarListen, "receiver-listen": s.receiverListen,
	} {
		fault(flag, address, checkAddress(address))
	}
	if s.metricsListen != "" {
		fault("metrics-listen", s.metricsListen, checkAddress(s.metricsListen))
	}
	// The DSN may hold a password, and so may the error of whoever reads it.
	if s.clickhouseDSN != "" && projections.CheckDSN(s.clickhouseDSN) != nil {
		faults = append(faults, errors.New("--clickhouse-dsn: must be like clickhouse://user:password@host:9000/lumenhook, with a database of 1 to 63 letters, digits or underscores"))
	}
	s.egressPEM, err = readAuthorities(s.egressCA)
	fault("egress-ca", s.egressCA, err)
	if err := s.source.checkStart(); err != nil {
		faults = append(faults, err)
	}
	s.faults, err = devnet.ParseFaults(s.stellarFaults)
	fault("stellar-faults", s.stellarFaults, err)
	s.schedule, err = parseSchedule(s.retrySchedule)
	fault("retry-schedule", s.retrySchedule, err)
	s.ports, err = egress.ParsePorts(s.egressPorts)
	fault("egress-ports", s.egressPorts, err)
	for flag, d := range map[string]time.Duration{"demo-interval": s.demoInterval, "attempt-timeout": s.attemptTimeout} {
		if d < 10*time.Millisecond || d > time.Hour {
			fault(flag, d.String(), errors.New("must be from 10ms to 1h"))
		}
	}
	if s.ledgerInterval < 50*time.Millisecond || s.ledgerInterval > time.Hour {
		fault("ledger-interval", s.ledgerInterval.String(), errors.New("must be from 50ms to 1h"))
	}
	for flag, n := range map[string]int{"attempts-in-flight": s.attemptsInFlight, "attempts-per-endpoint": s.attemptsPerEndpoint} {
		if n < 1 || n > 10_000 {
			fault(flag, strconv.Itoa(n), errors.New("must be from 1 to 10000"))
		}
	}
	if s.disableAfter < 0 || s.disableAfter > 1_000_000 {
		fault("disable-after", strconv.Itoa(s.disableAfter), errors.New("must be from 0 to 1000000"))
	}
	if s.apiRateLimit < 1 || s.apiRateLimit > 1_000_000 {
		fault("api-rate-limit", strconv.Itoa(s.apiRateLimit), errors.New("must be from 1 to 1000000"))
	}
	if s.leastFreeMiB < 1 || s.leastFreeMiB > 1<<30 {
		fault("least-free-mib", strconv.Itoa(s.leastFreeMiB), errors.New("must be from 1 to 1073741824"))
	}
	_, err = parseLevel(s.logLevel)
	fault("log-level", s.logLevel, err)
	faults = append(faults, s.egress.check()...)
	faults = append(faults, s.edge.check()...)
	if s.edge.tlsCert != "" && !s.noDemo {
		faults = append(faults, errors.New("--api-tls-cert: the demo speaks to the API without TLS: add --no-demo"))
	}
	faults = append(faults, s.mail.check()...)
	faults = append(faults, s.history.check()...)
	slices.SortFunc(faults, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(faults...)
}

// errNoFolder is the fault of an empty --data-dir, which would be the current
// folder to whoever joins paths.
var errNoFolder = errors.New("must name a folder, such as .lumenhook")

// readAuthorities reads a PEM file of certificates; no name is none.
func readAuthorities(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = errors.New("holds no certificate in PEM form")
	}
	return pem, err
}

func checkAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return errors.New("must be host:port, such as 127.0.0.1:0")
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errors.New("the port must be from 0 to 65535")
	}
	if host == "" {
		return errors.New("must name a host; 0.0.0.0 means all of this machine's addresses")
	}
	return nil
}

// parseSchedule reads waits such as "30s,2m".
func parseSchedule(text string) (domain.Schedule, error) {
	var s domain.Schedule
	for part := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return s, fmt.Errorf("%q is not a wait such as 30s, 2m or 1h", part)
		}
		if d < time.Millisecond || d > 30*24*time.Hour {
			return s, fmt.Errorf("%q: a wait must be from 1ms to 720h", part)
		}
		s.WaitsMillis = append(s.WaitsMillis, d.Milliseconds())
	}
	if len(s.WaitsMillis) > 100 {
		return s, errors.New("at most 100 waits")
	}
	return s, nil
}
