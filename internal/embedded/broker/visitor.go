package broker

import (
	"encoding/binary"
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	maxConns        = 1024
	loginMax        = 10 * time.Second // to connect and log in
	loginBytesMax   = 64 << 10         // maximum request size before the login
	requestBytesMax = 100 << 20        // after it: Kafka's socket.request.max.bytes

	sizeBytes  = 4             // size prefix of a request
	startBytes = sizeBytes + 2 // size prefix and API key
	leastBytes = 2 + 2 + 4     // minimum request: key, version and correlation id
)

var errRequest = errors.New("broker: malformed or oversized request, or request before the login")

// visitor is a connection from the network. It checks the start of each request before kfake sees
// it, because kfake allocates as much memory as the request's size field says, and an unknown key
// makes it crash.
type visitor struct {
	*ingress.Conn
	in     atomic.Bool // logged in
	asked  chan int16  // keys of pending requests before the login
	proven int         // responses to SASLAuthenticate

	start [startBytes]byte // first bytes of the current request
	begun int
	left  int // remaining bytes of the request
}

// newVisitor limits the time to log in, if a login is required.
func newVisitor(conn *ingress.Conn, login bool) net.Conn {
	v := &visitor{Conn: conn, asked: make(chan int16, 2)} // kfake reads one request ahead
	if !login {
		v.letIn()
		return v
	}
	_ = conn.SetDeadline(time.Now().Add(loginMax))
	return v
}

// letIn lifts the time limit and marks the connection busy, so that a new connection cannot replace
// it.
func (v *visitor) letIn() {
	v.in.Store(true)
	_ = v.SetDeadline(time.Time{})
	v.Busy(true)
}

func (v *visitor) Read(p []byte) (int, error) {
	n, err := v.Conn.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		if v.begun == startBytes && v.left > 0 {
			skipped := min(v.left, len(rest))
			v.left, rest = v.left-skipped, rest[skipped:]
			continue
		}
		v.begun %= startBytes
		v.start[v.begun] = rest[0]
		v.begun, rest = v.begun+1, rest[1:]
		if !v.allowed() {
			return 0, errors.Join(errRequest, v.Close())
		}
	}
	return n, err
}

func (v *visitor) allowed() bool {
	switch v.begun {
	case sizeBytes:
		most := uint32(requestBytesMax)
		if !v.in.Load() {
			most = loginBytesMax
		}
		size := binary.BigEndian.Uint32(v.start[:])
		v.left = int(size) - (startBytes - sizeBytes)
		return leastBytes <= size && size <= most
	case startBytes:
		key := int16(binary.BigEndian.Uint16(v.start[sizeBytes:])) // #nosec G115 -- a key is signed
		return kmsg.RequestForKey(key) != nil && (v.in.Load() || v.ask(key))
	}
	return true
}

// ask records a request before the login, and reports whether it is allowed.
func (v *visitor) ask(key int16) bool {
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
	default:
		return false
	}
	select {
	case v.asked <- key:
		return true
	default:
		return false
	}
}

// Write sends a response. kfake sends a connection's responses in order and closes the connection
// if the login fails, so the second SASLAuthenticate response of SCRAM means that the login has
// succeeded.
func (v *visitor) Write(p []byte) (int, error) {
	if !v.in.Load() && kmsg.Key(<-v.asked) == kmsg.SASLAuthenticate {
		if v.proven++; v.proven == 2 {
			v.letIn() // before the client knows
		}
	}
	return v.Conn.Write(p)
}
