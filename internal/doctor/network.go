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
	// mostLedgerAge is how old the newest ledger may be: one closes about every six seconds.
	mostLedgerAge = time.Minute
	// mostApart is how many ledgers several sources may be apart.
	mostApart = 20
)

func (cfg *Config) ledgers(ctx context.Context, f *findings) {
	if cfg.NoLedgers != nil {
		f.unknown(cfg.NoLedgers, "correct the settings of the source")
		return
	}
	if len(cfg.Ledgers) == 0 {
		f.ok("no role that is checked reads ledgers")
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
			if a.latest > 0 && last.Sequence > 0 {
				cfg.sameChain(ctx, server, last, &a.findings)
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

// lastRead returns the ledger that was followed last; zero: none was, or it is not known.
func (cfg *Config) lastRead(ctx context.Context, f *findings) schemas.LedgerRead {
	if len(cfg.Cluster.Brokers) == 0 {
		return schemas.LedgerRead{} // the check of kafka says so
	}
	cursor, err := follower.OpenCursor(cfg.Cluster, cfg.Passphrase)
	if err == nil {
		defer cursor.Close()
		var last schemas.LedgerRead
		if last, _, err = cursor.Newest(ctx); err == nil {
			return last
		}
	}
	f.unknown(fmt.Errorf("which ledger was read last is not known, and so whether the sources serve "+
		"the chain that was followed: %w", err), "see what the check of kafka says")
	return schemas.LedgerRead{}
}

// sameChain says whether a server serves another chain than the one that was followed.
func (cfg *Config) sameChain(
	ctx context.Context, server config.Server, last schemas.LedgerRead, f *findings,
) {
	reader, err := source.NewReader(server.Source, cfg.Passphrase)
	if err == nil {
		err = follower.CheckChain(ctx, reader, last)
	}
	switch {
	case errors.Is(err, follower.ErrOtherChain):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "if the test network was reset, start its new "+
			"chain: lumenhook ledger reset; else name a server of the network that was followed")
	case err != nil && source.IsPermanent(err):
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "name a server that has the ledgers that are "+
			"followed")
	case err != nil:
		f.unknown(fmt.Errorf("%s: which chain it serves is not known: %w", server.Name, err),
			"see whether it answers at other times")
	}
}

// agree says whether enough servers answer, and see the same network.
func (cfg *Config) agree(latest []uint32, f *findings) {
	if len(latest) < cfg.Quorum {
		f.add(Problem, "name more servers, or let fewer agree (--ledger-quorum)",
			"%d of the servers must agree, and %d answer: no ledger is followed", cfg.Quorum, len(latest))
		return
	}
	if len(latest) < 2 {
		return
	}
	low, high := latest[0], latest[0]
	for _, n := range latest {
		low, high = min(low, n), max(high, n)
	}
	if high-low > mostApart {
		f.add(Warning, "leave out the one that is behind, or wait for it",
			"the newest ledgers of the servers are %d apart", high-low)
		return
	}
	f.ok("%d servers answer, and their newest ledgers are %d apart", len(latest), high-low)
}

// ledgerServer queries the network and the ledgers of one server.
func (cfg *Config) ledgerServer(
	ctx context.Context, server config.Server, f *findings,
) (latest uint32) {
	begin := time.Now()
	err := server.Source.Check(ctx)
	switch {
	case errors.Is(err, domain.ErrWrongNetwork):
		f.failed(err, "name a server of that network, or the other --network")
		return 0
	case err != nil:
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "see whether its address is right and it "+
			"can be reached from here, or name another server")
		return 0
	}
	took := time.Since(begin)
	report, err := server.Source.Report(ctx)
	if err != nil {
		f.failed(fmt.Errorf("%s: %w", server.Name, err), "name another server, or wait for this one")
		return 0
	}
	cfg.ledgerReport(server.Name, report, took, f)
	return report.Latest
}

func (cfg *Config) ledgerReport(
	name string, report source.Report, took time.Duration, f *findings,
) {
	said := fmt.Sprintf("%s serves the network, in %d ms; its newest ledger is %d", name,
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
		f.add(Warning, "see whether the network stands still, the server lags, or this host's clock is "+
			"ahead", "%s", said)
		return
	}
	f.ok("%s", said)
}

const (
	// nobody is a name that every name server knows not to exist (RFC 6761): the answer that it
	// does not exist is an answer.
	nobody = "lumenhook-doctor.invalid"
	// slowDNS is the duration above which a lookup noticeably delays each first attempt.
	slowDNS = time.Second
	// certificateSoon is how long before its end a certificate is warned of.
	certificateSoon = 14 * 24 * time.Hour
)

// metadata is the address at which clouds hand out credentials of their machines.
var metadata = netip.MustParseAddr("169.254.169.254")

// dns asks the name servers that receivers' names are asked of.
func (cfg *Config) dns(ctx context.Context, f *findings) {
	client, err := egress.New(cfg.Egress)
	if err != nil {
		f.failed(err, "correct the settings of the egress")
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
		if cfg.Embedded { // its receivers are on this machine
			status = Warning
		}
		f.add(status, "correct --dns-server or /etc/resolv.conf, and let UDP and TCP through to port 53",
			"%s did not answer for %s within %s: %v", servers, host, took, err)
		return
	}
	said := fmt.Sprintf("%s answered in %d ms", servers, took.Milliseconds())
	if len(addrs) > 0 {
		said += fmt.Sprintf(": %s has %d addresses, such as %s", host, len(addrs), addrs[0])
	}
	if took > slowDNS {
		f.add(Warning, "name one that is nearer, with --dns-server",
			"%s: each first attempt waits for it", said)
		return
	}
	f.ok("%s", said)
}

