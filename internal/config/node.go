package config

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	netmail "net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

const defaultSchedule = "30s,2m,10m,30m,1h,3h,6h,12h,24h"

// Node holds the flags of the roles, which `lumenhook run` and `lumenhook serve` share. Check sets
// the fields that are parsed from text.
type Node struct {
	Set           node.Config // the part that the flags set
	MetricsListen string      // empty: disabled
	ClickHouse    ClickHouse
	Mail          Mail
	LogLevel      slog.Level

	flags        Flags
	egressPorts  string
	traces       node.TracingConfig
	retentionMiB int64
}

// Register adds the flags. logLevel is the default for --log-level.
func (s *Node) Register(f *pflag.FlagSet, logLevel string) {
	s.registerAPI(f)
	s.ClickHouse.Register(f, "ClickHouse server for the history, such as "+
		"clickhouse://host:9000/lumenhook?secure=true for TLS; if not set, \"lumenhook run\" starts "+
		"an embedded server")
	s.registerDelivery(f)
	s.registerEgress(f)
	s.registerHistory(f)
	s.Mail.register(f)
	s.flags.Group(f, "Metrics and traces", "",
		Value("metrics-listen", &s.MetricsListen, "127.0.0.1:9464", "address to serve /metrics "+
			"(Prometheus), /healthz and /readyz on; leave empty to disable", Optional(cli.CheckAddress)),
		Value("traces-endpoint", &s.traces.Endpoint, "", "URL of a collector to send traces to (OTLP "+
			"over HTTP), such as http://127.0.0.1:4318/v1/traces; leave empty to disable tracing",
			Optional(checkCollector)),
		Value("traces-ratio", &s.traces.SampleRatio, 1, "fraction of events to trace, above 0 and at "+
			"most 1; every process traces the same events", checkRatio))
	s.flags.Group(f, "", "",
		Value("log-level", new(string), logLevel,
			"minimum level of log messages: debug, info, warn or error",
			Into(&s.LogLevel, parseLevel)).Of("debug", "info", "warn", "error"))
}

// ChoosesLogLevel reports whether the level is not the default.
func (s *Node) ChoosesLogLevel() bool { return s.flags.Changed("log-level") }

func (s *Node) registerAPI(f *pflag.FlagSet) {
	at := &s.Set.API.Server
	s.flags.Group(f, "API", "api",
		Value("api-listen", &at.Listen, "127.0.0.1:8080",
			"address for the API to listen on; use port 0 to pick a free port",
			cli.CheckAddress),
		Bounded("api-rate-limit", &s.Set.API.RateLimit.PerSecond, 10_000, "maximum requests per "+
			"second for all of an account's API keys combined; portal links have a separate limit of "+
			"the same size, and bursts can be twice as large", 1, 1_000_000),
		Value("api-tls-cert", &at.CertFile, "", "PEM file with the API's certificate chain, which "+
			"turns on TLS; you can renew the certificate without a restart"),
		Value("api-tls-key", &at.KeyFile, "", "PEM file with the private key for --api-tls-cert"),
		Bounded("api-max-connections-per-client", &at.MaxConnsPerClient, 1_000,
			"maximum open connections to the API from one address, except for trusted proxies",
			1, 1_000_000),
		Value("allowed-hosts", &at.Hosts, nil, "host names that requests can use for this server, "+
			"such as a proxy's; localhost and IP addresses are always allowed (default any name if the "+
			"server is reachable from other machines, otherwise none)",
			func(names []string) error { return ingress.CheckNames(names, nil) }),
		Value("allowed-origins", &at.Origins, nil, "origins of other web pages that can call the "+
			"HTTP ports, such as http://localhost:3000", checkOrigins),
		Value("console-idle", &at.ConsoleIdle, 15*time.Minute, "how long console and portal sessions "+
			"can be idle before they expire, from 1m to 8h", Between(time.Minute, 8*time.Hour)),
		Value("portal-frame-ancestors", &at.FrameAncestors, nil, "origins of web pages that can "+
			"embed the portal in a frame, such as https://shop.example (default none)", checkOrigins),
		Value("api-trusted-proxies", new([]string), nil, "address ranges of proxies in front of the "+
			"API, such as 10.1.0.0/16; the API trusts their X-Forwarded-For header for the client's "+
			"address",
			Into(&at.TrustedProxies, egress.ParsePrefixes)))
}

