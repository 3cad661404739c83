package ingress_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/ingress"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// failing is a listener that fails before every connection.
type failing struct {
	net.Listener
	failed int
	with   syscall.Errno // EMFILE if it is 0
}

func (l *failing) Accept() (net.Conn, error) {
	if l.failed++; l.failed%3 != 0 {
		err := os.NewSyscallError("accept4", cmp.Or(l.with, syscall.EMFILE))
		return nil, &net.OpError{Op: "accept", Err: err}
	}
	return l.Listener.Accept()
}

func listen(t *testing.T, cfg ingress.Config) *ingress.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Share == 0 {
		cfg.Share = 0.1
	}
	bounded := ingress.Listen(&failing{Listener: l}, cfg)
	t.Cleanup(func() { _ = bounded.Close() })
	return bounded
}

func dialFrom(t *testing.T, from string, l net.Listener) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func accept(t *testing.T, l *ingress.Listener) *ingress.Conn {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn.(*ingress.Conn)
}

// isClosed waits until the connection is closed, and reports whether it was closed in time.
func isClosed(t *testing.T, conn net.Conn) bool {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(testkit.Patience(t)))
	_, err := conn.Read(make([]byte, 1))
	return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
}

// answers reports whether data from server reaches client.
func answers(t *testing.T, client net.Conn, server *ingress.Conn) bool {
	t.Helper()
	if _, err := io.WriteString(server, "x"); err != nil {
		return false
	}
	_ = client.SetReadDeadline(time.Now().Add(testkit.Patience(t)))
	_, err := io.ReadFull(client, make([]byte, 1))
	return err == nil
}

// Idle connections must not lock out new clients, whether from other addresses or from their own.
// Busy connections stay open, and never exceed the limits.
func TestIdleConnectionsAreReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		cfg         ingress.Config
		first, next string
	}{
		"in all":        {ingress.Config{Max: 4, MaxPerAddress: 100}, "127.0.0.2", "127.0.0.3"},
		"of an address": {ingress.Config{Max: 100, MaxPerAddress: 3}, "127.0.0.2", "127.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t, c.cfg)
			var clients []net.Conn
			var servers []*ingress.Conn
			for range 3 {
				clients = append(clients, dialFrom(t, c.first, l))
				servers = append(servers, accept(t, l))
			}
			if name == "in all" {
				clients = append(clients, dialFrom(t, c.next, l))
				servers = append(servers, accept(t, l))
			}
			servers[0].Busy(true)
			clients = append(clients, dialFrom(t, c.next, l))
			servers = append(servers, accept(t, l))
			if !isClosed(t, clients[1]) {
				t.Error("the connection that waited longest was not replaced")
			}
			for i, server := range servers {
				if i != 1 && !answers(t, clients[i], server) {
					t.Errorf("connection %d was closed too", i)
				}
				server.Busy(true)
			}
			refused := dialFrom(t, c.next, l)
			another := make(chan *ingress.Conn, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					another <- conn.(*ingress.Conn)
				}
				close(another)
			}()
			if !isClosed(t, refused) {
				t.Error("a connection beyond the bound was accepted while all others were busy")
			}
			_ = servers[2].Close()
			freed := dialFrom(t, c.next, l)
			if !answers(t, freed, <-another) {
				t.Error("a place that was freed is not given to the next connection")
			}
		})
	}
}

// A single address must never get all places, unless it is a proxy's.
func TestOneAddressLeavesPlacesToOthers(t *testing.T) {
	proxy := netip.MustParsePrefix("127.0.0.9/32")
	l := listen(t, ingress.Config{Max: 8, MaxPerAddress: 100, Proxies: []netip.Prefix{proxy}})
	for from, most := range map[string]int{"127.0.0.2": 6, "127.0.0.9": 8} {
		var open []*ingress.Conn
		for range most {
			dialFrom(t, from, l)
			open = append(open, accept(t, l))
			open[len(open)-1].Busy(true)
		}
		over := dialFrom(t, from, l)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if conn, err := l.Accept(); err == nil {
				defer conn.Close()
				if got := conn.RemoteAddr().(*net.TCPAddr).IP.String(); got != "127.0.0.5" {
					t.Errorf("a connection of %s beyond the bound was accepted", got)
				}
			}
		}()
		if !isClosed(t, over) {
			t.Errorf("%s got more than %d places", from, most)
		}
		_ = open[0].Close()
		dialFrom(t, "127.0.0.5", l)
		<-done
		for _, c := range open {
			_ = c.Close()
		}
	}
}

// A server that briefly runs out of descriptors must recover. Other errors, and closing the
// listener, end Accept.
func TestAcceptErrorsAreRetried(t *testing.T) {
	l := listen(t, ingress.Config{Max: 10, MaxPerAddress: 10})
	for range 3 {
		dialFrom(t, "127.0.0.2", l)
		accept(t, l) // not net/http's Accept loop, which retries on its own
	}
	_ = l.Close()
	if conn, err := l.Accept(); err == nil {
		t.Errorf("after Close, Accept returned %v", conn)
	}
	broken := &failing{with: syscall.EBADF}
	if _, err := ingress.Listen(broken, ingress.Config{Max: 1, Share: 1}).Accept(); err == nil {
		t.Error("Accept did not return the error of a socket that is gone")
	}
}

// A listener must accept no more connections than its share of the process's descriptors, so that
// some are left for files.
func TestDescriptorsAreLeft(t *testing.T) {
	l := listen(t, ingress.Config{
		Max: 1 << 30, MaxPerAddress: 1 << 30, Share: 4.5 / float64(ingress.Descriptors()),
	})
	for n := range 4 {
		dialFrom(t, fmt.Sprint("127.0.0.", 2+n), l)
		accept(t, l).Busy(true)
	}
	over := dialFrom(t, "127.0.0.9", l)
	go func() { _, _ = l.Accept() }()
	if !isClosed(t, over) {
		t.Error("a connection beyond the share was accepted")
	}
}

// A trusted proxy serves many clients, so it has no limit per address, even if its prefix is a
// single IPv6 address.
func TestAProxyHasNoBoundOfItsOwn(t *testing.T) {
	plain, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	l := ingress.Listen(plain, ingress.Config{Max: 10, MaxPerAddress: 1, Share: 0.1,
		Proxies: []netip.Prefix{netip.MustParsePrefix("::1/128")}})
	t.Cleanup(func() { _ = l.Close() })
	var clients []net.Conn
	var servers []*ingress.Conn
	for range 3 {
		clients = append(clients, dialFrom(t, "::1", l))
		servers = append(servers, accept(t, l))
	}
	for i, server := range servers {
		if !answers(t, clients[i], server) {
			t.Errorf("connection %d of the proxy was closed", i)
		}
	}
}

func TestAddressOf(t *testing.T) {
	for address, want := range map[string]string{
		"192.0.2.1:80":            "192.0.2.1/32",
		"[::ffff:192.0.2.1]:80":   "192.0.2.1/32",
		"[2001:db8::1]:80":        "2001:db8::/64",
		"[2001:db8::ffff%eth0]:9": "2001:db8::/64",
		"@":                       "invalid Prefix",
	} {
		if got := ingress.AddressOf(address).String(); got != want {
			t.Errorf("AddressOf(%q) = %s, want %s", address, got, want)
		}
	}
}
