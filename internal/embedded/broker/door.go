package broker

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// door is the listener that the cluster is given: it accepts who comes by the network, and
// clients of this process. Nobody is let in before it is opened: requests before the hooks are in
// place would be handled without them.
type door struct {
	net.Listener
	open   chan struct{}
	within chan net.Conn // of this process
	came   chan accepted // by the network
	once   sync.Once
	closed chan struct{}
	lost   *atomic.Bool // something could not be written
	disk   *disk        // what answers wait for; nil: nothing; set before it is opened
}

type accepted struct {
	conn net.Conn
	err  error
}

func newDoor(l net.Listener, lost *atomic.Bool) *door {
	d := &door{
		Listener: l,
		open:     make(chan struct{}),
		within:   make(chan net.Conn),
		came:     make(chan accepted),
		closed:   make(chan struct{}),
		lost:     lost,
	}
	go d.listen()
	return d
}

// listen hands over who comes by the network, until the listener is closed.
func (d *door) listen() {
	for {
		conn, err := d.Listener.Accept()
		select {
		case d.came <- accepted{conn, err}:
		case <-d.closed:
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			return
		}
	}
}

// Accept returns the next connection.
func (d *door) Accept() (net.Conn, error) {
	<-d.open
	select {
	case conn := <-d.within:
		return d.settled(conn), nil
	case a := <-d.came:
		if a.err != nil {
			return nil, a.err
		}
		return d.settled(a.conn), nil
	case <-d.closed:
		return nil, net.ErrClosed
	}
}

// settled has a connection's answers wait for the disk, and end once something could not be
// written.
func (d *door) settled(conn net.Conn) net.Conn {
	return settledConn{Conn: conn, disk: d.disk, lost: d.lost}
}

// settledConn is a connection of which each answer is right.
type settledConn struct {
	net.Conn
	disk *disk
	lost *atomic.Bool
}

// Write writes an answer.
func (c settledConn) Write(p []byte) (int, error) {
	var err error
	if c.disk != nil {
		err = c.disk.settle()
	}
	if c.lost.Load() {
		err = errors.Join(err, errLost)
	}
	if err != nil {
		return 0, errors.Join(err, c.Close())
	}
	return c.Conn.Write(p)
}

var errLost = errors.New("broker: something could not be written before")

// Close lets nobody in any more.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

// dial connects a client of this process.
func (d *door) dial(ctx context.Context) (net.Conn, error) {
	client, server := pipe(d.Addr())
	select {
	case d.within <- server:
		return client, nil
	case <-d.closed:
		return nil, d.refused(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	case <-ctx.Done():
		return nil, d.refused(ctx.Err())
	}
}

// refused is the error of a broker's address where nobody listens: clients try that again.
func (d *door) refused(why error) error {
	return &net.OpError{Op: "dial", Net: d.Addr().Network(), Addr: d.Addr(), Err: why}
}
