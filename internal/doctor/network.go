package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/stellar/source"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/follower"
)

const (
	// mostLedgerAge is the maximum age of the latest ledger. A ledger closes about every six
	// seconds.
	mostLedgerAge = time.Minute
	// ledgerSpreadMax is the maximum difference between the latest ledgers of several sources.
	ledgerSpreadMax = 20
)

func (cfg *Config) ledgers(ctx context.Context, f *findings) {
	if cfg.NoLedgers != nil {
		f.unknown(cfg.NoLedgers, "correct the ledger source's settings")
		return
	}
	if len(cfg.Ledgers) == 0 {
		f.ok("none of the checked roles reads ledgers")
		return
	}
	last := cfg.lastRead(ctx, f)
	type answer struct {
		findings
		latest uint32
	}
	answers := make(chan answer, len(cfg.Ledgers))
	for _, server := range cfg.Ledgers {
		go func() {
			a := answer{findings: findings{explain: f.explain}}
			a.latest = cfg.ledgerServer(ctx, server, &a.findings)
			if a.latest > 0 && last.Sequence > 0 && !cfg.sameChain(ctx, server, last, &a.findings) {
				a.latest = 0 // it can't agree with the others
			}
			answers <- a
		}()
	}
	var latest []uint32
	for range cfg.Ledgers {
		a := <-answers
		f.list = append(f.list, a.list...)
		if a.latest > 0 {
			latest = append(latest, a.latest)
		}
	}
	cfg.agree(latest, f)
}

// lastRead returns the last ledger that the follower read, or zero if there is none or it is
// unknown.
func (cfg *Config) lastRead(ctx context.Context, f *findings) schemas.LedgerRead {
	if len(cfg.Cluster.Brokers) == 0 {
		return schemas.LedgerRead{} // the check of Kafka reports it
	}
	cursor, err := follower.OpenCursor(cfg.Cluster, cfg.Passphrase)
	if err == nil {
		defer cursor.Close()
		var last schemas.LedgerRead
		if last, _, err = cursor.Newest(ctx); err == nil {
			return last
		}
	}
	f.unknown(fmt.Errorf("cannot read which ledger was read last, so it is unknown whether the "+
		"sources serve the same chain: %w", err), "see the result of the kafka check")
	return schemas.LedgerRead{}
}

// sameChain reports whether a server may serve the chain that the follower has read.
func (cfg *Config) sameChain(
	ctx context.Context, server config.Server, last schemas.LedgerRead, f *findings,
) bool {
	reader, err := source.NewReader(server.Source, cfg.Passphrase)
	if err == nil {
		err = follower.CheckChain(ctx, reader, last)
	}
	switch {
	case errors.Is(err, follower.ErrOtherChain):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "if the test network was reset, start "+
			"following its new chain with `lumenhook ledger reset`; otherwise use a server for the "+
			"network followed so far")
	case err != nil && source.IsPermanent(err):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "use a server that still has the ledgers that "+
			"the follower needs")
	case err != nil:
		f.unknown(fmt.Errorf("%s: cannot determine which chain it serves: %w", server.Name, err),
			"try again later")
		return true
	}
	return err == nil
}

func (cfg *Config) agree(latest []uint32, f *findings) {
	if len(latest) < cfg.Quorum {
		f.add(Problem, "add servers, or lower --ledger-quorum",
			"%d of the servers must agree, but only %d can, so no ledger is followed", cfg.Quorum,
			len(latest))
		return
	}
	if len(latest) < 2 {
		return
	}
	low, high := latest[0], latest[0]
	for _, n := range latest {
		low, high = min(low, n), max(high, n)
	}
	if high-low > ledgerSpreadMax {
		f.add(Warning, "remove the server that is behind, or wait for it",
			"the servers' latest ledgers are %d apart", high-low)
		return
	}
	said := fmt.Sprintf("%d servers respond, and their latest ledgers are %d apart", len(latest),
		high-low)
	if cfg.Quorum > 1 {
		said += fmt.Sprintf("; %d must agree", cfg.Quorum)
	}
	f.ok("%s", said)
}

func (cfg *Config) ledgerServer(
	ctx context.Context, server config.Server, f *findings,
) (latest uint32) {
	begin := time.Now()
	err := server.Source.Check(ctx)
	switch {
	case errors.Is(err, domain.ErrWrongNetwork):
		f.failed(err, "use a server for that network, or change --network")
		return 0
	case err != nil:
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "check its address and whether it "+
			"is reachable from this host, or use another server")
		return 0
	}
	took := time.Since(begin)
	report, err := server.Source.Report(ctx)
	if err != nil {
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "use another server, or wait for this one")
		return 0
	}
	cfg.ledgerReport(server.Name, report, took, f)
	return report.Latest
}