func (s *Node) registerDelivery(f *pflag.FlagSet) {
	s.flags.Group(f, "Delivery", "engine",
		Value("retry-schedule", new(string), defaultSchedule, "comma-separated waits between "+
			"attempts, at most 100, each 1ms to 720h; there is one more attempt than waits",
			Into(&s.Set.Policy.Schedule, parseSchedule)),
		Value("honour-retry-after", &s.Set.Policy.HonourRetryAfter, false, "wait longer if a "+
			"receiver sends Retry-After, but no longer than the next wait in the schedule"),
		Bounded("disable-after", &s.Set.Policy.DisableAfter, domain.DefaultDisableAfter,
			"number of consecutive failed events that disable an endpoint; 0: never",
			0, 1_000_000),
		Bounded("attempt-timeout", &s.Set.AttemptTimeout, 10*time.Second,
			"maximum time for a receiver to send a complete response", 10*time.Millisecond, time.Hour),
		Bounded("attempts-in-flight", &s.Set.Engine.AttemptsInFlight, 512,
			"maximum attempts in flight per partition", 1, 10_000),
		Bounded("attempts-per-endpoint", &s.Set.Engine.AttemptsPerEndpoint, 128,
			"maximum attempts in flight per endpoint", 1, 10_000))
}

func (s *Node) registerEgress(f *pflag.FlagSet) {
	to := &s.Set.Egress
	s.flags.Group(f, "Egress", "api, engine",
		Value("egress-ports", &s.egressPorts, "443,8443", "ports to allow in endpoint URLs (1 to "+
			"65535); can include ranges, such as 443,9000-9100", Into(&to.Policy.Ports, egress.ParsePorts)),
		Value("egress-ca", new(string), "", "PEM file with additional certificate authorities to trust",
			Into(&to.RootCAs, readRoots)),
		Value("egress-allow", new([]string), nil, "private address ranges to allow for receivers, "+
			"such as 10.1.0.0/16; loopback and link-local addresses need a range of their own",
			Into(&to.Policy.Allow, egress.ParsePrefixes)),
		Value("egress-deny", new([]string), nil,
			"additional address ranges to block for receivers",
			Into(&to.Policy.Deny, egress.ParsePrefixes)),
		Value("dns-server", new(string), "", "name server for resolving receivers, such as "+
			"192.0.2.53:53 (default the servers in "+
			"/etc/resolv.conf)", Optional(Into(&to.DNSServer, parseNameServer))),
		Value("egress-proxy", new(string), "", "HTTP proxy for all attempts (http://host:port); the "+
			"proxy connects to receivers, so it must block private addresses itself",
			Optional(Into(&to.Proxy, egress.ParseProxy))).Hidden())
}

func (s *Node) registerHistory(f *pflag.FlagSet) {
	to, topics := &s.Set.History, &s.Set.Engine
	s.flags.Group(f, "History", "api, projector",
		Value("history-retention", new(string), "", "how long to keep rows in the history, such as "+
			"90d; at least 7d; 0: forever (default: the last value that you set)",
			Optional(Into(&to.Keep, parseHistoryRetention))))
	s.flags.Group(f, "Topics", "engine",
		Value("topic-retention", new(string), "0", "how long to keep records in topics after they "+
			"are in the history and no longer needed for a restore, such as 90d; 0: forever",
			Into(&topics.Keep, cli.ParseDays)),
		Bounded("topic-retention-mib", &s.retentionMiB, 0, "maximum MiB of such records to keep per "+
			"partition, plus up to one file; 0: no limit", 0, 1_000_000_000))
}

// Check parses the values and returns all faults.
func (s *Node) Check() []error {
	faults := append(s.flags.Faults(), s.ClickHouse.Check()...)
	if at := s.Set.API.Server; (at.CertFile == "") != (at.KeyFile == "") {
		faults = append(faults,
			errors.New("--api-tls-cert and --api-tls-key must be set together"))
	}
	return append(faults, s.Mail.flags.Faults()...)
}

