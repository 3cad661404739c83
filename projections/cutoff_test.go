package projections_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/projections/history"
	"github.com/lumenhook/lumenhook/projections/readmodel"
	"github.com/lumenhook/lumenhook/projections/writer"
)

// path is a proxy between a client and a server. A dead connection stays open but delivers no
// more responses, as if the host behind it had disappeared.
type path struct {
	mu    sync.Mutex
	dead  map[net.Conn]bool
	given []net.Conn // connections to clients
	to    string
	reset int // number of connections to reset instead of forwarding them
}

func newPath(t *testing.T, to string) (p *path, addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p = &path{dead: make(map[net.Conn]bool), to: to}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		for _, c := range p.given {
			c.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			p.given = append(p.given, client)
			p.mu.Unlock()
			serving.Go(func() { p.join(client) })
		}
	})
	return p, listener.Addr().String()
}

func (p *path) join(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	reset := p.reset > 0
	p.reset--
	p.mu.Unlock()
	if reset {
		_ = client.(*net.TCPConn).SetLinger(0)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, client)
		server.Close()
	}()
	_, _ = io.Copy(answers{client, p}, server)
}

// answers drops data that is sent to a client over a dead connection.
type answers struct {
	client net.Conn
	path   *path
}

func (a answers) Write(b []byte) (int, error) {
	a.path.mu.Lock()
	dead := a.path.dead[a.client]
	a.path.mu.Unlock()
	if dead {
		return len(b), nil
	}
	return a.client.Write(b)
}

// deaden makes all connections dead and returns their number.
func (p *path) deaden() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.given {
		p.dead[c] = true
	}
	return len(p.given)
}

// A dead connection may delay a lookup, but must not make it fail.
func TestALookUpThatIsCutOffIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.project(nil)
	s := newStory(1)
	r.append(s.created(1), s.delivered(1, 1))
	r.awaitProjected()
	native, err := url.Parse(r.dsn)
	must(t, err)
	path, addr := newPath(t, native.Host)
	native.Host = addr
	for name, ask := range map[string]func(*history.History) error{
		"an event": func(h *history.History) error {
			_, err := h.Event(t.Context(), testAccount, s.eventID(1))
			return err
		},
		"a list": func(h *history.History) error {
			_, _, err := h.Events(t.Context(), readmodel.EventFilter{AccountID: testAccount}, nil, 1)
			return err
		},
	} {
		db := r.open(native.String())
		h := r.historyOf(db, eventualMax, readMax/15)
		must(t, h.CatchUp(t.Context())) // over the first connection
		if path.deaden() == 0 {
			t.Fatal("there is no connection")
		}
		if err := ask(h); err != nil {
			t.Errorf("%s is asked for over a dead connection: %v", name, err)
		}
	}
}

// ClickHouse may reopen its ports soon after its start. This resets waiting connections, so
// queries must be retried.
func TestAServerThatResetsItsFirstConnections(t *testing.T) {
	r := newRig(t)
	u, err := url.Parse(r.dsn)
	must(t, err)
	path, addr := newPath(t, u.Host)
	u.Host = addr
	path.mu.Lock()
	path.reset = 2
	path.mu.Unlock()
	db := r.open(u.String())
	must(t, writer.Migrate(t.Context(), db))
	path.mu.Lock()
	defer path.mu.Unlock()
	if len(path.given) < 3 {
		t.Errorf("%d connections were made", len(path.given))
	}
}