func (cfg *Config) ledgerReport(
	name string, report source.Report, took time.Duration, f *findings,
) {
	said := fmt.Sprintf("%s serves the network (%d ms); its latest ledger is %d", name,
		took.Milliseconds(), report.Latest)
	if report.Oldest > 0 {
		said += fmt.Sprintf(", its oldest %d (%d back)", report.Oldest, report.Latest-report.Oldest)
	}
	if report.ClosedAt.IsZero() {
		f.ok("%s", said)
		return
	}
	age := cfg.Now().Sub(report.ClosedAt)
	said += fmt.Sprintf(", closed %s ago", age.Round(time.Second))
	if age > mostLedgerAge {
		f.add(Warning, "check whether the network has stopped, the server lags, or this host's clock is "+
			"ahead", "%s", said)
		return
	}
	f.ok("%s", said)
}

const (
	// nobody is a name that is guaranteed not to exist (RFC 6761). A negative response shows that
	// the name server works.
	nobody = "lumenhook-doctor.invalid"
	// slowDNS is the duration above which a lookup noticeably delays first attempts.
	slowDNS = time.Second
	// certificateSoon is how long before a certificate expires a warning is shown.
	certificateSoon = 14 * 24 * time.Hour
)

// metadata is the address where cloud providers serve their machines' credentials.
var metadata = netip.MustParseAddr("169.254.169.254")

func (cfg *Config) dns(ctx context.Context, f *findings) {
	client, err := egress.New(cfg.Egress)
	if err != nil {
		f.failed(err, "correct the egress settings")
		return
	}
	defer client.Close()
	host := nobody
	if u, err := url.Parse(cfg.TryURL); err == nil && u.Hostname() != "" {
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			host = u.Hostname()
		}
	}
	servers := "the name servers of this machine"
	if cfg.Egress.DNSServer != "" {
		servers = "the name server " + cfg.Egress.DNSServer
	}
	begin := time.Now()
	addrs, err := client.LookUp(ctx, host)
	took := time.Since(begin).Round(time.Millisecond)
	var failure *net.DNSError
	switch {
	case host == nobody && errors.As(err, &failure) && failure.IsNotFound:
	case err != nil:
		status := Problem
		if cfg.Embedded { // receivers are on this machine
			status = Warning
		}
		f.add(status, "correct --dns-server or /etc/resolv.conf, and allow UDP and TCP to port 53",
			"%s did not answer for %s within %s: %v", servers, host, took, err)
		return
	}
	said := fmt.Sprintf("%s responded in %d ms", servers, took.Milliseconds())
	if len(addrs) > 0 {
		said += fmt.Sprintf(": %s has %d addresses, such as %s", host, len(addrs), addrs[0])
	}
	if took > slowDNS {
		f.add(Warning, "use a closer server with --dns-server",
			"%s, which delays each first attempt", said)
		return
	}
	f.ok("%s", said)
}

// egress reports which receivers are allowed, and tests a connection to one.
func (cfg *Config) egress(ctx context.Context, f *findings) {
	policy := cfg.Egress.Policy
	said := "receivers are allowed on ports " + policy.OpenPorts().String() + " of public addresses"
	if len(policy.Allow) > 0 {
		said += ", and in " + prefixes(policy.Allow)
	}
	if len(policy.Deny) > 0 {
		said += ", but not in " + prefixes(policy.Deny)
	}
	if cfg.Egress.Proxy != nil {
		said += ", through the proxy " + cfg.Egress.Proxy.Host
	}
	f.ok("%s", said)
	if policy.Allows(metadata) {
		f.add(Problem, "narrow --egress-allow, or add --egress-deny "+metadata.String()+"/32",
			"--egress-allow contains %s, where clouds hand out credentials: anyone who can create "+
				"endpoints can reach it", metadata)
	}
	if cfg.TryURL == "" {
		f.ok("no receiver was tested; to test a connection without a request, set --url https://…")
		return
	}
	client, err := egress.New(cfg.Egress)
	if err != nil {
		f.failed(err, "correct the egress settings")
		return
	}
	defer client.Close()
	cfg.tried(client.Try(ctx, cfg.TryURL), f)
}

