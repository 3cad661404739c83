package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestPolicyEdges checks the first and last address of each forbidden range, and its neighbors,
// which are public unless they are in another range.
func TestPolicyEdges(t *testing.T) {
	edges := []struct{ prefix, before, first, last, after string }{
		{"0.0.0.0/8", "", "0.0.0.0", "0.255.255.255", "1.0.0.0"},
		{"10.0.0.0/8", "9.255.255.255", "10.0.0.0", "10.255.255.255", "11.0.0.0"},
		{"100.64.0.0/10", "100.63.255.255", "100.64.0.0", "100.127.255.255", "100.128.0.0"},
		{"127.0.0.0/8", "126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0"},
		{"169.254.0.0/16", "169.253.255.255", "169.254.0.0", "169.254.255.255", "169.255.0.0"},
		{"172.16.0.0/12", "172.15.255.255", "172.16.0.0", "172.31.255.255", "172.32.0.0"},
		{"192.0.0.0/24", "191.255.255.255", "192.0.0.0", "192.0.0.255", "192.0.1.0"},
		{"192.0.2.0/24", "192.0.1.255", "192.0.2.0", "192.0.2.255", "192.0.3.0"},
		{"192.88.99.0/24", "192.88.98.255", "192.88.99.0", "192.88.99.255", "192.88.100.0"},
		{"192.168.0.0/16", "192.167.255.255", "192.168.0.0", "192.168.255.255", "192.169.0.0"},
		{"198.18.0.0/15", "198.17.255.255", "198.18.0.0", "198.19.255.255", "198.20.0.0"},
		{"198.51.100.0/24", "198.51.99.255", "198.51.100.0", "198.51.100.255", "198.51.101.0"},
		{"203.0.113.0/24", "203.0.112.255", "203.0.113.0", "203.0.113.255", "203.0.114.0"},
		{"224.0.0.0/4", "223.255.255.255", "224.0.0.0", "239.255.255.255", ""},
		{"240.0.0.0/4", "", "240.0.0.0", "255.255.255.255", ""},
		{"168.63.129.16/32", "168.63.129.15", "168.63.129.16", "168.63.129.16", "168.63.129.17"},
		{"below 2000::/3", "", "::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2000::"},
		{
			"above 2000::/3", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "4000::",
			"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "",
		},
		{
			"2001::/23", "2000:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001::",
			"2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:200::",
		},
		{
			"2001:db8::/32", "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db8::",
			"2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db9::",
		},
		{
			"2002::/16", "2001:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2002::",
			"2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2003::",
		},
		{
			"3fff::/20", "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff::",
			"3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff", "3fff:1000::",
		},
	}
	var p Policy
	check := func(prefix, addr string, want bool) {
		if addr == "" {
			return
		}
		a := netip.MustParseAddr(addr)
		if p.Allows(a) != want {
			t.Errorf("%s: Allows(%s) = %v", prefix, addr, !want)
		}
		if a.Is4() {
			if mapped := netip.AddrFrom16(a.As16()); p.Allows(mapped) != want {
				t.Errorf("%s: Allows(%s) = %v", prefix, mapped, !want)
			}
		}
	}
	for _, e := range edges {
		check(e.prefix, e.first, false)
		check(e.prefix, e.last, false)
		check(e.prefix, e.before, true)
		check(e.prefix, e.after, true)
	}
	for _, a := range []string{
		"::1", "::", "fe80::1", "fc00::1", "fd12::1", "ff02::1", "64:ff9b::a00:1",
		"::a00:1", "2606:4700::1%eth0",
	} {
		check("special", a, false)
	}
	if p.Allows(netip.Addr{}) {
		t.Error("the zero address is allowed")
	}
}

