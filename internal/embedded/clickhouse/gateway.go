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
	connectionsMax = 120             // per port: in all fewer than the server's max_connections, 256
	dialMax        = 5 * time.Second // to get a connection to the server
	refusedMax     = time.Second     // time for a client to read its rejection
	// descriptorShare is the share of one port. Each connection uses two descriptors, one for the
	// client and one for the server.
	descriptorShare = 1.0 / 64
)

// handshake reads a client's first data. If it returns an error, the connection is closed without a
// response.
type handshake func(client io.Reader) (opening, error)

type opening struct {
	said    []byte // everything that was read, to be passed on to the server
	refusal []byte // response to a client that is rejected
	proven  bool   // the client has sent a password, so other connections cannot replace it
}

// gatewayPort relays a listener's connections to a server.
//
// The embedded server is `clickhouse local`, which was not made for clients: any exception in the
// handling of a connection ends the process. Exceptions are caused by a wrong password on the
// native port, by bytes that aren't its protocol, and by connection resets, which happen whenever a
// client closes with an unread response. So clients talk to the gateway:
//
//   - It rejects native logins itself, in the server's own protocol.
//   - However a client disconnects, the server sees an orderly end of input. The rest of the
//     server's response is read to its end and discarded.
//   - The number of connections is limited, and so are the size and time of the first packet or
//     request header. New connections replace those that have not sent a password (package
//     ingress). The server's connection to a replaced client lives on until its response has ended,
//     so those are limited too: with more than max_connections, the server exits.
//
// It doesn't read a client's later data (on Linux the kernel copies it, splice(2)). HTTP is passed
// on unchanged, even with wrong passwords, because rejecting those causes no exceptions.
type gatewayPort struct {
	listener  *ingress.Listener
	server    string
	handshake handshake
	left      func(port int) // called when a client has left, with the port that the server sees
	work      sync.WaitGroup
	relays    chan struct{}   // holds one for each connection to the server
	ending    context.Context // ends with drain
	end       context.CancelFunc

	mu       sync.Mutex
	draining bool
	open     map[*net.TCPConn]*net.TCPConn // connections to the server (or nil) by client
}

// serveGateway relays the connections of a TCP listener to a server's address until drain. It takes
// ownership of the listener.
func serveGateway(
	l net.Listener, server string, first handshake, left func(port int),
) *gatewayPort {
	p := &gatewayPort{
		listener: ingress.Listen(l, ingress.Config{
			Max:           connectionsMax,
			MaxPerAddress: connectionsMax,
			Share:         descriptorShare,
		}),
		server:    server,
		handshake: first,
		left:      left,
		relays:    make(chan struct{}, connectionsMax),
		open:      make(map[*net.TCPConn]*net.TCPConn),
	}
	p.ending, p.end = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p
}

func (p *gatewayPort) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.work.Go(func() {
			defer conn.Close()
			p.relay(conn.(*ingress.Conn))
		})
	}
}

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
	p.join(conn, first.said)
}

// join forwards the client's first data, and then everything in both directions. It waits while the
// server has connectionsMax connections, but not for long, and not for a client that was replaced.
func (p *gatewayPort) join(from *ingress.Conn, said []byte) {
	client := from.Conn.(*net.TCPConn)
	ctx, cancel := context.WithTimeout(p.ending, dialMax)
	defer cancel()
	select {
	case p.relays <- struct{}{}:
		defer func() { <-p.relays }()
	case <-from.Gone():
		return
	case <-ctx.Done():
		return
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.server)
	if err != nil {
		return // the server is being restarted
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
		if p.left != nil {
			p.left(server.LocalAddr().(*net.TCPAddr).Port)
		}
	})
	_, _ = io.Copy(client, server)
	// Even if the client has disconnected, the server's response is read to its end, because closing
	// earlier would reset the connection.
	_, _ = io.Copy(io.Discard, server)
	_ = client.CloseWrite()
	_ = client.SetReadDeadline(time.Now())
	up.Wait()
}

// refuse sends a response and gives the client time to read it. Closing a connection with unread
// input would discard the response.
func refuse(client *net.TCPConn, answer []byte) {
	_ = client.SetDeadline(time.Now().Add(refusedMax))
	if _, err := client.Write(answer); err != nil {
		return
	}
	_ = client.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(client, openingBytesMax))
}

// drain stops accepting clients and half-closes the connections to the server, so that it can exit
// cleanly.
func (p *gatewayPort) drain() {
	p.listener.Close()
	p.end()
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

// close closes the remaining connections after the server has exited, and waits until all are
// closed.
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
