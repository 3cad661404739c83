package nodeflags

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/egress"
)

// egressFlags are how receivers are reached, besides ports and authorities.
type egressFlags struct {
	allow, deny       []string
	dnsServer         string
	proxy             string
	allowed, denied   []netip.Prefix
	proxyURL          *url.URL
	dnsServerWithPort string
}

func (s *egressFlags) register(f *pflag.FlagSet) {
	f.StringSliceVar(&s.allow, "egress-allow", nil, "private address ranges that receivers may "+
		"have (10.1.0.0/16); loopback and link-local only if a range lies within them")
	f.StringSliceVar(&s.deny, "egress-deny", nil,
		"further address ranges that receivers must not have")
	f.StringVar(&s.dnsServer, "dns-server", "", "name server to ask for receivers "+
		"(192.0.2.53:53) (default those of /etc/resolv.conf)")
	f.StringVar(&s.proxy, "egress-proxy", "", "HTTP proxy for every attempt (http://host:port): "+
		"it connects, so it must refuse private addresses itself")
}

// check parses the values and returns every fault.
func (s *egressFlags) check() (faults []error) {
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	s.allowed, err = egress.ParsePrefixes(s.allow)
	fault("egress-allow", err)
	s.denied, err = egress.ParsePrefixes(s.deny)
	fault("egress-deny", err)
	s.dnsServerWithPort, err = parseNameServer(s.dnsServer)
	fault("dns-server", err)
	if s.proxy != "" { // it may hold a password: no error repeats it
		s.proxyURL, err = egress.ParseProxy(s.proxy)
		fault("egress-proxy", err)
	}
	return faults
}

// parseNameServer parses an address with or without a port.
func parseNameServer(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if addr, err := netip.ParseAddr(text); err == nil {
		return net.JoinHostPort(addr.String(), "53"), nil
	}
	if _, err := netip.ParseAddrPort(text); err != nil {
		return "", errors.New("must be an address, with a port if it is not 53, " +
			"such as 192.0.2.53 or [2001:db8::53]:5353")
	}
	return text, nil
}

// idleConnections is how many connections are kept for later attempts, to one host or to all:
// as many as attempts of the usual number of partitions may be under way at once. With fewer,
// endpoints of one host that are busy together close what they need again at once, and each
// TLS handshake costs more than twenty attempts.
func (s *Flags) idleConnections() int {
	const usualPartitions = 4
	return int(s.Connections(usualPartitions)) // #nosec G115 -- at most 40,000
}

// systemRoots are the authorities of the system.
func systemRoots() *x509.CertPool {
	roots, err := x509.SystemCertPool()
	if err != nil {
		return x509.NewCertPool()
	}
	return roots
}

// egressConfig returns that of the guarded client. Nothing on this machine or in private
// networks may be reached, unless flags allow it.
func (s *Flags) egressConfig() egress.Config {
	roots := systemRoots()
	roots.AppendCertsFromPEM(s.egressPEM)
	return egress.Config{
		Policy:         egress.Policy{Ports: s.Ports, Allow: s.egress.allowed, Deny: s.egress.denied},
		DNSServer:      s.egress.dnsServerWithPort,
		Proxy:          s.egress.proxyURL,
		RootCAs:        roots,
		AttemptTimeout: s.attemptTimeout,
		MaxIdlePerHost: s.idleConnections(),
		MaxIdle:        s.idleConnections(),
	}
}
