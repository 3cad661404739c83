package nodeflags

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/webguard"
)

// socketFlags are those of the API's sockets, besides its address.
type socketFlags struct {
	tlsCert, tlsKey             string
	maxConns, maxConnsPerClient int
	trustedProxies              []string
	hosts, origins              []string
	ancestors                   []string
	proxies                     []netip.Prefix // those, once checked
}

func (s *socketFlags) register(f *pflag.FlagSet) {
	f.StringVar(&s.tlsCert, "api-tls-cert", "", "certificate chain of the API in PEM, "+
		"which turns TLS on; a renewed file is used without a restart")
	f.StringVar(&s.tlsKey, "api-tls-key", "", "key of that certificate in PEM")
	f.IntVar(&s.maxConns, "api-max-connections", 10_000, "connections that the API keeps open")
	f.IntVar(&s.maxConnsPerClient, "api-max-connections-per-client", 1_000,
		"connections that the API keeps open to one address")
	f.StringSliceVar(&s.hosts, "allowed-hosts", nil, "host names, such as a proxy's, by which "+
		"requests may call this server; localhost and IP addresses always may (default any name where "+
		"it listens beyond this machine, none elsewhere)")
	f.StringSliceVar(&s.origins, "allowed-origins", nil, "origins of other web pages that may use "+
		"the HTTP ports, such as http://localhost:3000")
	f.StringSliceVar(&s.ancestors, "portal-frame-ancestors", nil, "origins of web pages that may "+
		"show the portal in a frame, such as https://shop.example (default none)")
	f.StringSliceVar(&s.trustedProxies, "api-trusted-proxies", nil, "address ranges of proxies "+
		"before the API (10.1.0.0/16): their X-Forwarded-For says where a key is used from")
}

// check returns every fault.
func (s *socketFlags) check() (faults []error) {
	if (s.tlsCert == "") != (s.tlsKey == "") {
		faults = append(faults,
			errors.New("--api-tls-cert and --api-tls-key go together: set both or none"))
	}
	for flag, n := range map[string]int{
		"api-max-connections":            s.maxConns,
		"api-max-connections-per-client": s.maxConnsPerClient,
	} {
		if n < 1 || n > 1_000_000 {
			faults = append(faults, fmt.Errorf("--%s %d: must be from 1 to 1000000", flag, n))
		}
	}
	if err := webguard.Check(s.hosts, nil); err != nil {
		faults = append(faults, fmt.Errorf("--allowed-hosts: %w", err))
	}
	if err := webguard.Check(nil, s.origins); err != nil {
		faults = append(faults, fmt.Errorf("--allowed-origins: %w", err))
	}
	if err := webguard.Check(nil, s.ancestors); err != nil {
		faults = append(faults, fmt.Errorf("--portal-frame-ancestors: %w", err))
	}
	var err error
	if s.proxies, err = egress.ParsePrefixes(s.trustedProxies); err != nil {
		faults = append(faults, fmt.Errorf("--api-trusted-proxies: %w", err))
	}
	return faults
}

// config is the sockets at an address.
func (s *socketFlags) config(listen string) node.ServerConfig {
	return node.ServerConfig{
		Listen:            listen,
		CertFile:          s.tlsCert,
		KeyFile:           s.tlsKey,
		MaxConns:          s.maxConns,
		MaxConnsPerClient: s.maxConnsPerClient,
		Hosts:             s.hosts,
		Origins:           s.origins,
		FrameAncestors:    s.ancestors,
		TrustedProxies:    s.proxies,
	}
}