func parseLevel(text string) (level slog.Level, err error) {
	if level.UnmarshalText([]byte(text)) != nil {
		err = errors.New("must be debug, info, warn or error")
	}
	return level, err
}

// parseSchedule parses a list of waits such as "30s,2m".
func parseSchedule(text string) (domain.Schedule, error) {
	var s domain.Schedule
	for part := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(part))
		if err != nil {
			return s, fmt.Errorf("%q: must be a duration such as 30s, 2m or 1h", part)
		}
		if d < time.Millisecond || d > 30*24*time.Hour {
			return s, fmt.Errorf("%q: a wait must be from 1ms to 720h", part)
		}
		s.WaitsMillis = append(s.WaitsMillis, d.Milliseconds())
	}
	if len(s.WaitsMillis) > 100 {
		return s, errors.New("must have at most 100 waits")
	}
	return s, nil
}

func parseHistoryRetention(text string) (*time.Duration, error) {
	keep, err := cli.ParseDays(text)
	if err == nil {
		err = writer.CheckRetention(keep)
	}
	return &keep, err
}

func parseNameServer(text string) (string, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return net.JoinHostPort(addr.String(), "53"), nil
	}
	if _, err := netip.ParseAddrPort(text); err != nil {
		return "", errors.New("must be an address, with a port if it is not 53, " +
			"such as 192.0.2.53 or [2001:db8::53]:5353")
	}
	return text, nil
}

func readRoots(file string) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	pem, err := keys.ReadAuthorities(file)
	roots.AppendCertsFromPEM(pem)
	return roots, err
}

func checkOrigins(origins []string) error { return ingress.CheckNames(nil, origins) }

func checkCollector(text string) error {
	if !isHTTP(text) {
		return errors.New("must be a URL such as http://127.0.0.1:4318/v1/traces")
	}
	return nil
}

func checkRatio(ratio float64) error {
	if !(ratio > 0 && ratio <= 1) { // also false for NaN
		return errors.New("must be above 0 and at most 1")
	}
	return nil
}

// ShortensTopics reports whether records are deleted from topics when nothing needs them.
func (s *Node) ShortensTopics() bool {
	e := s.Set.Engine
	return e.Keep > 0 || s.retentionMiB > 0
}

// PermitPort allows another port in endpoint URLs.
func (s *Node) PermitPort(port string) (err error) {
	s.Set.Egress.Policy.Ports, err = egress.ParsePorts(s.egressPorts + "," + port)
	if err != nil {
		return fmt.Errorf("--egress-ports: %w", err)
	}
	return nil
}

// Connections returns how many connections to receivers the attempts of this many partitions can
// open.
func (s *Node) Connections(partitions int) uint64 {
	n := max(1, partitions) * s.Set.Engine.AttemptsInFlight
	return uint64(n) // #nosec G115 -- positive
}

// idleConnections returns how many idle connections to keep, in total and per host: one for every
// attempt that a usual number of partitions can have in flight. With a lower limit, busy endpoints
// on one host close connections that they need again immediately. A TLS handshake costs as much as
// more than twenty attempts.
func (s *Node) idleConnections() int {
	const usualPartitions = 4
	return int(s.Connections(usualPartitions)) // #nosec G115 -- at most 40,000
}

// StartTracing starts tracing, and stops it together with the stack. Without a collector it returns
// nil.
func (s *Node) StartTracing(
	ctx context.Context, stack *node.Stack, instance string,
) (*node.Tracing, error) {
	if s.traces.Endpoint == "" {
		return nil, nil
	}
	cfg := s.traces
	cfg.Version, cfg.Instance, cfg.Logger = cli.ThisBuild().Version, instance, stack.Logger
	t, err := node.NewTracing(ctx, cfg)
	if err != nil {
		return nil, err
	}
	stack.OnStop(func() {
		if err := t.Close(); err != nil {
			stack.Logger.Warn("stopping tracing", "error", err)
		}
	})
	return t, nil
}

