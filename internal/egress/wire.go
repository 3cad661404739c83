package egress

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

const (
	// handshakeBytes is how much a connection may receive before it is ready for a request. Most of it
	// is the certificate chain, which usually takes 3 to 20 KiB.
	handshakeBytes = 64 << 10
	// framingFactor is how much larger a response may be on the wire than its headers and body. It
	// allows for TLS records and chunks of only a few bytes.
	framingFactor = 8
)

// errSentTooMuch ends a connection if the peer has sent far more than the responses to its
// attempts, such as a flood of records.
var errSentTooMuch = errors.New("the receiver sent far more than an answer")

// meteredConn is a TCP connection that reads only as many bytes as were granted (E6). This limits
// the work of all layers above it, even on idle connections.
type meteredConn struct {
	*net.TCPConn
	left atomic.Int64 // bytes that may still be read
}

func newMetered(conn *net.TCPConn) *meteredConn {
	m := &meteredConn{TCPConn: conn}
	m.left.Store(handshakeBytes)
	return m
}

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

func (cfg *Config) answerBytes() int64 {
	return framingFactor*int64(maxHeaderBytes+cfg.MaxBodyBytes) + handshakeBytes
}

// readChunkBytes is the size of a read. Most responses fit into one.
const readChunkBytes = 4 << 10

// readBody reads up to max bytes of a body and returns the first stored bytes. tooLarge reports
// that it is longer, or that far more bytes were sent than it contains. The rest is not read.
func readBody(body io.Reader, max, stored int) (kept []byte, tooLarge bool, err error) {
	chunk := make([]byte, readChunkBytes)
	for total := 0; ; {
		n, err := body.Read(chunk)
		total += n
		if free := stored - len(kept); free > 0 && n > 0 {
			kept = append(slices.Grow(kept, min(n, free)), chunk[:min(n, free)]...)
		}
		switch {
		case total > max:
			return kept, true, nil
		case errors.Is(err, io.EOF):
			return kept, false, nil
		case errors.Is(err, errSentTooMuch): // sent in chunks of one or two bytes
			return kept, true, nil
		case err != nil:
			return kept, false, err
		}
	}
}
