package clickhouse

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// heldServer answers no connection until it is released.
type heldServer struct {
	net.Listener
	released  chan struct{}
	all       sync.WaitGroup
	open, top atomic.Int64
}

func (s *heldServer) serve() {
	for {
		conn, err := s.Accept()
		if err != nil {
			return
		}
		if n := s.open.Add(1); n > s.top.Load() {
			s.top.Store(n) // only this goroutine stores it
		}
		s.all.Go(func() {
			defer s.open.Add(-1)
			defer conn.Close()
			<-s.released
			if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			}
		})
	}
}

func newHeldServer(t *testing.T) *heldServer {
	t.Helper()
	s := &heldServer{Listener: loopback(t), released: make(chan struct{})}
	s.all.Go(s.serve)
	return s
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a request without a password.
func ask(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Server connections of clients that were replaced stay open and count toward the limit. Clients
// that wait for a connection stop waiting when they are replaced or the port closes.
func TestReplacedClientsCountAtTheServer(t *testing.T) {
	const clients = 4 * connectionsMax
	s := newHeldServer(t)
	outer := loopback(t)
	nobody := func(string, string) bool { return false }
	p := serveGateway(outer, s.Addr().String(), httpHandshake(nobody), nil)
	for range clients {
		defer ask(t, outer.Addr().String()).Close()
	}
	testkit.Eventually(t, "replaced clients leave", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return s.open.Load() > 0 && len(p.open) <= 2*connectionsMax
	})
	close(s.released)
	late := ask(t, outer.Addr().String())
	defer late.Close()
	if line, err := bufio.NewReader(late).ReadString('\n'); !strings.Contains(line, "204") {
		t.Errorf("a late client got %q, %v", line, err)
	}
	if n := s.top.Load(); n > connectionsMax {
		t.Errorf("the server had %d connections", n)
	}
	p.close()
	s.Close()
	s.all.Wait()
}

// Closing the port must not wait for a server that holds all connections.
func TestThePortClosesWhileClientsWait(t *testing.T) {
	s := newHeldServer(t)
	outer := loopback(t)
	everyone := func(string, string) bool { return true }
	p := serveGateway(outer, s.Addr().String(), httpHandshake(everyone), nil)
	for range connectionsMax {
		p.relays <- struct{}{}
	}
	waiting := ask(t, outer.Addr().String())
	defer waiting.Close()
	testkit.Eventually(t, "the client waits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.open) == 1
	})
	began := time.Now()
	p.close()
	if took := time.Since(began); took > dialMax/2 {
		t.Errorf("it took %s", took)
	}
	if s.top.Load() != 0 {
		t.Error("the client has a connection to the server")
	}
	s.Close()
	s.all.Wait()
}

// However many clients leave, only one statement runs at a time. The next statement covers all
// clients that left in the meantime.
func TestClientsThatLeaveShareAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 100
		statements := make(chan []string)
		k := &killer{kill: func(ports []string) { statements <- ports }}
		var all sync.WaitGroup
		for port := range clients {
			all.Go(func() { k.left(port) })
			synctest.Wait()
		}
		if first, second := <-statements, <-statements; len(first) != 1 || len(second) != clients-1 {
			t.Errorf("two statements have %d and %d ports", len(first), len(second))
		}
		all.Wait()
		all.Go(func() { k.left(clients) })
		if last := <-statements; len(last) != 1 {
			t.Errorf("a later one has %d", len(last))
		}
		all.Wait()
	})
}
