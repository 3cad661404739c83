package clickhouse

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/ingress"
)

const (
	connectionsMax = 120 // of a port: both together stay below the server's max_connections, 256
	dialMax        = 5 * time.Second
	refusedMax     = time.Second // for a client to read its refusal
	// descriptorShare is for one port. A connection has two descriptors, its client's and the one
	// to the server.
	descriptorShare = 1.0 / 64
)

// handshake reads a client's first data. An error ends the connection without an answer.
type handshake func(client io.Reader) (opening, error)

// opening is a client's first data.
type opening struct {
	said    []byte // all that was read, which is passed on to the server
	refusal []byte // the answer to a client that is refused
	proven  bool   // with a password: the connection is not replaced by others
}

// gatewayPort relays the connections of a listener to a server.
//
// `clickhouse local`, which the embedded server is, was not made for clients: any exception in the
// handling of a connection ends the whole process. Such exceptions are a refused password on the
// native port, bytes that are not its protocol, and a connection reset, as from every client that
// closes with an unread answer. So clients talk to the gateway:
//
//   - It refuses a native login itself, in the server's own protocol.
//   - The server sees a client that leaves, in whatever way, as an orderly end of input. The rest
//     of the server's answer is read to its end and dropped.
//   - Connections are bounded in number, and the first packet or request header in bytes and time.
//     New connections replace those that have sent no password (package ingress).
//
// It does not read later data of a client (on Linux the kernel copies it, splice(2)). HTTP is
// passed on unchanged, even with wrong passwords: its refusals are answers, not exceptions.
type gatewayPort struct {
	listener  *ingress.Listener
	server    string
	handshake handshake
	work      sync.WaitGroup

	mu       sync.Mutex
	draining bool
	open     map[*net.TCPConn]*net.TCPConn // clients, and the connections to the server
}

// serveGateway relays the connections of a TCP listener, which it owns from then on, to a server's
// address, until drain.
func serveGateway(l net.Listener, server string, first handshake) *gatewayPort {
	p := &gatewayPort{
		listener: ingress.Listen(l, ingress.Config{
			Max:           connectionsMax,
			MaxPerAddress: connectionsMax,
			Share:         descriptorShare,
		}),
		server:    server,
		handshake: first,
		open:      make(map[*net.TCPConn]*net.TCPConn),
	}
	p.work.Go(p.accept)
	return p
}

func (p *gatewayPort) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // it is closed
		}
		p.work.Go(func() {
			defer conn.Close()
			p.relay(conn.(*ingress.Conn))
		})
	}
}

// remember notes a client and, once there is one, its connection to the server. It is false when
// the port is draining.
func (p *gatewayPort) remember(client, server *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.draining {
		p.open[client] = server
	}
	return !p.draining
}

func (p *gatewayPort) forget(client *net.TCPConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, client)
}

func (p *gatewayPort) relay(conn *ingress.Conn) {
	client := conn.Conn.(*net.TCPConn)
	defer p.forget(client)
	if !p.remember(client, nil) {
		return
	}
	_ = client.SetReadDeadline(time.Now().Add(openingMax))
	first, err := p.handshake(client)
	if err != nil {
		return
	}
	if first.refusal != nil {
		refuse(client, first.refusal)
		return
	}
	conn.Busy(first.proven)
	_ = client.SetReadDeadline(time.Time{})
	p.join(client, first.said)
}

// join forwards the client's first data, and then everything between the client and the server.
func (p *gatewayPort) join(client *net.TCPConn, said []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), dialMax)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return // it is being started again
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	if !p.remember(client, server) {
		return
	}
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := server.Write(said); err == nil {
			_, _ = io.Copy(server, client)
		}
		_ = server.CloseWrite()
	})
	_, _ = io.Copy(client, server)
	// A client that left does not end the reading: the rest of the server's answer is read to its
	// end, because closing earlier would reset the connection.
	_, _ = io.Copy(io.Discard, server)
	_ = client.CloseWrite()
	_ = client.SetReadDeadline(time.Now())
	up.Wait()
}

// refuse answers, and gives the client time to read the answer: closing with unread bytes would
// discard it.
func refuse(client *net.TCPConn, answer []byte) {
	_ = client.SetDeadline(time.Now().Add(refusedMax))
	if _, err := client.Write(answer); err != nil {
		return
	}
	_ = client.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(client, openingBytesMax))
}

// drain accepts no more clients and half-closes the existing connections to the server, so that it
// can end cleanly.
func (p *gatewayPort) drain() {
	p.listener.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draining = true
	for client, server := range p.open {
		if server == nil {
			client.Close()
		} else {
			_ = server.CloseWrite()
		}
	}
}

// close closes the remaining connections after the server is gone, and returns when all are closed.
func (p *gatewayPort) close() {
	p.drain()
	p.mu.Lock()
	for client, server := range p.open {
		client.Close()
		if server != nil {
			server.Close()
		}
	}
	p.mu.Unlock()
	p.work.Wait()
}
