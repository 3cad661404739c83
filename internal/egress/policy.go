package egress

import (
	"fmt"
	"net/netip"
	"strings"
)

// Policy specifies which addresses and ports may be reached. A built-in list of forbidden ranges
// always applies. Allow permits exceptions from it, and Deny takes precedence over everything.
type Policy struct {
	// Allow contains forbidden ranges that the operator permits. Loopback and link-local addresses are
	// only permitted by ranges within loopback or link-local, so that a broad range such as 0.0.0.0/0
	// doesn't expose services on this machine.
	Allow []netip.Prefix
	// Deny contains additional forbidden ranges.
	Deny []netip.Prefix
	// Ports are the ports that URLs may use. If empty, DefaultPorts are used.
	Ports PortSet
}

// forbidden4 are the non-public IPv4 ranges (IANA special-purpose registry), and Azure's host
// address 168.63.129.16, which looks public.
var forbidden4 = mustPrefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
	"192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
)

// public6 is the only IPv6 range that is routed on the internet. forbidden6 are the ranges within
// it that are not public or embed IPv4 addresses.
var (
	public6    = netip.MustParsePrefix("2000::/3")
	forbidden6 = mustPrefixes("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)

var local = mustPrefixes("127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10")

// LoopbackPrefixes returns the ranges to allow for receivers on this machine.
func LoopbackPrefixes() []netip.Prefix {
	return mustPrefixes("127.0.0.0/8", "::1/128")
}

// ParsePrefixes parses CIDRs and addresses. Errors contain the invalid part and how to fix it.
func ParsePrefixes(cidrs []string) ([]netip.Prefix, error) {
	prefixes := make([]netip.Prefix, 0, len(cidrs))
	for _, cidr := range cidrs {
		p, err := parsePrefix(strings.TrimSpace(cidr))
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}

func parsePrefix(cidr string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(cidr); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(cidr)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an address range: write one such as 10.1.0.0/16 "+
			"or fd00:1::/64", cidr)
	}
	if p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 range in IPv6 form: write it as IPv4", cidr)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("%q has bits set beyond its length: write %s", cidr, p.Masked())
	}
	return p, nil
}

// Allows reports whether an address may be reached.
func (p *Policy) Allows(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if containsAddr(p.Deny, addr) {
		return false
	}
	return !forbidden(addr) || p.excepted(addr)
}

func forbidden(addr netip.Addr) bool {
	if addr.Is4() {
		return containsAddr(forbidden4, addr)
	}
	return !public6.Contains(addr) || containsAddr(forbidden6, addr)
}

func (p *Policy) excepted(addr netip.Addr) bool {
	for _, allow := range p.Allow {
		if allow.Contains(addr) && localOnlyByLocal(allow, addr) {
			return true
		}
	}
	return false
}

func localOnlyByLocal(allow netip.Prefix, addr netip.Addr) bool {
	for _, l := range local {
		if l.Contains(addr) {
			return allow.Bits() >= l.Bits()
		}
	}
	return true
}

func containsAddr(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

func (p *Policy) permitsPort(port uint16) bool { return p.ports().Contains(port) }

// OpenPorts returns the ports that endpoint URLs may use.
func (p *Policy) OpenPorts() PortSet { return p.ports() }

func (p *Policy) ports() PortSet {
	if p.Ports.Empty() {
		return DefaultPorts()
	}
	return p.Ports
}

func mustPrefixes(cidrs ...string) []netip.Prefix {
	prefixes := make([]netip.Prefix, len(cidrs))
	for i, cidr := range cidrs {
		prefixes[i] = netip.MustParsePrefix(cidr)
	}
	return prefixes
}
