package broker

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

// door is the listener that the cluster is given. It accepts connections from the network, which
// are bounded and have to log in, and from clients of this process. It hands none over before it
// is opened: requests would be handled before the hooks are in place.
type door struct {
	*ingress.Listener
	open   chan struct{}
	within chan net.Conn // of this process
	came   chan net.Conn // from the network
	once   sync.Once
	closed chan struct{}
	login  bool         // connections from the network have to log in
	lost   *atomic.Bool // something could not be written
	disk   *disk        // what answers wait for; nil: nothing; set before it is opened
}

func newDoor(l net.Listener, cfg Config, lost *atomic.Bool) *door {
	d := &door{
		Listener: ingress.Listen(l, ingress.Config{
			Max:           maxConns,
			MaxPerAddress: maxConns,
			Share:         1.0 / 16,
			Log:           cfg.Logger,
		}),
		open:   make(chan struct{}),
		within: make(chan net.Conn),
		came:   make(chan net.Conn),
		closed: make(chan struct{}),
		login:  cfg.User != "",
		lost:   lost,
	}
	go d.listen()
	return d
}

// listen hands over connections from the network, until the listener is closed.
func (d *door) listen() {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return // it is closed
		}
		select {
		case d.came <- newVisitor(conn.(*ingress.Conn), d.login):
		case <-d.closed:
			_ = conn.Close()
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
	case conn := <-d.came:
		return d.settled(conn), nil
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
