package nodeflags

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/clickhouseflags"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/startstop"
	"github.com/lumenhook/lumenhook/internal/telemetry"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

const defaultSchedule = "30s,2m,10m,30m,1h,3h,6h,12h,24h"

// Flags are the parsed flags. Ports is set once Check has returned.
type Flags struct {
	APIListen     string
	MetricsListen string         // empty: none
	Ports         egress.PortSet // that endpoint URLs may name
	ClickHouse    clickhouseflags.Flags

	retrySchedule       string
	honourRetryAfter    bool
	disableAfter        int
	attemptTimeout      time.Duration
	egressPorts         string
	egressCA            string
	egress              egressFlags
	sockets             socketFlags
	mail                mailFlags
	history             historyFlags
	retention           retentionFlags
	tracing             tracingFlags
	attemptsInFlight    int
	attemptsPerEndpoint int
	leastFreeMiB        int
	apiRateLimit        int
	logLevel            string

	schedule  domain.Schedule
	egressPEM []byte
}

// Register adds the flags, with a level of the log.
func (s *Flags) Register(f *pflag.FlagSet, logLevel string) {
	cli.Group(f, "API", func(f *pflag.FlagSet) {
		f.StringVar(&s.APIListen, "api-listen", "127.0.0.1:8080",
			"address of the API; port 0 picks a free one")
		f.IntVar(&s.apiRateLimit, "api-rate-limit", 10_000,
			"requests a second that each API key may make, with bursts of twice as many")
		s.sockets.register(f)
	})
	s.ClickHouse.Register(f, "ClickHouse of the history, such as "+
		"clickhouse://host:9000/lumenhook?secure=true with TLS; without it, \"lumenhook run\" "+
		"starts one of its own")
	cli.Group(f, "Delivery", s.registerDelivery)
	cli.Group(f, "Egress", s.registerEgress)
	cli.Group(f, "History", s.history.register)
	cli.Group(f, "Topics", s.retention.register)
	cli.Group(f, "Mail", s.mail.register)
	cli.Group(f, "Metrics and traces", func(f *pflag.FlagSet) {
		f.StringVar(&s.MetricsListen, "metrics-listen", "127.0.0.1:9464",
			"address of /metrics, for Prometheus, and of /healthz and /readyz; empty: none")
		s.tracing.register(f)
	})
	f.IntVar(&s.leastFreeMiB, "least-free-mib", 256,
		"room that the data folder's disk must have; with less, no new work is taken")
	f.StringVar(&s.logLevel, "log-level", logLevel, "debug, info, warn or error")
}

// registerDelivery adds the flags of attempts.
func (s *Flags) registerDelivery(f *pflag.FlagSet) {
	f.StringVar(&s.retrySchedule, "retry-schedule", defaultSchedule,
		"waits between attempts, comma-separated; attempts = waits + 1")
	f.BoolVar(&s.honourRetryAfter, "honour-retry-after", false, "let a receiver's Retry-After "+
		"lengthen a wait, at most to the next one of the schedule")
	f.IntVar(&s.disableAfter, "disable-after", domain.DefaultDisableAfter, "events in a row that "+
		"used up all attempts before an endpoint is disabled; 0: never")
	f.DurationVar(&s.attemptTimeout, "attempt-timeout", 10*time.Second,
		"time that a receiver has for a complete answer")
	f.IntVar(&s.attemptsInFlight, "attempts-in-flight", 512,
		"attempts under way for each partition")
	f.IntVar(&s.attemptsPerEndpoint, "attempts-per-endpoint", 128,
		"attempts under way to one endpoint")
}

// registerEgress adds the flags of how receivers are reached.
func (s *Flags) registerEgress(f *pflag.FlagSet) {
	f.StringVar(&s.egressPorts, "egress-ports", "443,8443",
		"ports that endpoint URLs may name, with ranges: 443,9000-9100")
	f.StringVar(&s.egressCA, "egress-ca", "",
		"PEM file of further certificate authorities to trust")
	s.egress.register(f)
	cli.Secret(f, "egress-proxy")
}

// Check parses the values and returns every fault.
func (s *Flags) Check() (faults []error) {
	fault := func(flag, value string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s %q: %w", flag, value, err))
		}
	}
	fault("api-listen", s.APIListen, cli.CheckAddress(s.APIListen))
	if s.MetricsListen != "" {
		fault("metrics-listen", s.MetricsListen, cli.CheckAddress(s.MetricsListen))
	}
	var err error
	s.egressPEM, err = pki.ReadAuthorities(s.egressCA)
	fault("egress-ca", s.egressCA, err)
	s.schedule, err = parseSchedule(s.retrySchedule)
	fault("retry-schedule", s.retrySchedule, err)
	s.Ports, err = egress.ParsePorts(s.egressPorts)
	fault("egress-ports", s.egressPorts, err)
	if s.attemptTimeout < 10*time.Millisecond || s.attemptTimeout > time.Hour {
		fault("attempt-timeout", s.attemptTimeout.String(), errors.New("must be from 10ms to 1h"))
	}
	_, err = parseLevel(s.logLevel)
	fault("log-level", s.logLevel, err)
	for _, check := range []func() []error{
		s.ClickHouse.Check, s.checkNumbers, s.egress.check, s.sockets.check, s.mail.check,
		s.history.check, s.retention.check, s.tracing.check,
	} {
		faults = append(faults, check()...)
	}
	return faults
}