func TestPolicyAllowAndDeny(t *testing.T) {
	prefixes := func(list ...string) []netip.Prefix { return mustPrefixes(list...) }
	cases := []struct {
		name   string
		policy Policy
		addr   string
		want   bool
	}{
		{"exact range", Policy{Allow: prefixes("10.1.0.0/16")}, "10.1.2.3", true},
		{"beside the range", Policy{Allow: prefixes("10.1.0.0/16")}, "10.2.0.0", false},
		{"everything opens private", Policy{Allow: prefixes("0.0.0.0/0")}, "10.2.0.0", true},
		{"everything leaves loopback", Policy{Allow: prefixes("0.0.0.0/0")}, "127.0.0.1", false},
		{"everything leaves link-local", Policy{Allow: prefixes("0.0.0.0/0")}, "169.254.169.254", false},
		{"everything v6 leaves loopback", Policy{Allow: prefixes("::/0")}, "::1", false},
		{"everything v6 leaves link-local", Policy{Allow: prefixes("::/0")}, "fe80::1", false},
		{"loopback by name", Policy{Allow: LoopbackPrefixes()}, "127.9.9.9", true},
		{"loopback by name, mapped", Policy{Allow: LoopbackPrefixes()}, "::ffff:127.0.0.1", true},
		{"loopback by name, v6", Policy{Allow: LoopbackPrefixes()}, "::1", true},
		{"one metadata address", Policy{Allow: prefixes("169.254.169.254/32")}, "169.254.169.254", true},
		{"deny a public range", Policy{Deny: prefixes("8.8.8.0/24")}, "8.8.8.8", false},
		{
			"deny wins over allow",
			Policy{Allow: prefixes("10.0.0.0/8"), Deny: prefixes("10.0.0.0/24")}, "10.0.0.1",
			false,
		},
	}
	for _, c := range cases {
		if got := c.policy.Allows(netip.MustParseAddr(c.addr)); got != c.want {
			t.Errorf("%s: Allows(%s) = %v", c.name, c.addr, got)
		}
	}
}

func TestParsePorts(t *testing.T) {
	set, err := ParsePorts(" 443, 8443,9000-9100")
	if err != nil || set.String() != "443,8443,9000-9100" {
		t.Fatalf("got %q, %v", set, err)
	}
	for port, want := range map[uint16]bool{
		442:  false,
		443:  true,
		444:  false,
		8999: false,
		9000: true,
		9100: true,
		9101: false,
	} {
		if set.Contains(port) != want {
			t.Errorf("Contains(%d) = %v", port, !want)
		}
	}
	for list, names := range map[string]string{
		"":         "no ports",
		"443,,80":  `""`,
		"443,http": `"http"`, "0": `"0"`, "65536": `"65536"`, "443,9100-9000": "9000-9100",
		"1-": `"1-"`, "-1": `"-1"`, "+5": `"+5"`, strings.Repeat("1,", 64) + "1": "65 ports",
	} {
		if _, err := ParsePorts(list); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("ParsePorts(%q): %v does not name %s", list, err, names)
		}
	}
}

func TestParsePrefixes(t *testing.T) {
	got, err := ParsePrefixes([]string{"10.0.0.0/8", " 127.0.0.1 ", "fd00::/8"})
	if err != nil || len(got) != 3 || got[1].String() != "127.0.0.1/32" {
		t.Fatalf("got %v, %v", got, err)
	}
	for cidr, names := range map[string]string{
		"10.0.0.1/8":          "10.0.0.0/8",
		"x":                   `"x"`,
		"10.0.0.0/33":         "10.0.0.0/33",
		"::ffff:10.0.0.0/104": "IPv4",
		"fe80::1%eth0":        "fe80",
	} {
		if _, err := ParsePrefixes([]string{cidr}); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("ParsePrefixes(%q): %v does not name %s", cidr, err, names)
		}
	}
}

