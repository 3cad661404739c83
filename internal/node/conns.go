package node

import (
	"net"
	"net/netip"
	"sync"
)

// conns counts open connections, in all and by client.
type conns struct {
	most, mostPerClient int

	mu       sync.Mutex
	open     int
	byClient map[netip.Prefix]int
}

func newConns(most, mostPerClient int) *conns {
	return &conns{most: most, mostPerClient: mostPerClient, byClient: make(map[netip.Prefix]int)}
}

// clientOf returns what counts as one client: an IPv4 address, or an IPv6 subscriber's
// network.
func clientOf(address string) netip.Prefix {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.Prefix{} // all of these are one client
	}
	addr := ap.Addr().Unmap().WithZone("")
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

func (c *conns) enter(client netip.Prefix) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open >= c.most || c.byClient[client] >= c.mostPerClient {
		return false
	}
	c.open++
	c.byClient[client]++
	return true
}

func (c *conns) leave(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.byClient[client]--; c.byClient[client] == 0 {
		delete(c.byClient, client)
	}
}

func (c *conns) bound(l net.Listener) net.Listener { return &boundListener{Listener: l, conns: c} }

type boundListener struct {
	net.Listener
	conns *conns
}

func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		client := clientOf(conn.RemoteAddr().String())
		if l.conns.enter(client) {
			return &boundConn{Conn: conn, leave: sync.OnceFunc(func() { l.conns.leave(client) })}, nil
		}
		_ = conn.Close()
	}
}

type boundConn struct {
	net.Conn
	leave func()
}

// Write replaces net/http's own answers by problems.
func (c *boundConn) Write(b []byte) (int, error) {
	p := refusalIn(b)
	if p == nil {
		return c.Conn.Write(b)
	}
	if _, err := c.Conn.Write(message(p)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *boundConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