func (s *Flags) checkNumbers() (faults []error) {
	for _, n := range []struct {
		flag             string
		value, low, high int
	}{
		{"attempts-in-flight", s.attemptsInFlight, 1, 10_000},
		{"attempts-per-endpoint", s.attemptsPerEndpoint, 1, 10_000},
		{"disable-after", s.disableAfter, 0, 1_000_000},
		{"api-rate-limit", s.apiRateLimit, 1, 1_000_000},
		{"least-free-mib", s.leastFreeMiB, 1, 1 << 30},
	} {
		if n.value < n.low || n.value > n.high {
			faults = append(faults, fmt.Errorf("--%s %q: must be from %d to %d",
				n.flag, strconv.Itoa(n.value), n.low, n.high))
		}
	}
	return faults
}

func parseLevel(text string) (slog.Level, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(text)); err != nil {
		return level, errors.New("must be debug, info, warn or error")
	}
	return level, nil
}

// parseSchedule parses waits such as "30s,2m".
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

// LogLevel is the level of the log.
func (s *Flags) LogLevel() slog.Level {
	level, _ := parseLevel(s.logLevel) // checked
	return level
}

// ShortensTopics reports whether what nobody needs is deleted of topics.
func (s *Flags) ShortensTopics() bool { return s.retention.bounds() }

// LeastFreeBytes is the free space that the data folder's disk must have.
func (s *Flags) LeastFreeBytes() uint64 { return uint64(s.leastFreeMiB) << 20 }

// PermitPort permits a port in endpoint URLs besides those of the flags.
func (s *Flags) PermitPort(port string) (err error) {
	if s.Ports, err = egress.ParsePorts(s.egressPorts + "," + port); err != nil {
		return fmt.Errorf("--egress-ports: %w", err)
	}
	return nil
}

// Sockets are those of the API at an address.
func (s *Flags) Sockets(listen string) node.ServerConfig { return s.sockets.config(listen) }

// HasTLS reports whether the API is served by TLS.
func (s *Flags) HasTLS() bool { return s.sockets.tlsCert != "" }

// HasMailServer reports whether a mail server is named.
func (s *Flags) HasMailServer() bool { return s.mail.addr != "" }

// MailServer is the address of the mail server; empty: none is named.
func (s *Flags) MailServer() string { return s.mail.addr }

// TryMail makes what tries the mail server; nil where none is named.
func (s *Flags) TryMail() (*mailer.SMTP, error) {
	if !s.HasMailServer() {
		return nil, nil
	}
	return s.mail.sender()
}

// Connections is how many connections to receivers the attempts of some partitions may have open.
func (s *Flags) Connections(partitions int) uint64 {
	return uint64(max(1, partitions)) * uint64(s.attemptsInFlight) // #nosec G115 -- positive
}

// MailSender returns the sender that uses the mail server.
func (s *Flags) MailSender() (mailer.Sender, error) { return s.mail.sender() }

// StartTracing starts tracing, which the stack closes; nil without a collector.
func (s *Flags) StartTracing(
	ctx context.Context, stack *startstop.Stack, instance string,
) (*telemetry.Tracing, error) {
	return s.tracing.start(ctx, stack, instance)
}

// Config returns the node.Config of the flags. A database that they name is external, and
// may be unavailable at the start.
func (s *Flags) Config() node.Config {
	return node.Config{
		Policy: domain.Policy{
			Schedule:         s.schedule,
			DisableAfter:     s.disableAfter,
			HonourRetryAfter: s.honourRetryAfter,
		},
		AttemptTimeout: s.attemptTimeout,
		Egress:         s.egressConfig(),
		API: node.APIConfig{
			Server:    s.Sockets(s.APIListen),
			RateLimit: api.RateLimit{PerSecond: s.apiRateLimit},
		},
		Engine: node.EngineConfig{
			AttemptsInFlight:    s.attemptsInFlight,
			AttemptsPerEndpoint: s.attemptsPerEndpoint,
			Keep:                s.retention.keep,
			KeepRecords:         s.retention.records,
			KeepBytes:           s.retention.mib << 20,
		},
		History: s.history.config(s.ClickHouse.Address),
		Metrics: node.NewMetrics(),
		Now:     time.Now,
	}
}