func TestCheckURL(t *testing.T) {
	good := map[string]string{
		"https://Example.COM":                  "https://example.com/",
		"https://example.com.:443/a?b=c":       "https://example.com/a?b=c",
		"https://example.com:8443/a%20b":       "https://example.com:8443/a%20b",
		"https://8.8.8.8/":                     "https://8.8.8.8/",
		"https://[::ffff:8.8.8.8]/":            "https://8.8.8.8/",
		"https://[2606:4700:0:0::1]:8443/":     "https://[2606:4700::1]:8443/",
		"https://xn--bcher-kva.example/":       "https://xn--bcher-kva.example/",
		"https://under_score.example/x?a=1&b=": "https://under_score.example/x?a=1&b=",
	}
	var p Policy
	for raw, want := range good {
		u, err := p.CheckURL(raw)
		if err != nil || u.String() != want {
			t.Errorf("CheckURL(%s) = %v, %v; want %s", raw, u, err, want)
		}
	}
	bad := map[string]FaultCode{
		"http://example.com/":                               FaultNotHTTPS,
		"example.com":                                       FaultNotHTTPS,
		"ftp://example.com/":                                FaultNotHTTPS,
		"https://":                                          FaultHost,
		"https:example.com":                                 FaultHost,
		"https:///path":                                     FaultHost,
		"https://u:p@example.com/":                          FaultUserInfo,
		"https://u@example.com/":                            FaultUserInfo,
		"https://example.com/#top":                          FaultFragment,
		"https://example.com/#":                             FaultFragment,
		"https://example.com:80/":                           FaultPort,
		"https://example.com:0/":                            FaultPort,
		"https://example.com:99999/":                        FaultPort,
		"https://example.com:/":                             FaultInvalid,
		"https://exa mple.com/":                             FaultInvalid,
		"https://example.com/a b":                           FaultInvalid,
		"https://bücher.example/":                           FaultInvalid,
		`https://a\@example.com/`:                           FaultInvalid,
		"https://example.com/\r\nX:":                        FaultInvalid,
		"https://exa%6dple.com/":                            FaultInvalid,
		"https://-a.example/":                               FaultHost,
		"https://a..example/":                               FaultHost,
		"https://" + strings.Repeat("a.", 130) + "example/": FaultHost,
		"https://example.com/" + strings.Repeat("a", 2048):  FaultTooLong,
	}
	// Forbidden addresses, in every notation.
	for _, host := range []string{
		"127.0.0.1", "10.0.0.1", "169.254.169.254", "168.63.129.16", "0.0.0.0", "[::1]", "[::]",
		"[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "[fe80::1%25eth0]", "[fd00::1]", "127.0.0.1.",
	} {
		bad["https://"+host+"/"] = FaultForbidden
	}
	// Notations that old parsing rules, all or some of them, read as a forbidden address.
	for _, host := range []string{
		"127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "127.0.0.0x1", "0x", "0", "10.1",
		"10.0.1", "0xA000001", "167772161",
		"012.0.0.1", "010.8.8.8", "0300.0250.0.1", "169.0xfea9fe", "0251.0376.0251.0376",
	} {
		bad["https://"+host+"/"] = FaultForbidden
	}
	for _, host := range []string{
		"127.0.0.1.1", "8.8.8", "0x08080808", "4294967296", "256.1", "10.0.0.256",
		"1.2.3.09", "example.1", "a.0x1", "99999999999999999999",
	} {
		bad["https://"+host+"/"] = FaultHost
	}
	for raw, want := range bad {
		u, err := p.CheckURL(raw)
		var f *Fault
		if !errors.As(err, &f) || f.Code != want {
			t.Errorf("CheckURL(%q) = %v, %v; want %s", raw, u, err, want)
		} else if strings.Contains(f.Detail, "u:p") {
			t.Errorf("CheckURL(%q) repeats credentials: %s", raw, f.Detail)
		}
	}
}

func TestCheckURLReportsEveryFault(t *testing.T) {
	var p Policy
	for raw, want := range map[string][]FaultCode{
		"http://u:p@10.0.0.1:80/#f": {
			FaultNotHTTPS, FaultUserInfo, FaultFragment, FaultForbidden, FaultPort,
		},
		"https://u@a..b:81/":          {FaultUserInfo, FaultHost, FaultPort},
		"ftp://0x7f.1/":               {FaultNotHTTPS, FaultForbidden},
		"https://example.com:80/#top": {FaultFragment, FaultPort},
		"https://#":                   {FaultFragment},
		"example.com":                 {FaultNotHTTPS},
	} {
		_, err := p.CheckURL(raw)
		var got []FaultCode
		for _, f := range Faults(fmt.Errorf("checking: %w", err)) {
			got = append(got, f.Code)
		}
		if !slices.Equal(got, want) {
			t.Errorf("CheckURL(%q): %v, want %v", raw, got, want)
		}
	}
	if got := Faults(errors.New("other")); got != nil {
		t.Errorf("%v", got)
	}
}

// FuzzCheckURL checks that an accepted URL has no forbidden literal address, and that its canonical
// form is accepted unchanged.
func FuzzCheckURL(f *testing.F) {
	for _, s := range []string{
		"https://example.com/", "https://[::ffff:127.0.0.1]:8443/x", "https://0x7f.1/",
		"https://10.0.0.1:443/", "https://8.8.8.8./",
	} {
		f.Add(s)
	}
	var p Policy
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := p.CheckURL(raw)
		if err != nil {
			return
		}
		if a, err := netip.ParseAddr(u.Hostname()); err == nil && !p.Allows(a) {
			t.Fatalf("%q passes as %s", raw, u)
		}
		again, err := p.CheckURL(u.String())
		if err != nil || again.String() != u.String() {
			t.Fatalf("%q is canonical as %s, which gives %v, %v", raw, u, again, err)
		}
	})
}
