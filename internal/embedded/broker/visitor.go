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
	loginMax        = 10 * time.Second // from the connection to the end of its login
	loginBytesMax   = 64 << 10         // of a request before that
	requestBytesMax = 100 << 20        // of any other: Kafka's socket.request.max.bytes

	sizeBytes  = 4             // in front of a request
	startBytes = sizeBytes + 2 // and the key that the request starts with
	leastBytes = 2 + 2 + 4     // of a request: key, version and correlation id
)

var errRequest = errors.New("broker: a request that is malformed, too large or before the login")

// visitor is a connection from the network. It checks the start of each request before kfake sees
// it: kfake allocates as much as a request's size says, and a key that it does not know ends the
// process.
type visitor struct {
	*ingress.Conn
	in     atomic.Bool // logged in
	asked  chan int16  // keys of requests before the login that are not answered
	proven int         // answers to SASLAuthenticate

	start [startBytes]byte // of the request that is being read
	begun int              // bytes of start
	left  int              // bytes of the request after its start
}

// newVisitor gives a connection the time to log in.
func newVisitor(conn *ingress.Conn, login bool) net.Conn {
	v := &visitor{Conn: conn, asked: make(chan int16, 2)} // kfake reads one request ahead
	if !login {
		v.letIn()
		return v
	}
	_ = conn.SetDeadline(time.Now().Add(loginMax))
	return v
}

// letIn ends the time limit. From now on no other connection replaces this one.
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

// allowed checks the start of a request.
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

// ask notes a request before the login.
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

// Write writes an answer. kfake answers the requests of a connection in order, and answers a login
// that fails by closing the connection: the second answer of SCRAM's two is the end of a login.
func (v *visitor) Write(p []byte) (int, error) {
	if !v.in.Load() && kmsg.Key(<-v.asked) == kmsg.SASLAuthenticate {
		if v.proven++; v.proven == 2 {
			v.letIn() // before the client knows
		}
	}
	return v.Conn.Write(p)
}
