package egress

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
)

const (
	// handshakeBytes is how much a connection may receive until it is ready for a request:
	// certificate chains are most of it, usually 3 to 20 KiB.
	handshakeBytes = 64 << 10
	// framingFactor is how much larger an answer may be on the wire than its headers and
	// body: TLS records, chunks and frames of a few bytes each.
	framingFactor = 8
)

// errSentTooMuch ends a connection on which the peer sent far more than its attempts'
// answers: a flood of records, pings, settings or resets.
var errSentTooMuch = errors.New("the receiver sent far more than an answer")

// meteredConn is a TCP connection from which no more is read than was granted (E6). It
// bounds the work of every layer above it, on idle connections too.
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

// answerBytes is how much may be read for one attempt.
func (cfg *Config) answerBytes() int64 {
	return framingFactor*int64(maxHeaderBytes+cfg.MaxBodyBytes) + handshakeBytes
}

// readChunkBytes is the size of a read; most answers fit in one.
const readChunkBytes = 4 << 10

// readBody reads at most max bytes of a body and keeps the first stored of them. tooLarge
// means that there is more than max, or that the bytes on the wire far exceed those of the
// body; the rest is left unread.
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
		case errors.Is(err, errSentTooMuch): // in frames of a byte or two
			return kept, true, nil
		case err != nil:
			return kept, false, err
		}
	}
}
