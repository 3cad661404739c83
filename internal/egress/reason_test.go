package egress

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/dns/dnsmessage"
)

// wantReason checks the text that the account holder reads: it must contain part, and nothing that
// only this machine should know.
func wantReason(t *testing.T, r Result, code Code, part string) {
	t.Helper()
	wantResult(t, r, r.StatusCode, code)
	if !strings.Contains(r.Detail, part) {
		t.Errorf("the detail is %q, want one with %q", r.Detail, part)
	}
	checkReason(t, r.Detail)
}

func checkReason(t *testing.T, detail string) {
	t.Helper()
	if len(detail) > maxReasonBytes || !utf8.ValidString(detail) ||
		strings.ContainsFunc(detail, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("the detail is no bounded line of text: %q", detail)
	}
	for _, internal := range []string{"127.0.0.", "::1", "10.1.2.3", "fd00:"} {
		if strings.Contains(detail, internal) {
			t.Errorf("the detail names an internal address: %q", detail)
		}
	}
}

// TestTLSReasons checks that an attempt that fails with TLS says what is wrong with the certificate
// or the handshake.
func TestTLSReasons(t *testing.T) {
	with := func(change func(*x509.Certificate)) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{ca().issue(change)}}
	}
	key := mustKey()
	intermediate := sign(&x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "Middle R7"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, ca().cert, key, ca().key)
	below := (&testCA{cert: intermediate, key: key}).issue(nil)
	selfSigned := httptest.NewUnstartedServer(nil) // net/http's own test certificate
	selfSigned.StartTLS()
	defer selfSigned.Close()
	for name, k := range map[string]struct {
		cfg  *tls.Config
		part string
	}{
		"expired": {
			with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Hour) }),
			"x509: certificate has expired",
		},
		"wrong name": {
			with(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 2)} }),
			"x509: certificate is valid for an internal address, not an internal address",
		},
		"names of others": {
			with(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"shop.example"} }),
			"x509: cannot validate certificate for an internal address",
		},
		"intermediate missing": {
			&tls.Config{Certificates: []tls.Certificate{below}},
			`1, the last one issued by "Middle R7"; is an intermediate or egress-ca missing?`,
		},
		"self-signed": {
			&tls.Config{Certificates: selfSigned.TLS.Certificates},
			"signed by unknown authority (self-signed; add it to egress-ca?)",
		},
		"old version": {
			&tls.Config{
				Certificates: with(nil).Certificates,
				MinVersion:   tls.VersionTLS10,
				MaxVersion:   tls.VersionTLS11,
			},
			"protocol version",
		},
		"no common cipher": {
			&tls.Config{
				Certificates: with(nil).Certificates, MaxVersion: tls.VersionTLS12,
				CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_CBC_SHA256},
			},
			"remote error: tls: handshake failure",
		},
		"client certificate, TLS 1.3": {
			&tls.Config{Certificates: with(nil).Certificates, ClientAuth: tls.RequireAnyClientCert},
			"remote error: tls: certificate required",
		},
		"client certificate, TLS 1.2": {
			&tls.Config{
				Certificates: with(nil).Certificates, ClientAuth: tls.RequireAnyClientCert,
				MaxVersion: tls.VersionTLS12,
			},
			"remote error: tls:",
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := "https://" + rawReceiver(t, func(c net.Conn) {
				if tls.Server(c, k.cfg).Handshake() != nil {
					_, _ = io.Copy(io.Discard, c) // a close could reset the connection before the alert arrives
				}
			})
			wantReason(t, post(t, newClient(t, nil), url), TLS, k.part)
		})
	}
	t.Run("plain HTTP", func(t *testing.T) {
		s := httptest.NewServer(nil)
		defer s.Close()
		r := post(t, newClient(t, nil), strings.Replace(s.URL, "http:", "https:", 1))
		wantReason(t, r, TLS, "first record does not look like a TLS handshake")
	})
}

