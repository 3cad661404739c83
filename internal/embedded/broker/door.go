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

// door is the cluster's listener. It accepts network connections, which are limited and may have to
// log in, and in-process connections. Accept blocks until open is closed, because requests must not
// be handled before the hooks are installed.
type door struct {
	*ingress.Listener
	open   chan struct{}
	within chan net.Conn // in-process connections
	came   chan net.Conn // network connections
	once   sync.Once
	closed chan struct{}
	login  bool         // network connections must log in
	lost   *atomic.Bool // some data could not be written
	disk   *disk        // syncs before responses if set; assigned before open is closed
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

func (d *door) listen() {
	for {
		conn, err := d.Listener.Accept()
		if err != nil {
			return // closed
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

// settled makes a connection's responses wait for the disk, and fail once a write was lost.
func (d *door) settled(conn net.Conn) net.Conn {
	return settledConn{Conn: conn, disk: d.disk, lost: d.lost}
}

// settledConn is a connection that only sends responses whose data is stored.
type settledConn struct {
	net.Conn
	disk *disk
	lost *atomic.Bool
}

// Write sends a response.
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

var errLost = errors.New("the embedded broker could not write to its disk, and so it stops")

// Close stops accepting connections.
func (d *door) Close() error {
	d.once.Do(func() { close(d.closed) })
	return d.Listener.Close()
}

func (d *door) dial(ctx context.Context) (net.Conn, error) {
	if d.lost.Load() { // a connection would end at once, which looks like missing TLS
		return nil, d.refused(errLost)
	}
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

// refused returns the error of dialing a broker that isn't listening, which clients retry.
func (d *door) refused(why error) error {
	return &net.OpError{Op: "dial", Net: d.Addr().Network(), Addr: d.Addr(), Err: why}
}