// Config returns the node.Config for the flags. A database named by the flags is external and may
// be unavailable at the start. If none is named, the caller sets it later. Unless flags allow it,
// receivers on this machine and in private networks are blocked.
func (s *Node) Config() node.Config {
	c := s.Set
	c.Egress.AttemptTimeout = c.AttemptTimeout
	c.Egress.MaxIdlePerHost, c.Egress.MaxIdle = s.idleConnections(), s.idleConnections()
	c.Engine.KeepBytes = s.retentionMiB << 20
	c.History.DSN = s.ClickHouse.Address
	c.Metrics, c.Now = node.NewMetrics(), time.Now
	build := cli.ThisBuild()
	c.Metrics.Build(build.Version, build.Commit)
	return c
}

// Mail holds the flags of the mail server for emails to account holders. Addr is empty if there is
// none.
type Mail struct {
	mailer.SMTPConfig
	flags        Flags
	passwordFile string
	tls          string
}

func (m *Mail) register(f *pflag.FlagSet) {
	m.flags.Group(f, "Mail", "mailer",
		Value("smtp-addr", &m.Addr, "", "mail server, as host:port; without a mail server, emails go "+
			"to the terminal and to mail/ in the data folder", Optional(checkMailServer)),
		Value("smtp-from", &m.From, "",
			"sender address for emails: webhooks@example.com, or Name "+
				"<webhooks@example.com>", m.checkFrom),
		Value("smtp-user", &m.User, "", "user name for the mail server", m.checkUnused),
		Value("smtp-password-file", &m.passwordFile, "",
			"file that contains the password for --smtp-user",
			m.checkPassword),
		Value("smtp-tls", &m.tls, string(mailer.TLSStartTLS), "TLS mode: starttls, opportunistic "+
			"(STARTTLS if available), implicit (TLS from the start) or none", m.checkTLS).
			Of("starttls", "opportunistic", "implicit", "none"))
}

func checkMailServer(addr string) error {
	if _, port, _ := net.SplitHostPort(addr); cli.CheckAddress(addr) != nil || port == "0" {
		return errors.New("must be host:port, such as smtp.example.com:587")
	}
	return nil
}

func (m *Mail) checkUnused(value string) error {
	if m.Addr == "" && value != "" {
		return errors.New("needs --smtp-addr")
	}
	return nil
}

func (m *Mail) checkFrom(from string) error {
	if m.Addr == "" {
		return m.checkUnused(from)
	}
	if _, err := netmail.ParseAddress(from); err != nil {
		return errors.New("must be an address such as webhooks@example.com")
	}
	return nil
}

var tlsModes = []mailer.TLSMode{
	mailer.TLSStartTLS, mailer.TLSOpportunistic, mailer.TLSImplicit, mailer.TLSNone,
}

func (m *Mail) checkTLS(mode string) error {
	m.TLS = mailer.TLSMode(mode)
	host, _, _ := net.SplitHostPort(m.Addr)
	switch {
	case m.Addr == "" && m.flags.Changed("smtp-tls"):
		return errors.New("needs --smtp-addr")
	case m.TLS == mailer.TLSNone && m.User != "" && !isLoopback(host):
		return errors.New("would send the password of --smtp-user in the clear; use starttls or implicit")
	case !slices.Contains(tlsModes, m.TLS):
		return errors.New("must be starttls, opportunistic, implicit or none")
	}
	return nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (m *Mail) checkPassword(file string) (err error) {
	switch {
	case m.Addr == "":
		return m.checkUnused(file)
	case m.User == "" && file == "":
		return nil
	case m.User == "":
		return errors.New("needs --smtp-user")
	case file == "":
		return errors.New("must be set for --smtp-user")
	}
	m.Password, err = readPassword(file)
	return err
}

// Sender returns a sender for the mail server, or nil if there is none.
func (m *Mail) Sender() (*mailer.SMTP, error) {
	if m.Addr == "" {
		return nil, nil
	}
	return mailer.NewSMTP(m.SMTPConfig)
}