// TestReasonsOfTheOtherErrors checks that DNS, CONN_REFUSED and SSRF_BLOCKED come with what failed,
// and without the addresses of this machine, its name servers or its proxy.
func TestReasonsOfTheOtherErrors(t *testing.T) {
	closed := must(net.Listen("tcp", "127.0.0.1:0"))
	_ = closed.Close()
	dnsClient := func(rcode dnsmessage.RCode) *Client {
		server := serveDNS(t, func(q query) *dnsmessage.Message { return q.reply(rcode) })
		return newClient(t, func(cfg *Config) { cfg.DNSServer = server })
	}
	private := newClient(t, func(cfg *Config) { cfg.Resolver = fixed(addrs("10.1.2.3")) })
	private6 := newClient(t, func(cfg *Config) { cfg.Resolver = fixed(addrs("fd00::1")) })
	proxied := newClient(t, func(cfg *Config) {
		cfg.Proxy = must(ParseProxy("http://" + closed.Addr().String()))
	})
	refusing := &tunnels{answerer: func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 503 No\r\n\r\n")
	}}
	refused := refusing.start(t)
	header := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
		if _, err := readRequest(c); err == nil {
			_, _ = io.WriteString(c, "SSH-2.0-\x1b[31mOpenSSH\r\n\r\n")
		}
	})
	for name, k := range map[string]struct {
		client    *Client
		url       string
		code      Code
		wantWhole string
	}{
		"nothing listens": {
			newClient(t, nil), "https://" + closed.Addr().String(), ConnRefused,
			"connect: connection refused",
		},
		"no such name": {
			dnsClient(dnsmessage.RCodeNameError), "https://no.test", DNS,
			"resolve the host name: no such host",
		},
		"no address": {
			newClient(t, func(cfg *Config) { cfg.Resolver = fixed(nil) }), "https://no.test", DNS,
			"resolve the host name: the name has no address",
		},
		"server fails": {
			dnsClient(dnsmessage.RCodeServerFailure), "https://no.test", DNS,
			"resolve the host name: the name server failed",
		},
		"private": {
			private, "https://in.test", SSRFBlocked,
			"resolve the host name: the host has a private or internal address, " +
				"which the setting egress-allow does not include",
		},
		"private, IPv6": {
			private6, "https://in.test", SSRFBlocked,
			"resolve the host name: the host has a private or internal address, " +
				"which the setting egress-allow does not include",
		},
		"proxy is down": {
			proxied, "https://127.0.0.1:8443", ConnRefused,
			"connect through the egress proxy: the proxy failed",
		},
		"proxy refuses": {
			newClient(t, func(cfg *Config) { cfg.Proxy = refused }), "https://127.0.0.1:8443", ConnRefused,
			"connect through the egress proxy: the proxy answered 503",
		},
		"no HTTP": {
			newClient(t, nil), header, ConnRefused,
			`read the response header: malformed HTTP response "SSH-2.0-\x1b[31mOpenSSH"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := post(t, k.client, k.url)
			wantReason(t, r, k.code, k.wantWhole)
			if r.Detail != k.wantWhole {
				t.Errorf("the detail is %q, want %q", r.Detail, k.wantWhole)
			}
		})
	}
}

func TestInternalAddressesAreHidden(t *testing.T) {
	const hidden = "an internal address"
	p := Policy{Deny: []netip.Prefix{netip.MustParsePrefix("8.8.4.0/24")}}
	for text, want := range map[string]string{
		"10.0.0.1:443->[fd00::7]:80: reset": hidden + ":443->[" + hidden + "]:80: reset",
		"valid for fd00::, ::1 and 192.168.7.1.": "valid for " + hidden + ", " + hidden + " and " +
			hidden + ".",
		"dial fe80::1: no, ::ffff:10.0.0.1, x::1": "dial " + hidden + " no, " + hidden + ", x" + hidden,
		"8.8.4.4 is denied, 8.8.8.8 is not":       hidden + " is denied, 8.8.8.8 is not",
		"at 2026-11-27T04:10:00Z, 2a00:1450::1":   "at 2026-11-27T04:10:00Z, 2a00:1450::1",
	} {
		if got := p.hideInternal(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// FuzzReason checks that the text about any certificate or response is a single bounded line
// without internal addresses.
func FuzzReason(f *testing.F) {
	for _, s := range []string{
		"read tcp 10.1.2.3:40000->[fd00::7]:443: reset", "::ffff:127.0.0.1", "a\x00b\u202ec\xff",
		strings.Repeat("é", 300), "bad:127.0.0.1.", "[::1]:443", "at 12:00:05",
		"\x1b[2J\u009b2J\u2066\u200b\U000e0041\u2028\x9b31m",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p := Policy{}
		got := oneLine(p.hideInternal(s))
		if len(got) > maxReasonBytes || !utf8.ValidString(got) ||
			strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q becomes %q", s, got)
		}
		for _, internal := range addressLike.FindAllString(got, -1) {
			if again := p.hideInternal(internal); again != internal && len(got) < maxReasonBytes-4 {
				t.Fatalf("%q becomes %q, with %q in it", s, got, internal)
			}
		}
	})
}
