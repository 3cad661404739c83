package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"syscall"
	"time"
)

const (
	maxAddrsTried = 8
	// minAddrTime keeps one address's share of the budget long enough for a
	// lost SYN to be sent again.
	minAddrTime     = 2 * time.Second
	keepAlivePeriod = 30 * time.Second
)

// carrier is what a handshake with a receiver runs over: the connection to it,
// or a tunnel through a proxy.
type carrier struct {
	raw  *meteredConn
	conn net.Conn
}

// target is a checked URL prepared for use.
type target struct {
	url  *url.URL
	host string // without brackets or trailing dot
	port string
	addr string // host and port: the pool's key
	head string // request line and the fields that are the same each time
}

// target returns the parsed and checked URL, from the cache when it can.
func (c *Client) target(raw string) (*target, error) {
	if t, ok := c.targets.Get(raw); ok {
		return t, nil
	}
	u, err := c.CheckURL(raw)
	if err != nil {
		return nil, err
	}
	t := &target{url: u, host: u.Hostname(), port: u.Port()}
	if t.port == "" {
		t.port = "443"
	}
	t.addr = net.JoinHostPort(t.host, t.port)
	t.head = "POST " + u.RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nUser-Agent: " + c.cfg.UserAgent + "\r\nContent-Length: "
	c.targets.Add(raw, t)
	return t, nil
}

// dial opens a new connection: name, address, handshake, protocol.
func (c *Client) dial(ctx context.Context, t *target, deadline time.Time) (link, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	addrs, err := c.resolve(ctx, t.host)
	if err != nil {
		return nil, err
	}
	along, err := c.carry(ctx, t, addrs, deadline)
	if err != nil {
		return nil, err
	}
	secured, err := c.handshake(ctx, along.conn, t)
	if err != nil {
		_ = along.raw.Close()
		return nil, err
	}
	if secured.ConnectionState().NegotiatedProtocol == "h2" {
		return c.newHTTP2(ctx, secured, along.raw, t)
	}
	return newHTTP1(c, secured, along.raw)
}

func (c *Client) carry(
	ctx context.Context, t *target, addrs []netip.Addr, deadline time.Time,
) (carrier, error) {
	if c.cfg.Proxy != nil {
		return c.dialProxy(ctx, t, deadline)
	}
	conn, err := c.connect(ctx, addrs, t.port, deadline)
	if err != nil {
		return carrier{}, err
	}
	raw := newMetered(conn)
	return carrier{raw: raw, conn: raw}, nil
}

// resolve returns a host's addresses, all of them permitted, or an error of
// stage DNS, or errForbidden if any one is not.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
		if !c.cfg.Policy.Allows(addr) {
			return nil, fmt.Errorf("%s resolves to %s: %w", host, addr, errForbidden)
		}
	}
	return addrs, nil
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	// The final dot prevents the use of the machine's search domains.
	addrs, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host+".")
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("resolve %s: %w", host, ctx.Err())
		}
		// %v: a lookup that exceeded its own timeout is not the budget.
		return nil, inStage(DNS, fmt.Errorf("resolve %s: %v", host, err))
	}
	if len(addrs) == 0 {
		return nil, inStage(DNS, fmt.Errorf("resolve %s: no addresses", host))
	}
	return addrs, nil
}

// connect dials a receiver, under the guard.
func (c *Client) connect(
	ctx context.Context, addrs []netip.Addr, port string, deadline time.Time,
) (*net.TCPConn, error) {
	return connect(ctx, c.dialer, addrs, port, deadline)
}

// connect tries the addresses in the resolver's order, each with a fair share of the rest
// of the budget.
func connect(
	ctx context.Context, dialer net.Dialer, addrs []netip.Addr, port string, deadline time.Time,
) (*net.TCPConn, error) {
	addrs = addrs[:min(len(addrs), maxAddrsTried)]
	var firstErr error
	for i, addr := range addrs {
		share := time.Until(deadline) / time.Duration(len(addrs)-i)
		dialer.Deadline = time.Now().Add(max(share, minAddrTime)) // ctx still caps it
		conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), port))
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if ctx.Err() != nil || errors.Is(err, errForbidden) {
			return nil, err
		}
		if firstErr == nil {
			firstErr = err
		}
	}
	// %v: an exceeded share of the budget is not the budget.
	return nil, inStage(ConnRefused, fmt.Errorf("connect: %v", firstErr))
}

// judgeDial is the guard of E1: it sees the address that connect(2) will get.
func (c *Client) judgeDial(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, errForbidden)
	}
	if !c.cfg.Policy.Allows(ap.Addr()) {
		return fmt.Errorf("dial %s: %w", address, errForbidden)
	}
	if !c.cfg.Policy.permitsPort(ap.Port()) {
		return fmt.Errorf("dial %s: port %s is not permitted: %w", address, strconv.Itoa(int(ap.Port())),
			errForbidden)
	}
	return nil
}

// handshake secures a connection. Errors of the peer's TLS are of stage TLS; a connection
// that broke meanwhile is not.
func (c *Client) handshake(ctx context.Context, conn net.Conn, t *target) (*tls.Conn, error) {
	cfg := c.tls.Clone()
	cfg.ServerName = t.host
	c.sessions.configure(cfg, t.addr)
	secured := tls.Client(conn, cfg)
	err := secured.HandshakeContext(ctx)
	switch {
	case err == nil:
		return secured, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("TLS handshake: %w", ctx.Err())
	case isConnectionLost(err):
		return nil, inStage(ConnRefused, fmt.Errorf("TLS handshake: %w", err))
	default:
		return nil, inStage(TLS, fmt.Errorf("TLS handshake: %w", err))
	}
}

// isConnectionLost distinguishes a broken connection from a peer that violated the
// protocol: the former shows as an end of file or a failed read or write. (An alert is a
// net.OpError too, of operation "remote error".)
func isConnectionLost(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "read" || op.Op == "write"
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}
