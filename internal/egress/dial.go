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
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

const (
	maxAddrsTried = 8
	// Head start of one address before the next is tried (RFC 8305, section 8).
	nextAddrDelay   = 250 * time.Millisecond
	keepAlivePeriod = 30 * time.Second
)

// carrier carries TLS to a receiver: a direct connection, or a tunnel through a proxy.
type carrier struct {
	raw  *meteredConn
	conn net.Conn
}

type target struct {
	url  *url.URL
	host string // without brackets and trailing dot
	port string
	addr string // host and port, the key in the pool
	head string // request line and constant header fields
}

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

// dial opens a new connection.
func (c *Client) dial(
	ctx context.Context, t *target, deadline time.Time,
) (*connection, error) {
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
	return newConnection(c, secured, along.raw)
}

func (c *Client) carry(
	ctx context.Context, t *target, addrs []netip.Addr, deadline time.Time,
) (carrier, error) {
	if c.cfg.Proxy != nil {
		return c.dialProxy(ctx, t, deadline)
	}
	conn, err := connect(ctx, c.dialer, addrs, t.port)
	if err != nil {
		return carrier{}, err
	}
	raw := newMetered(conn)
	return carrier{raw: raw, conn: raw}, nil
}

// resolve returns a host's addresses, which are all allowed. It returns errForbidden if any address
// is forbidden, or an error of stage DNS.
func (c *Client) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap()
		if !c.cfg.Policy.Allows(addr) {
			return nil, inStage(SSRFBlocked, stageResolve,
				fmt.Errorf("%s resolves to %s: %w", host, addr, errForbidden))
		}
	}
	return addrs, nil
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	// The trailing dot prevents the use of search domains.
	addrs, err := c.cfg.Resolver.LookupNetIP(ctx, "ip", host+".")
	if err != nil {
		if ctx.Err() != nil {
			return nil, inStage(Timeout, stageResolve, ctx.Err())
		}
		// %v, because a lookup that exceeded its own timeout must not count as the attempt's timeout.
		return nil, &stageError{
			code: DNS, stage: stageResolve, err: fmt.Errorf("%s: %v", host, err), told: lookupReason(err),
		}
	}
	if len(addrs) == 0 {
		return nil, inStage(DNS, stageResolve, errors.New("the name has no address"))
	}
	return addrs, nil
}

// connect dials the addresses as described in RFC 8305, alternating between address families. It
// dials the next address when one fails or after nextAddrDelay. The first connection wins.
func connect(
	ctx context.Context, dialer net.Dialer, addrs []netip.Addr, port string,
) (*net.TCPConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type dialed struct {
		conn net.Conn
		err  error
	}
	var won, failed dialed
	addrs = familiesInTurn(addrs)
	ended := make(chan dialed, len(addrs))
	next := time.NewTimer(0)
	for pending := 0; pending > 0 || len(addrs) > 0; {
		select {
		case <-next.C:
			address := net.JoinHostPort(addrs[0].String(), port)
			go func() {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				ended <- dialed{conn, err}
			}()
			pending++
			if addrs = addrs[1:]; len(addrs) > 0 {
				next.Reset(nextAddrDelay)
			}
		case d := <-ended:
			pending--
			switch {
			case d.err == nil && won.conn == nil:
				won = d
			case d.err == nil:
				_ = d.conn.Close()
			case failed.err == nil || errors.Is(d.err, errForbidden):
				failed = d
			}
			if won.conn != nil || ctx.Err() != nil || errors.Is(failed.err, errForbidden) {
				addrs = nil
				next.Stop()
				cancel() // ends the other dials, which the loop waits for
			} else if len(addrs) > 0 {
				next.Reset(0)
			}
		}
	}
	if won.conn == nil {
		return nil, inStage(ConnRefused, stageConnect, failed.err)
	}
	return won.conn.(*net.TCPConn), nil
}

// familiesInTurn sorts addresses as described in RFC 8305, section 4: in the resolver's order, but
// alternating between address families.
func familiesInTurn(addrs []netip.Addr) []netip.Addr {
	turns := make(map[netip.Addr]int, len(addrs))
	var found [2]int // of the first address's family, and of the other
	for _, addr := range addrs {
		family := 0
		if addr.Is4() != addrs[0].Is4() {
			family = 1
		}
		turns[addr] = 2*found[family] + family
		found[family]++
	}
	slices.SortFunc(addrs, func(a, b netip.Addr) int { return turns[a] - turns[b] })
	return addrs[:min(len(addrs), maxAddrsTried)]
}

// judgeDial enforces E1: it checks the address that is passed to connect(2).
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

// handshake performs the TLS handshake. Its errors are of stage TLS, except a lost connection.
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
		return nil, inStage(Timeout, stageTLS, ctx.Err())
	case isConnectionLost(err):
		return nil, inStage(ConnRefused, stageTLS, err)
	default:
		return nil, inStage(TLS, stageTLS, err)
	}
}

// isConnectionLost distinguishes a lost connection from a protocol violation by the peer. A lost
// connection results in an end of file, or in a failed read or write. (An alert is also a
// net.OpError, with the operation "remote error".) An exceeded deadline is not a lost connection.
func isConnectionLost(err error) bool {
	var op *net.OpError
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if errors.As(err, &op) {
		return op.Op == "read" || op.Op == "write"
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed)
}
