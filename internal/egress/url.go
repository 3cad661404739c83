package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// maxURLBytes is the maximum length of an endpoint's URL. Many servers refuse longer ones.
const maxURLBytes = 2048

// FaultCode identifies a problem with a URL or host in API responses.
type FaultCode string

// Problems with a URL or host.
const (
	FaultInvalid        FaultCode = "URL_INVALID"
	FaultTooLong        FaultCode = "URL_TOO_LONG"
	FaultNotHTTPS       FaultCode = "URL_NOT_HTTPS"
	FaultUserInfo       FaultCode = "URL_HAS_CREDENTIALS"
	FaultFragment       FaultCode = "URL_HAS_FRAGMENT"
	FaultHost           FaultCode = "URL_HOST_INVALID"
	FaultPort           FaultCode = "URL_PORT_NOT_ALLOWED"
	FaultForbidden      FaultCode = "SSRF_BLOCKED"
	FaultDoesNotResolve FaultCode = "DNS"
)

// Fault is a problem with a URL or host that its author can fix. Detail has no credentials.
type Fault struct {
	Code   FaultCode
	Detail string
}

func (f *Fault) Error() string { return f.Detail }

func fault(code FaultCode, format string, args ...any) *Fault {
	return &Fault{Code: code, Detail: fmt.Sprintf(format, args...)}
}

// CheckURL checks an endpoint's URL without resolving its host. It returns the canonical form, with
// a lower-case host without a trailing dot, without the default port and with a path. Errors are
// *Fault, or several joined ones, at most one per part of the URL; see Faults.
func (p *Policy) CheckURL(raw string) (*url.URL, error) {
	u, err := readURL(raw)
	if err != nil {
		return nil, err
	}
	found := []error{checkParts(u, raw)}
	if u.Hostname() == "" {
		if found[0] == nil {
			return nil, fault(FaultHost, "url has no host: write it as https://host/path")
		}
		return nil, found[0]
	}
	host, hostErr := p.checkHostName(u.Hostname())
	port, portErr := p.checkPort(u)
	if err := errors.Join(append(found, hostErr, portErr)...); err != nil {
		return nil, err
	}
	u.Host = joinHostPort(host, port)
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

// Faults returns the individual faults in an error of CheckURL or CheckHost.
func Faults(err error) (all []*Fault) {
	switch e := err.(type) { //nolint:errorlint // the levels are walked one by one
	case *Fault:
		return []*Fault{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, Faults(one)...)
		}
	case interface{ Unwrap() error }:
		return Faults(e.Unwrap())
	}
	return all
}

func readURL(raw string) (*url.URL, error) {
	if len(raw) > maxURLBytes {
		return nil, fault(FaultTooLong, "url has %d bytes, at most %d are accepted",
			len(raw), maxURLBytes)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f || raw[i] == '\\' {
			return nil, fault(FaultInvalid,
				"url has a character at byte %d that urls cannot contain: percent-encode it, or write an "+
					"international host in its xn-- form",
				i)
		}
	}
	u, err := url.Parse(raw)
	if err != nil {
		// url.Error contains the input, which may include credentials.
		return nil, fault(FaultInvalid, "url cannot be read: write it as https://host/path")
	}
	return u, nil
}

func checkParts(u *url.URL, raw string) error {
	var found []error
	if u.Scheme != "https" {
		found = append(found, fault(FaultNotHTTPS, "url must begin with https://"))
	}
	if u.User != nil {
		found = append(found, fault(FaultUserInfo, "url must not contain a user name or password"))
	}
	if strings.Contains(raw, "#") {
		found = append(found,
			fault(FaultFragment, "url must not contain a fragment (#…): it is never sent to the server"))
	}
	return errors.Join(found...)
}

func (p *Policy) checkPort(u *url.URL) (uint16, error) {
	if strings.HasSuffix(u.Host, ":") {
		return 0, fault(FaultInvalid, "url has a colon but no port after its host")
	}
	text := u.Port()
	if text == "" {
		text = "443"
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || !p.permitsPort(uint16(n)) {
		return 0, fault(FaultPort, "port %s of url is not allowed: use one of %s", text, p.ports())
	}
	return uint16(n), nil
}

// checkHostName returns the host in canonical form. It returns a fault if host is not a name, is a
// number that some resolvers parse as an address, or is a forbidden address.
func (p *Policy) checkHostName(host string) (string, error) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		if !p.Allows(addr) {
			return "", fault(FaultForbidden, "host %s is a private or internal address, "+
				"which --egress-allow (egress-allow in the service's settings) does not include", host)
		}
		return addr.Unmap().String(), nil
	}
	if len(host) > 253 {
		return "", fault(FaultHost, "host name has %d bytes, at most 253 are possible", len(host))
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", fault(FaultHost,
				"%q is not a host name: labels are 1 to 63 letters, digits and hyphens", host)
		}
	}
	if isNumeric(labels[len(labels)-1]) {
		for _, addr := range oldReadings(labels) {
			if !p.Allows(addr) {
				return "", fault(FaultForbidden,
					"host %s can be parsed as %s, a private or internal address", host, addr)
			}
		}
		return "", fault(FaultHost,
			"%q is not a host name: write an IPv4 address as four decimal numbers", host)
	}
	return host, nil
}

func isLabel(label string) bool {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}

// isNumeric reports whether the last label makes a host an IPv4 address in an old notation (octal,
// hexadecimal, or with fewer than four parts). No public name has such a label.
func isNumeric(label string) bool {
	if strings.HasPrefix(label, "0x") {
		return strings.Trim(label[2:], "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// oldReadings returns the IPv4 addresses as which a host of one to four numbers may be parsed. By
// the old rules of inet_aton, numbers may be hexadecimal or octal, and the last one fills the
// remaining bytes. Other parsers ignore leading zeros.
func oldReadings(parts []string) (readings []netip.Addr) {
	for _, zeroIsOctal := range []bool{true, false} {
		if addr, ok := oldIPv4(parts, zeroIsOctal); ok {
			readings = append(readings, addr)
		}
	}
	return readings
}

func oldIPv4(parts []string, zeroIsOctal bool) (netip.Addr, bool) {
	var all uint64
	for i, part := range parts {
		digits, base := part, 10
		if rest, hexadecimal := strings.CutPrefix(part, "0x"); hexadecimal {
			digits, base = "0"+rest, 16 // "0x" alone is 0
		} else if zeroIsOctal && len(part) > 1 && part[0] == '0' {
			base = 8
		}
		n, err := strconv.ParseUint(digits, base, 32)
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		if err != nil || len(parts) > 4 || n>>bits != 0 {
			return netip.Addr{}, false
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

func joinHostPort(host string, port uint16) string {
	if port != 443 {
		return net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// CheckHost resolves a host and checks all of its addresses. It returns nil or a *Fault with
// FaultForbidden, FaultHost or FaultDoesNotResolve. When an endpoint is created, callers may treat
// the last one as a warning because the name may be created later.
func (c *Client) CheckHost(ctx context.Context, host string) error {
	name, err := c.cfg.Policy.checkHostName(host)
	if err != nil {
		return err
	}
	_, err = c.resolve(ctx, name)
	switch classify(err) {
	case "":
		return nil
	case SSRFBlocked:
		return fault(FaultForbidden, "host %s resolves to a private or internal address", name)
	default:
		return fault(FaultDoesNotResolve, "host %s does not resolve now", name)
	}
}

// CheckURL calls [Policy.CheckURL] of the client's policy.
func (c *Client) CheckURL(raw string) (*url.URL, error) {
	return c.cfg.Policy.CheckURL(raw)
}