func prefixes(list []netip.Prefix) string {
	var texts []string
	for _, p := range list {
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

var remedies = map[egress.Code]string{
	egress.Timeout: "check whether a firewall drops the connection or the receiver is overloaded",
	egress.DNS:     "correct the host name, or add an address to its DNS records",
	egress.ConnRefused: "start the receiver, and allow connections from this host (through a " +
		"proxy: --egress-proxy)",
	egress.TLS: "renew the certificate with the complete chain and the host name, from an authority " +
		"that this host or --egress-ca trusts",
	egress.SSRFBlocked: "use a public address, or allow this one with --egress-allow " +
		"or --egress-ports if you own it",
}

func (cfg *Config) tried(t egress.Trial, f *findings) {
	if t.Error != "" {
		f.add(Problem, remedies[t.Error], "an attempt to the --url would end with %s: %s", t.Error,
			t.Detail)
		return
	}
	left := t.NotAfter.Sub(cfg.Now())
	said := fmt.Sprintf("the --url is reached: %s, with %s in %d ms; certificate of %s until %s",
		t.Addrs[0], t.TLSVersion, t.Secured.Milliseconds(), t.Issuer,
		t.NotAfter.UTC().Format(time.DateOnly))
	if left < certificateSoon {
		f.add(Warning, "renew it; after that, attempts fail with TLS", "%s, which is in %d days", said,
			int(left.Hours()/24))
		return
	}
	f.ok("%s", said)
}

// mail connects to the mail server and logs in, but sends no email.
func (cfg *Config) mail(ctx context.Context, f *findings) {
	if cfg.Mail == nil {
		f.ok("no mail server is set, so no emails are sent by SMTP")
		return
	}
	if err := cfg.Mail.Try(ctx); err != nil {
		f.failed(err, "correct --smtp-addr, --smtp-tls, the user and the password, or start the server")
		return
	}
	f.ok("%s responds and accepts the login; no email was sent", cfg.MailServer)
}

const (
	// mostSkew is far more than the error with NTP. Receivers reject signatures that are five
	// minutes off.
	mostSkew = time.Minute
	// someSkew means that the clock is not synchronized. The Date header has a resolution of a
	// second.
	someSkew = 3 * time.Second
)

func (cfg *Config) clock(ctx context.Context, f *findings) {
	told := 0
	for _, ask := range []func(context.Context, *findings) int{
		cfg.kafkaClock, cfg.clickhouseClock, cfg.ledgerClocks,
	} {
		told += ask(ctx, f)
	}
	if told == 0 {
		f.add(Warning, "check that NTP synchronizes the clock (`timedatectl`)",
			"no server reports its time, so this host's clock could not be checked")
	}
}

func (cfg *Config) kafkaClock(ctx context.Context, f *findings) int {
	if len(cfg.Cluster.Brokers) == 0 || cfg.Cluster.Listening(ctx) != nil {
		return 0 // the check of Kafka reports it
	}
	before := cfg.Now()
	at, known, err := cfg.Cluster.Clock(ctx)
	if err != nil {
		f.add(Warning, "grant the user the ACLs that `lumenhook topics acls` prints",
			"cannot read Kafka's time: %s", f.explain(err))
	}
	if err != nil || !known {
		return 0
	}
	return skew("Kafka's controller", before, at, cfg.Now(), f)
}

func (cfg *Config) clickhouseClock(ctx context.Context, f *findings) (told int) {
	if cfg.ClickHouse == "" {
		return 0
	}
	db, err := writer.Open(cfg.ClickHouse)
	if err != nil {
		return 0
	}
	defer db.Close()
	states, errs := db.Clocks(ctx, cfg.Now)
	for i, state := range states {
		if errs[i] == nil {
			told += skew("ClickHouse at "+state.Address, state.Asked[0], state.Clock, state.Asked[1], f)
		}
	}
	return told
}

func (cfg *Config) ledgerClocks(ctx context.Context, f *findings) (told int) {
	for _, server := range cfg.Clocks {
		before := cfg.Now()
		_, _ = server.Source.Report(ctx) // another check reports its problems
		if its, at := server.Clock(); !its.IsZero() {
			// The header is truncated to seconds, so assume the middle of the second.
			told += skew(server.Name, before, its.Add(time.Second/2), at, f)
		}
	}
	return told
}

// skew compares a server's time with this host's time before and after the request.
func skew(whose string, before, its, after time.Time, f *findings) int {
	off, which := its.Sub(after), "behind"
	if early := before.Sub(its); early > off {
		off, which = early, "ahead of"
	}
	said := fmt.Sprintf("this host's clock is %s %s that of %s",
		max(0, off).Round(100*time.Millisecond), which, whose)
	switch {
	case off > mostSkew:
		f.add(Problem, "synchronize both with NTP: brokers reject records from the future, and "+
			"receivers reject signatures that are five minutes off", "%s", said)
	case off > someSkew:
		f.add(Warning, "synchronize both with NTP", "%s", said)
	default:
		f.ok("this host's clock agrees with that of %s", whose)
	}
	return 1
}
