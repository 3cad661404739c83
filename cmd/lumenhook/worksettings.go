package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/pki"
)

// workSettings are the flags of the roles, which `run` and `serve` have in common.
type workSettings struct {
	apiListen           string
	metricsListen       string
	clickhouse          clickhouseSettings
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
	tracing             tracingSettings
	attemptsInFlight    int
	attemptsPerEndpoint int
	leastFreeMiB        int
	apiRateLimit        int
	logLevel            string

	schedule  domain.Schedule
	ports     egress.PortSet
	egressPEM []byte
}

func (s *workSettings) register(f *pflag.FlagSet, logLevel string) {
	f.StringVar(&s.apiListen, "api-listen", "127.0.0.1:8080", "address of the API; port 0 picks a free one")
	f.StringVar(&s.metricsListen, "metrics-listen", "127.0.0.1:9464", "address of /metrics, for Prometheus, and of /healthz and /readyz; empty: none")
	s.clickhouse.register(f, "ClickHouse of the history: clickhouse://user:password@host:9000/database, with ?secure=true for TLS; with `run`, in place of an embedded one")
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
	s.tracing.register(f)
	f.IntVar(&s.attemptsInFlight, "attempts-in-flight", 512, "attempts under way for each partition")
	f.IntVar(&s.attemptsPerEndpoint, "attempts-per-endpoint", 128, "attempts under way to one endpoint")
	f.IntVar(&s.leastFreeMiB, "least-free-mib", 256, "room that the data folder's disk must have; with less, no new work is taken")
	f.IntVar(&s.apiRateLimit, "api-rate-limit", 10_000, "requests a second that each API key may make, with bursts of twice as many")
	f.StringVar(&s.logLevel, "log-level", logLevel, "debug, info, warn or error")
	cli.Secret(f, "egress-proxy")
}

// check parses what is text and returns every fault.
func (s *workSettings) check() (faults []error) {
	fault := func(flag, value string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, value, err))
		}
	}
	fault("api-listen", s.apiListen, checkAddress(s.apiListen))
	if s.metricsListen != "" {
		fault("metrics-listen", s.metricsListen, checkAddress(s.metricsListen))
	}
	faults = append(faults, s.clickhouse.check()...)
	var err error
	s.egressPEM, err = pki.ReadAuthorities(s.egressCA)
	fault("egress-ca", s.egressCA, err)
	s.schedule, err = parseSchedule(s.retrySchedule)
	fault("retry-schedule", s.retrySchedule, err)
	s.ports, err = egress.ParsePorts(s.egressPorts)
	fault("egress-ports", s.egressPorts, err)
	if s.attemptTimeout < 10*time.Millisecond || s.attemptTimeout > time.Hour {
		fault("attempt-timeout", s.attemptTimeout.String(), errors.New("must be from 10ms to 1h"))
	}
	faults = append(faults, s.tracing.check()...)
	_, err = parseLevel(s.logLevel)
	fault("log-level", s.logLevel, err)
	for _, n := range []struct {
		flag             string
		value, low, high int
	}{
		{"attempts-in-flight", s.attemptsInFlight, 1, 10_000}, {"attempts-per-endpoint", s.attemptsPerEndpoint, 1, 10_000},
		{"disable-after", s.disableAfter, 0, 1_000_000}, {"api-rate-limit", s.apiRateLimit, 1, 1_000_000},
		{"least-free-mib", s.leastFreeMiB, 1, 1 << 30},
	} {
		if n.value < n.low || n.value > n.high {
			fault(n.flag, strconv.Itoa(n.value), fmt.Errorf("must be from %d to %d", n.low, n.high))
		}
	}
	for _, check := range []func() []error{s.egress.check, s.edge.check, s.mail.check, s.history.check} {
		faults = append(faults, check()...)
	}
	return faults
}

// policy is what engines decide by.
func (s *workSettings) policy() domain.Policy {
	return domain.Policy{
		Schedule: s.schedule, DisableAfter: s.disableAfter, HonourRetryAfter: s.honourRetryAfter,
	}
}

// egressConfig is that of the guarded client. Nothing on this machine or in private
// networks may be reached, unless flags allow it.
func (s *workSettings) egressConfig() egress.Config {
	cfg := egress.Config{
		Policy: egress.Policy{Ports: s.ports}, RootCAs: systemRoots(),
		AttemptTimeout: s.attemptTimeout, MaxIdlePerHost: maxIdlePerHost,
	}
	cfg.RootCAs.AppendCertsFromPEM(s.egressPEM)
	s.egress.apply(&cfg)
	return cfg
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, errors.New("must be debug, info, warn or error")
	}
	return level, nil
}
