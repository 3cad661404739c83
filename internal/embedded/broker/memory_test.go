package broker

import (
	"net"
	"testing"

	"golang.org/x/net/nettest"
)

// TestMemoryConn checks the in-process connections against the contract of net.Conn: deadlines,
// closing, and use by several goroutines.
func TestMemoryConn(t *testing.T) {
	t.Parallel()
	nettest.TestConn(t, func() (client, server net.Conn, stop func(), err error) {
		a, b := pipe(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092})
		return a, b, func() { _, _ = a.Close(), b.Close() }, nil
	})
}
