package clickhouse

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

const (
	connectionsMax = 120 // of a port: both together stay below the server's max_connections, 256
	dialMax        = 5 * time.Second
	refusedMax     = time.Second // for a client to take its refusal
	acceptPause    = 10 * time.Millisecond
)

// handshake reads what a client says first. It returns all that it read, which is then passed on
// to the server, or an answer for a client that is refused; an error ends the connection without
// one.
type handshake func(client io.Reader) (said, refusal []byte, err error)

// gatewayPort relays the connections of a listener to a server.
//
// `clickhouse local`, which the embedded server is, was not made for clients: any exception in the
// handling of a connection ends the whole process. A refused password on the native port is such an
// exception, bytes that are not its protocol, and a connection that is reset, as every client does
// that closes with an answer half read. So clients talk to the gateway:
//
//   - It refuses a native login itself, in the protocol's own words.
//   - The server sees a client that leaves, however it does, as an orderly end of input. What the
//     server still answers is read to its end and dropped.
//   - Connections are bounded in number, and the first packet in bytes and time.
//
// It does not read what a logged-in client sends (on Linux the kernel copies it, splice(2)). HTTP
// is passed on as it is: its refusals are answers, not exceptions.
type gatewayPort struct {
	listener  net.Listener
	server    string
	handshake handshake
	slots     chan struct{}
	work      sync.WaitGroup

	mu       sync.Mutex
	draining bool
	open     map[*net.TCPConn]*net.TCPConn // clients, and the connections to the server
}

// serveGateway relays what comes to a TCP listener, of which it becomes the owner, to a server's
// address, until drain. Without a handshake everybody is let in.
func serveGateway(l net.Listener, server string, first handshake) *gatewayPort {
	p := &gatewayPort{
		listener:  l,
		server:    server,
		handshake: first,
		slots:     make(chan struct{}, connectionsMax),
		open:      make(map[*net.TCPConn]*net.TCPConn),
	}
	p.work.Go(p.accept)
	return p
}

func (p *gatewayPort) accept() {
	for {
		p.slots <- struct{}{}
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		client, isTCP := conn.(*net.TCPConn)
		if err != nil || !isTCP {
			<-p.slots
			<-time.After(acceptPause) // such as no file left to open
			continue
		}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			p.relay(client)
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

func (p *gatewayPort) relay(client *net.TCPConn) {
	defer client.Close()
	defer p.forget(client)
	if !p.remember(client, nil) {
		return
	}
	var said []byte
	if p.handshake != nil {
		var refusal []byte
		var err error
		_ = client.SetReadDeadline(time.Now().Add(openingMax))
		if said, refusal, err = p.handshake(client); err != nil {
			return
		}
		if refusal != nil {
			refuse(client, refusal)
			return
		}
		_ = client.SetReadDeadline(time.Time{})
	}
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
	// A client that left does not end the reading: what the server still says is read to its
	// end, as closing before would reset the connection.
	_, _ = io.Copy(io.Discard, server)
	_ = client.CloseWrite()
	_ = client.SetReadDeadline(time.Now())
	up.Wait()
}

// refuse answers, and gives the client the time to read it: closing with unread bytes would
// take the answer away.
func refuse(client *net.TCPConn, answer []byte) {
	_ = client.SetDeadline(time.Now().Add(refusedMax))
	if _, err := client.Write(answer); err != nil {
		return
	}
	_ = client.CloseWrite()
	_, _ = io.Copy(io.Discard, io.LimitReader(client, openingBytesMax))
}

// drain accepts no further clients and tells the server that those it has will say nothing more,
// so that it can end in order.
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

// close ends what is left, once the server is gone, and returns when nothing is.
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
