//go:build unix

package egress

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// prober checks a socket without reading, and without allocating after it was created.
type prober struct {
	raw  syscall.RawConn
	look *look
}

type look struct {
	buf  [1]byte
	err  error
	peek func(fd uintptr) bool
}

func newProber(conn *net.TCPConn) (prober, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return prober{}, err
	}
	l := &look{}
	l.peek = func(fd uintptr) bool {
		_, _, l.err = unix.Recvfrom(int(fd), l.buf[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return true
	}
	return prober{raw: raw, look: l}, nil
}

// quiet reports whether the connection is open and has nothing to read: no end of stream, no reset
// and no bytes, such as a closing alert.
func (p prober) quiet() bool {
	if err := p.raw.Read(p.look.peek); err != nil {
		return false
	}
	return errors.Is(p.look.err, unix.EAGAIN) || errors.Is(p.look.err, unix.EINTR)
}
