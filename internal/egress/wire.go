package egress

import (
	"errors"
	"net"
	"sync/atomic"
)

const (
	// handshakeBytes is what a connection may send us until it is ready for a
	// request: certificate chains take most of it, 3 to 20 KiB as a rule.
	handshakeBytes = 64 << 10
	// framingFactor is how much more than its headers and body an answer may
	// weigh on the wire: TLS records, chunks and frames of a few bytes each.
	framingFactor = 8
)

// errSentTooMuch ends a connection on which the peer sent more than its attempts
// account for: a flood of records, pings, settings or resets.
var errSentTooMuch = errors.New("the receiver sent far more than an answer")

// meteredConn is a TCP connection from which no more is read than was granted
// (E5). It bounds what every layer above it can be made to work through, on
// connections that are idle too.
type meteredConn struct {
	*net.TCPConn
	left atomic.Int64 // bytes that may still be read
}

func newMetered(conn *net.TCPConn) *meteredConn {
	m := &meteredConn{TCPConn: conn}
	m.left.Store(handshakeBytes)
	return m
}

// grant permits n more bytes to be read.
func (m *meteredConn) grant(n int64) { m.left.Add(n) }

func (m *meteredConn) Read(p []byte) (int, error) {
	left := m.left.Load()
	if left <= 0 {
		return 0, errSentTooMuch
	}
	n, err := m.TCPConn.Read(p[:min(int64(len(p)), left)])
	m.left.Add(-int64(n))
	return n, err
}

// answerBytes is what one attempt may make us read.
func (cfg *Config) answerBytes() int64 {
	return framingFactor*int64(maxHeaderBytes+cfg.MaxBodyBytes) + handshakeBytes
}
