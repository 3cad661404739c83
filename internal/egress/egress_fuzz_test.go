package egress

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// forms returns an IPv4 address in every form that some resolver or browser accepts.
func forms(a netip.Addr) []string {
	b := a.As4()
	n := binary.BigEndian.Uint32(b[:])
	mapped := netip.AddrFrom16(a.As16())
	quad := func(format string) string {
		return fmt.Sprintf(strings.TrimSuffix(strings.Repeat(format+".", 4), "."), b[0], b[1], b[2], b[3])
	}
	return []string{
		a.String(), a.String() + ".",
		quad("%03d"), quad("0%o"), quad("%#o"), quad("0x%x"), quad("0X%02X"),
		fmt.Sprint(n), fmt.Sprintf("0x%x", n), fmt.Sprintf("0%o", n),
		fmt.Sprintf("%d.%d", b[0], n&0xffffff),
		fmt.Sprintf("%d.%d.%d", b[0], b[1], n&0xffff), fmt.Sprintf("0x%x.%d", b[0], n&0xffffff),
		fmt.Sprintf("%d.%d.%d.0x%x", b[0], b[1], b[2], b[3]),
		"[" + mapped.String() + "]", fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff),
		fmt.Sprintf("[0:0:0:0:0:ffff:%s]", a), fmt.Sprintf("[::%s]", a),
		fmt.Sprintf("[64:ff9b::%s]", a), fmt.Sprintf("[2002:%x:%x::1]", n>>16, n&0xffff),
		"[" + mapped.String() + "%25eth0]", "[" + mapped.String() + "%25]",
		strings.ReplaceAll(a.String(), ".", "%2e"), strings.ReplaceAll(a.String(), ".", "。"),
		" " + a.String(), a.String() + "\t", a.String() + "#", a.String() + "\\",
		"user@" + a.String(), a.String() + "@" + a.String(),
		"%" + fmt.Sprintf("%02x", a.String()[0]) + a.String()[1:],
	}
}

// FuzzForbiddenForms checks that a forbidden address is rejected in URLs, in any notation and with
// any port, and that it is never dialed.
func FuzzForbiddenForms(f *testing.F) {
	for _, p := range forbidden4 {
		b := p.Addr().As4()
		f.Add(binary.BigEndian.Uint32(b[:]), uint64(0), uint64(0), uint16(443))
	}
	f.Add(uint32(0x7f000001), uint64(0xfe80)<<48, uint64(1), uint16(8443))
	f.Add(uint32(0xa9fea9fe), uint64(0xfd00)<<48, uint64(1), uint16(0))
	var p Policy
	c := newClient(f, func(cfg *Config) { cfg.Policy = p })
	f.Fuzz(func(t *testing.T, four uint32, high, low uint64, port uint16) {
		a4 := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, four)))
		a6 := netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil,
			high), low)))
		var hosts []string
		var raw []netip.Addr
		if !p.Allows(a4) {
			hosts, raw = forms(a4), append(raw, a4, netip.AddrFrom16(a4.As16()))
		}
		if !p.Allows(a6) {
			hosts = append(hosts, "["+a6.String()+"]", "["+a6.StringExpanded()+"]",
				"["+strings.ToUpper(a6.String())+"]", "["+a6.String()+"%25lo]")
			raw = append(raw, a6)
		}
		for _, host := range hosts {
			for _, suffix := range []string{"", ":443", ":8443", fmt.Sprintf(":%d", port), ":0443"} {
				if u, err := p.CheckURL("https://" + host + suffix + "/"); err == nil {
					t.Fatalf("%s%s passes as %s", host, suffix, u)
				}
			}
		}
		for _, a := range raw {
			if err := c.judgeDial(context.Background(), "tcp", net.JoinHostPort(a.String(),
				"443"), nil); classify(err) != SSRFBlocked {
				t.Fatalf("a dial of %s is allowed: %v", a, err)
			}
			_, err := connect(context.Background(), c.dialer, []netip.Addr{a}, "443")
			if classify(err) != SSRFBlocked {
				t.Fatalf("connecting to %s: %v", a, err)
			}
		}
	})
}

// FuzzParsers checks that parsing an operator's settings doesn't panic, and that parsed settings
// survive formatting and parsing again.
func FuzzParsers(f *testing.F) {
	for _, s := range []string{
		"443,8443", "1-65535", "10.0.0.0/8", "::1", "http://u:p@proxy:3128",
		"127.0.0.1:53",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if set, err := ParsePorts(s); err == nil {
			if again, err := ParsePorts(set.String()); err != nil || again.String() != set.String() {
				t.Fatalf("%q is %s, then %s (%v)", s, set, again, err)
			}
		}
		if prefixes, err := ParsePrefixes([]string{s}); err == nil &&
			(prefixes[0] != prefixes[0].Masked() || prefixes[0].Addr().Is4In6()) {
			t.Fatalf("%q is %s", s, prefixes[0])
		}
		_, _ = ParseProxy(s)
		retry.After(s, time.Unix(0, 0), maxRetryAfter)
	})
}
