package egress

import (
	"context"
	"errors"
	"net"
	"time"
)

// newDNS returns the standard library's resolver for a server (an address and port) or, if server
// is empty, for the servers in /etc/resolv.conf. A query that isn't answered within questionTime is
// repeated, with the next server if there are several. The library alone would wait for the timeout
// of /etc/resolv.conf, which by default takes up the whole time for a lookup.
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
			// The library distinguishes packet and stream connections by their methods.
			if packets, ok := conn.(*net.UDPConn); ok {
				return &limitedPackets{UDPConn: packets, limit: limit}, nil
			}
			return &limitedStream{Conn: conn, limit: limit}, nil
		},
	}
}

func newHosts() *net.Resolver {
	return &net.Resolver{
		PreferGo: true,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			return nil, errors.New("only the hosts file is used")
		},
	}
}

// limitedPackets is a UDP connection for one query. Its deadlines are at most limit.
type limitedPackets struct {
	*net.UDPConn
	limit time.Time
}

func (c *limitedPackets) SetDeadline(t time.Time) error {
	return c.UDPConn.SetDeadline(earlier(t, c.limit))
}

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