// egress says what receivers may be, and goes the way to one.
func (cfg *Config) egress(ctx context.Context, f *findings) {
	policy := cfg.Egress.Policy
	said := "receivers on ports " + policy.OpenPorts().String() + " of public addresses may be reached"
	if len(policy.Allow) > 0 {
		said += ", and those in " + prefixes(policy.Allow)
	}
	if len(policy.Deny) > 0 {
		said += ", but not those in " + prefixes(policy.Deny)
	}
	if cfg.Egress.Proxy != nil {
		said += ", through the proxy " + cfg.Egress.Proxy.Host
	}
	f.ok("%s", said)
	if policy.Allows(metadata) {
		f.add(Problem, "narrow --egress-allow, or add --egress-deny "+metadata.String()+"/32",
			"--egress-allow has %s, where clouds hand out credentials: anyone who may create endpoints can "+
				"reach it", metadata)
	}
	if cfg.TryURL == "" {
		f.ok("no receiver was tried: --url https://… tries one, without a request")
		return
	}
	client, err := egress.New(cfg.Egress)
	if err != nil {
		f.failed(err, "correct the settings of the egress")
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

// remedies are what to do against each error of an attempt.
var remedies = map[egress.Code]string{
	egress.Timeout: "see whether a firewall drops what goes out to it, or it is overloaded",
	egress.DNS:     "correct the name, or give its domain an address",
	egress.ConnRefused: "start what listens there, and let it be reached from here (through a " +
		"proxy: --egress-proxy)",
	egress.TLS: "renew the certificate, with the whole chain and the name in it, of an authority " +
		"that this host knows or --egress-ca names",
	egress.SSRFBlocked: "use an address that may be reached, or allow this one with --egress-allow " +
		"or --egress-ports if it is yours",
}

// tried says how far an attempt would come.
func (cfg *Config) tried(t egress.Trial, f *findings) {
	if t.Error != "" {
		f.add(Problem, remedies[t.Error], "an attempt to the --url would end with %s: %s", t.Error,
			t.Detail)
		return
	}
	protocol := t.Protocol
	if protocol == "" {
		protocol = "http/1.1"
	}
	left := t.NotAfter.Sub(cfg.Now())
	said := fmt.Sprintf("the --url is reached: %s, %s with %s in %d ms; certificate of %s until %s",
		t.Addrs[0], protocol, t.TLSVersion, t.Secured.Milliseconds(), t.Issuer,
		t.NotAfter.UTC().Format(time.DateOnly))
	if left < certificateSoon {
		f.add(Warning, "renew it: attempts end with TLS then", "%s, which is in %d days", said,
			int(left.Hours()/24))
		return
	}
	f.ok("%s", said)
}

// mail goes the way of a mail to its server up to the login. No mail is sent.
func (cfg *Config) mail(ctx context.Context, f *findings) {
	if cfg.Mail == nil {
		f.ok("no mail server is named: mails are not sent by SMTP")
		return
	}
	if err := cfg.Mail.Try(ctx); err != nil {
		f.failed(err, "correct --smtp-addr, --smtp-tls, the user and the password, or start the server")
		return
	}
	f.ok("%s answers, and takes the login; no mail was sent", cfg.MailServer)
}

const (
	// mostSkew is far more than with NTP; receivers refuse signatures that are five minutes off.
	mostSkew = time.Minute
	// someSkew shows that a clock is not kept. A Date of HTTP is of whole seconds.
	someSkew = 3 * time.Second
)

// clock holds this host's clock against each that can be asked.
func (cfg *Config) clock(ctx context.Context, f *findings) {
	told := 0
	for _, ask := range []func(context.Context, *findings) int{
		cfg.kafkaClock, cfg.clickhouseClock, cfg.ledgerClocks,
	} {
		told += ask(ctx, f)
	}
	if told == 0 {
		f.add(Warning, "see that the clock is kept by NTP (`timedatectl`)",
			"no server reports its time, so the clock of this host could not be checked")
	}
}

func (cfg *Config) kafkaClock(ctx context.Context, f *findings) int {
	if len(cfg.Cluster.Brokers) == 0 || cfg.Cluster.Listening(ctx) != nil {
		return 0 // the check of Kafka says so
	}
	before := cfg.Now()
	at, known, err := cfg.Cluster.Clock(ctx)
	if err != nil {
		f.add(Warning, "grant the user what `lumenhook topics acls` prints",
			"Kafka does not tell its time: %s", f.explain(err))
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
		_, _ = server.Source.Report(ctx) // its problems are another check's
		if its, at := server.Clock(); !its.IsZero() {
			// It was any time of that second.
			told += skew(server.Name, before, its.Add(time.Second/2), at, f)
		}
	}
	return told
}

// skew compares a time with this host's before and after the question.
func skew(whose string, before, its, after time.Time, f *findings) int {
	off, which := its.Sub(after), "behind"
	if early := before.Sub(its); early > off {
		off, which = early, "ahead of"
	}
	said := fmt.Sprintf("the clock of this host is %s %s that of %s",
		max(0, off).Round(100*time.Millisecond), which, whose)
	switch {
	case off > mostSkew:
		f.add(Problem, "set both by NTP: brokers refuse records of the future, and receivers signatures "+
			"that are five minutes off", "%s", said)
	case off > someSkew:
		f.add(Warning, "set both by NTP", "%s", said)
	default:
		f.ok("the clock of this host agrees with that of %s", whose)
	}
	return 1
}
