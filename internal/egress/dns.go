package egress

import (
	"context"
	"errors"
	"net"
	"time"
)

// newDNS returns the standard library's resolver for a server (an address and port), or for those
// of /etc/resolv.conf when it is empty. A query that is not answered within questionTime is sent
// again, to the next server if there is one: the library would wait for the timeout of
// /etc/resolv.conf, which by default covers a whole lookup.
func newDNS(server string, questionTime time.Duration) *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if server != "" {
				address = server
			}
			var d net.Dialer
			conn, err := d.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			limit := time.Now().Add(questionTime)
			// The library distinguishes datagrams from streams by the connection's methods.
			if packets, ok := conn.(*net.UDPConn); ok {
				return &limitedPackets{UDPConn: packets, limit: limit}, nil
			}
			return &limitedStream{Conn: conn, limit: limit}, nil
		},
	}
}

// newHosts returns a resolver that reads the hosts file and reaches no name server.
func newHosts() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("only the hosts file is asked")
		},
	}
}

// limitedPackets is a UDP socket for one query, whose deadlines are not after limit.
type limitedPackets struct {
	*net.UDPConn
	limit time.Time
}

func (c *limitedPackets) SetDeadline(t time.Time) error {
	return c.UDPConn.SetDeadline(earlier(t, c.limit))
}

// limitedStream is a TCP connection for one query, whose deadlines are not after limit.
type limitedStream struct {
	net.Conn
	limit time.Time
}

func (c *limitedStream) SetDeadline(t time.Time) error {
	return c.Conn.SetDeadline(earlier(t, c.limit))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
