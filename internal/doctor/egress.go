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

	"github.com/lumenhook/lumenhook/internal/egress"
)

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
			"--egress-allow has %s, where clouds hand out credentials: whoever may make endpoints can "+
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
