package ingress

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	retryFirst = 5 * time.Millisecond
	retryMost  = time.Second

	// lowDescriptors is a limit below which a listener's share may be too small.
	lowDescriptors = 8192
)

// Config configures a Listener. Max, MaxPerAddress and Share are required.
type Config struct {
	Max           int            // maximum number of connections
	MaxPerAddress int            // maximum number of connections per address
	Share         float64        // maximum share of the process's descriptors
	Proxies       []netip.Prefix // exempt from MaxPerAddress
	Log           *slog.Logger   // logs errors that are retried; may be nil
}

// Listener is a listener with limits. Its connections are of type *Conn.
type Listener struct {
	net.Listener
	cfg    Config
	closed context.Context
	close  context.CancelFunc

	mu        sync.Mutex
	open      int
	byAddress map[netip.Prefix]int
	waiting   list.List // of *Conn, longest waiting first
}

// Listen returns a Listener that limits l.
func Listen(l net.Listener, cfg Config) *Listener {
	cfg.Max = max(1, min(cfg.Max, int(cfg.Share*float64(Descriptors()))))
	cfg.MaxPerAddress = min(cfg.MaxPerAddress, cfg.Max-cfg.Max/4)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	bounded := &Listener{Listener: l, cfg: cfg, byAddress: make(map[netip.Prefix]int)}
	bounded.closed, bounded.close = context.WithCancel(context.Background())
	return bounded
}

// Descriptors returns how many files and connections the process may have open. The Go runtime
// raises the soft limit to the hard limit.
func Descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return lowDescriptors
	}
	return min(limit.Cur, 1<<30) // RLIM_INFINITY is larger
}

// WarnIfLow logs a warning if the descriptor limit is low for a service. Call it once at startup.
func WarnIfLow(log *slog.Logger) {
	if n := Descriptors(); n < lowDescriptors {
		log.Warn("the limit of open files is low, so fewer connections are accepted than the flags "+
			"allow; raise it (ulimit -n, LimitNOFILE= of systemd, nofile of a container)",
			"limit", n, "recommended", lowDescriptors)
	}
}

// Accept returns the next connection within the limits.
func (l *Listener) Accept() (net.Conn, error) {
	wait := retryFirst
	for {
		conn, err := l.Listener.Accept()
		switch {
		case err == nil:
			wait = retryFirst
			if c := l.admit(conn); c != nil {
				return c, nil
			}
		case l.closed.Err() != nil || !passes(err):
			return nil, err
		default:
			l.cfg.Log.Warn("cannot accept a connection; retrying", "address", l.Addr(), "wait", wait,
				"error", err)
			select {
			case <-time.After(wait):
			case <-l.closed.Done():
			}
			wait = min(2*wait, retryMost)
		}
	}
}

// passes reports whether a later Accept may succeed after err, because descriptors or memory are
// short, or the client has disconnected. Other errors concern the socket itself, which the caller
// must open again.
func passes(err error) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && errno != syscall.EBADF && errno != syscall.EINVAL &&
		errno != syscall.ENOTSOCK
}

// Close closes the listener. Accept then returns an error.
func (l *Listener) Close() error {
	l.close()
	return l.Listener.Close()
}

// admit returns nil, and closes the connection, if it exceeds the limits.
func (l *Listener) admit(conn net.Conn) *Conn {
	c := &Conn{
		Conn:     conn,
		listener: l,
		address:  AddressOf(conn.RemoteAddr().String()),
		gone:     make(chan struct{}),
	}
	c.isProxy = l.isProxy(conn.RemoteAddr().String())
	replaced, admitted := l.place(c)
	if replaced != nil {
		_ = replaced.Conn.Close()
	}
	if !admitted {
		_ = conn.Close()
		return nil
	}
	return c
}

// place counts a connection. At a limit, it replaces another one.
func (l *Listener) place(c *Conn) (replaced *Conn, admitted bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ofAddress := l.byAddress[c.address] >= l.cfg.MaxPerAddress && !c.isProxy
	if ofAddress || l.open >= l.cfg.Max {
		if replaced = l.longestWaiting(c.address, ofAddress); replaced == nil {
			return nil, false
		}
		l.forget(replaced)
	}
	l.open++
	l.byAddress[c.address]++
	c.place = l.waiting.PushBack(c)
	return replaced, true
}

func (l *Listener) isProxy(address string) bool {
	ap, err := netip.ParseAddrPort(address)
	return err == nil && slices.ContainsFunc(l.cfg.Proxies, func(p netip.Prefix) bool {
		return p.Contains(ap.Addr().Unmap().WithZone(""))
	})
}

func (l *Listener) longestWaiting(address netip.Prefix, ofAddress bool) *Conn {
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*Conn); !ofAddress || c.address == address {
			return c
		}
	}
	return nil
}

// forget stops counting a connection. l.mu must be held.
func (l *Listener) forget(c *Conn) {
	if c.isGone() {
		return
	}
	close(c.gone)
	l.setWaiting(c, false)
	l.open--
	if l.byAddress[c.address]--; l.byAddress[c.address] == 0 {
		delete(l.byAddress, c.address)
	}
}

// setWaiting adds c to the waiting connections or removes it. l.mu must be held.
func (l *Listener) setWaiting(c *Conn, waits bool) {
	if c.place != nil {
		l.waiting.Remove(c.place)
		c.place = nil
	}
	if waits && !c.isGone() {
		c.place = l.waiting.PushBack(c)
	}
}

// Conn is a connection of a Listener. It counts as waiting until Busy is called.
type Conn struct {
	net.Conn
	listener *Listener
	address  netip.Prefix
	isProxy  bool // a trusted proxy, which serves many clients

	place *list.Element // nil unless waiting
	gone  chan struct{} // closed when it is no longer counted
}

func (c *Conn) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// Gone is closed when the connection has been closed, or replaced by another one.
func (c *Conn) Gone() <-chan struct{} { return c.gone }

// Busy reports whether the connection is busy: it has logged in, or has a request in progress. A
// busy connection is never replaced.
func (c *Conn) Busy(busy bool) {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.setWaiting(c, !busy)
}

// NetConn returns the underlying connection.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// Close closes the connection and releases its place.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.forget(c)
	return err
}

// ConnState is the hook of an http.Server that uses a Listener. It marks connections with a request
// in progress as busy.
func ConnState(conn net.Conn, state http.ConnState) {
	for conn != nil {
		switch c := conn.(type) {
		case interface{ Busy(busy bool) }:
			if state == http.StateActive || state == http.StateIdle {
				c.Busy(state == http.StateActive)
			}
			return
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn() // for example tls.Conn
		default:
			return
		}
	}
}

// AddressOf returns what counts as one address for limits: an IPv4 address or an IPv6 /64 network.
// The argument is host:port.
func AddressOf(address string) netip.Prefix {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // all invalid addresses count as one
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}
