package broker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// streamBytes is the capacity of each direction of an in-process connection, similar to that of
// socket buffers on the loopback interface.
const streamBytes = 64 << 10

// Dial opens an in-process connection to the broker and ignores the address. This saves system
// calls. It also reduces latency while all processors are busy, because Go polls sockets only when
// it has nothing else to run.
func (b *Broker) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	return b.door.dial(ctx)
}

// pipe returns the two ends of an in-process connection. Both have the same address.
func pipe(address net.Addr) (client, server *memoryConn) {
	there, back := newStream(), newStream()
	return &memoryConn{in: back, out: there, address: address},
		&memoryConn{in: there, out: back, address: address}
}

// memoryConn is one end of an in-process connection. As with TCP, data written before the other end
// closed can still be read.
type memoryConn struct {
	in, out *stream
	address net.Addr
}

func (c *memoryConn) Read(p []byte) (int, error) {
	n, err := c.in.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
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
	c.in.change(func() { c.in.noReader, c.in.buffer = true, bytes.Buffer{} })
	c.out.change(func() { c.out.noWriter = true })
	return nil
}

// LocalAddr returns the broker's address.
func (c *memoryConn) LocalAddr() net.Addr { return c.address }

// RemoteAddr returns the broker's address.
func (c *memoryConn) RemoteAddr() net.Addr { return c.address }

// SetDeadline sets both deadlines.
func (c *memoryConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline for reads. The zero time means no deadline.
func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.readBy = t })
	return nil
}

// SetWriteDeadline sets the deadline for writes. The zero time means no deadline.
func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.writeBy = t })
	return nil
}

// stream is one direction of a connection, with a buffer of at most streamBytes.
type stream struct {
	mu      sync.Mutex
	changed sync.Cond // broadcast on every change
	alarm   *time.Timer
	buffer  bytes.Buffer

	readBy, writeBy time.Time // deadlines; zero means none
	noReader        bool
	noWriter        bool
}

func newStream() *stream {
	s := new(stream)
	s.changed.L = &s.mu
	// The alarm may fire late if a deadline was changed. Waiters check the deadline themselves.
	s.alarm = time.AfterFunc(time.Hour, func() { s.change(func() {}) })
	s.alarm.Stop()
	return s
}

func (s *stream) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	s.changed.Broadcast()
}

func passed(deadline time.Time) bool { return !deadline.IsZero() && time.Until(deadline) <= 0 }

// wait waits for a change or the deadline. Only waiters set the timer: most writes, and reads of
// available data, don't need it.
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
		case s.buffer.Len() > 0:
			s.changed.Broadcast()
			return s.buffer.Read(p)
		case s.noWriter:
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		s.wait(&s.readBy)
	}
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
		if n := min(len(p)-written, streamBytes-s.buffer.Len()); n > 0 {
			s.buffer.Write(p[written : written+n])
			written += n
			s.changed.Broadcast()
		}
		if written == len(p) {
			return written, nil
		}
		s.wait(&s.writeBy)
	}
}
