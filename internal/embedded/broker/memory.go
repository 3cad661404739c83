package broker

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// streamBytes is the capacity of one direction of an in-process connection: about that of a
// socket's buffers on the loopback interface.
const streamBytes = 64 << 10

// Dial connects a client of this process, whatever address it was given, without a socket. This
// saves the system calls and, while all processors are busy, latency: Go polls sockets only when it
// has nothing else to run.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return b.door.dial(ctx)
}

// pipe makes the two ends of a connection within the process. Both say that they are at address.
func pipe(address net.Addr) (client, server *memoryConn) {
	there, back := newStream(), newStream()
	return &memoryConn{in: back, out: there, address: address},
		&memoryConn{in: there, out: back, address: address}
}

// memoryConn is one end of an in-process connection. It behaves like a TCP connection: data that
// was written before the other end closed can still be read.
type memoryConn struct {
	in, out *stream
	address net.Addr
}

func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // as it is: readers compare it
		err = c.fault("read", err)
	}
	return n, err
}

func (c *memoryConn) Write(p []byte) (int, error) {
	n, err := c.out.write(p)
	if err != nil {
		err = c.fault("write", err)
	}
	return n, err
}

func (c *memoryConn) fault(op string, err error) error {
	return &net.OpError{Op: op, Net: c.address.Network(), Addr: c.address, Err: err}
}

// Close closes both directions.
func (c *memoryConn) Close() error {
	c.in.closeReading()
	c.out.closeWriting()
	return nil
}

// LocalAddr is the broker's address.
func (c *memoryConn) LocalAddr() net.Addr { return c.address }

// RemoteAddr is the broker's address.
func (c *memoryConn) RemoteAddr() net.Addr { return c.address }

// SetDeadline sets both deadlines.
func (c *memoryConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline ends reads that wait at that time; zero: none.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.limit(&c.in.readBy, t)
	return nil
}

// SetWriteDeadline ends writes that wait at that time; zero: none.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.limit(&c.out.writeBy, t)
	return nil
}

// stream is one direction of a connection: a ring of bytes.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond // signals every change
	alarm   *time.Timer
	ring    []byte // made by the first write
	first   int    // of the bytes that can be read
	used    int    // how many they are

	readBy, writeBy time.Time // deadlines; zero: none
	noReader        bool      // the reading end is closed
	noWriter        bool      // the writing end is closed
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	s.alarm = time.AfterFunc(time.Hour, s.wake)
	s.alarm.Stop()
	return s
}

// wake wakes all waiters. It may come late if a deadline was reset: waiters check the deadline
// themselves.
func (s *stream) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}

// limit sets a deadline.
func (s *stream) limit(deadline *time.Time, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*deadline = to
	s.changed.Broadcast()
}

// passed reports whether a deadline has.
func passed(deadline time.Time) bool { return !deadline.IsZero() && time.Until(deadline) <= 0 }

// wait waits for a change, or until the deadline. Only a waiter sets the timer: most writes, and
// reads of available data, do not need it.
func (s *stream) wait(by *time.Time) {
	if !by.IsZero() {
		s.alarm.Reset(time.Until(*by))
	}
	s.changed.Wait()
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.noReader:
			return 0, net.ErrClosed
		case passed(s.readBy):
			return 0, os.ErrDeadlineExceeded
		case s.used > 0:
			return s.take(p), nil
		case s.noWriter:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.wait(&s.readBy)
	}
}

// take takes bytes out of the ring.
func (s *stream) take(p []byte) int {
	n := copy(p, s.ring[s.first:min(s.first+s.used, len(s.ring))])
	s.first = (s.first + n) % len(s.ring)
	s.used -= n
	if s.used == 0 {
		s.first = 0 // so that the next piece is contiguous
	}
	s.changed.Broadcast()
	return n
}

func (s *stream) write(p []byte) (written int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.noWriter:
			return written, net.ErrClosed
		case passed(s.writeBy):
			return written, os.ErrDeadlineExceeded
		case s.noReader:
			return written, os.NewSyscallError("write", syscall.EPIPE)
		}
		written += s.put(p[written:])
		if written == len(p) {
			return written, nil
		}
		s.wait(&s.writeBy)
	}
}

// put puts as many bytes into the ring as there is room for.
func (s *stream) put(p []byte) (n int) {
	if s.ring == nil {
		s.ring = make([]byte, streamBytes)
	}
	for n < len(p) && s.used < len(s.ring) {
		end := (s.first + s.used) % len(s.ring)
		more := copy(s.ring[end:min(end+len(s.ring)-s.used, len(s.ring))], p[n:])
		n += more
		s.used += more
	}
	if n > 0 {
		s.changed.Broadcast()
	}
	return n
}

func (s *stream) closeReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noReader, s.ring, s.used = true, nil, 0
	s.changed.Broadcast()
}

func (s *stream) closeWriting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noWriter = true
	s.changed.Broadcast()
}
