package egress

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// Endless responses must be cut off at their size limit, not when the attempt's time is over.
func TestHostileEndless(t *testing.T) {
	for name, k := range map[string]struct {
		first, again string
		status       int
		code         Code
	}{
		"headers": {
			"HTTP/1.1 200 OK\r\n", "X-Filler: " + strings.Repeat("a", 200) + "\r\n", 0,
			ConnRefused,
		},
		"one header":      {"HTTP/1.1 200 OK\r\nX-Filler: ", strings.Repeat("a", 200), 0, ConnRefused},
		"status line":     {"HTTP/1.1 200 ", strings.Repeat("a", 200), 0, ConnRefused},
		"interim answers": {"", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 0, ConnRefused},
		"empty lines":     {"", "\r\n", 0, ConnRefused},
		"body":            {"HTTP/1.1 200 OK\r\n\r\n", strings.Repeat("a", 200), 200, BodyTooLarge},
		"chunks of a byte": {
			"HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\na\r\n", 500,
			BodyTooLarge,
		},
		"chunk extensions": {
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1",
			";a=" + strings.Repeat("b", 200), 200, ConnRefused,
		},
		"trailers": {
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", "X-T: a\r\n", 200,
			ConnRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{}, 1)
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				defer func() { ended <- struct{}{} }()
				if _, err := readRequest(c); err != nil {
					return
				}
				_, _ = io.WriteString(c, k.first)
				for {
					if _, err := io.WriteString(c, k.again); err != nil {
						return
					}
				}
			})
			r := post(t, newClient(t, func(cfg *Config) { cfg.AttemptTimeout = time.Hour }), url)
			wantResult(t, r, k.status, k.code)
			awaitClose(t, ended)
		})
	}
}

// TestHostileResets resets the connection, instead of closing it cleanly, at each stage of the
// response.
func TestHostileResets(t *testing.T) {
	for name, answer := range map[string]string{
		"before the answer": "",
		"in the headers":    "HTTP/1.1 200 OK\r\nX-A",
		"in the body":       "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
		"in a chunk":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			url := "https://" + rawTLS(t, nil, func(c *tls.Conn) {
				if _, err := readRequest(c); err != nil {
					return
				}
				requests.Add(1)
				_, _ = io.WriteString(c, answer)
				_ = c.NetConn().(*net.TCPConn).SetLinger(0) // makes Close reset the connection
				_ = c.NetConn().Close()
			})
			r := post(t, newClient(t, nil), url)
			if r.Delivered() || r.Error != ConnRefused || requests.Load() != 1 {
				t.Errorf("%d requests, result %+v", requests.Load(), r)
			}
		})
	}
}

// A prolonged handshake must cost no more than the attempt's time. Old protocol versions are
// refused at once.
func TestHostileHandshakes(t *testing.T) {
	drip := func(c net.Conn) { // sends a server's first record endlessly, a byte at a time
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		if _, err := c.Write([]byte{22, 3, 3, 0x40, 0}); err != nil {
			return
		}
		for range tick.C {
			if _, err := c.Write([]byte{2}); err != nil {
				return
			}
		}
	}
	c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = 300 * time.Millisecond })
	r := post(t, c, "https://"+rawReceiver(t, drip))
	wantResult(t, r, 0, Timeout)
	if r.Duration < 250*time.Millisecond {
		t.Errorf("took %s", r.Duration)
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11} {
		old := &tls.Config{
			Certificates: []tls.Certificate{ca().issue(nil)},
			MinVersion:   version,
			MaxVersion:   version,
		}
		r := post(t, newClient(t, nil),
			"https://"+rawTLS(t, old, func(*tls.Conn) { t.Error("a handshake of an old TLS ended well") }))
		wantResult(t, r, 0, TLS)
	}
	alerts := func(c net.Conn) { // endless warnings
		for {
			if _, err := c.Write([]byte{21, 3, 3, 0, 2, 1, 112}); err != nil {
				return
			}
		}
	}
	wantResult(t, post(t, newClient(t, nil), "https://"+rawReceiver(t, alerts)), 0, TLS)
}

// farm runs thousands of hostile receivers on few goroutines. It brings each connection to its most
// expensive point and keeps it there. Floods start on command.
type farm struct {
	cfg      *tls.Config
	accepted chan net.Conn
	held     atomic.Int32 // number of connections that keep an attempt waiting

	mu    sync.Mutex
	conns []net.Conn
	drips []net.Conn
	flood []flood
}

type flood struct {
	conn net.Conn
	text string
}

// farmKinds maps request paths to a receiver's behavior: the start of its response, then its flood.
var farmKinds = map[string]struct{ first, flood string }{
	"/silent":  {"", ""},
	"/drip":    {"HTTP/1.1 200 OK\r\nX-Slow: ", ""},
	"/stalled": {"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + strings.Repeat("a", 50_000), ""},
	"/headers": {"HTTP/1.1 200 OK\r\n", strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 80)},
	"/interim": {
		"HTTP/1.1 100 Continue\r\n\r\n",
		strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 2000),
	},
	"/zipped": {
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
		strings.Repeat("\x1f\x8b\x08\x00", 20<<10),
	},
}

// start runs the farm. It returns an address that answers TLS and one that never sends anything.
func (f *farm) start(t *testing.T) (url, mute string) {
	f.cfg = &tls.Config{Certificates: []tls.Certificate{ca().issue(nil)}}
	f.accepted = make(chan net.Conn, 64)
	talking, silent := must(net.Listen("tcp", "127.0.0.1:0")), must(net.Listen("tcp", "127.0.0.1:0"))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { f.accept(talking, func(conn net.Conn) { f.accepted <- conn }); close(f.accepted) })
	wg.Go(func() { f.accept(silent, func(net.Conn) { f.held.Add(1) }) })
	wg.Go(func() { f.drip(stop) })
	for range 32 {
		wg.Go(func() {
			for conn := range f.accepted {
				f.receive(conn)
			}
		})
	}
	t.Cleanup(func() {
		close(stop)
		_, _ = talking.Close(), silent.Close()
		f.hangUp()
		wg.Wait()
	})
	return "https://" + talking.Addr().String(), "https://" + silent.Addr().String()
}

func (f *farm) accept(l net.Listener, each func(net.Conn)) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
		each(conn)
	}
}

func (f *farm) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *farm) receive(raw net.Conn) {
	conn := tls.Server(raw, f.cfg)
	request, err := readRequest(conn)
	if err != nil {
		return
	}
	path := strings.Fields(request)[1]
	kind := farmKinds[path]
	_, _ = io.WriteString(conn, kind.first)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case path == "/drip":
		f.drips = append(f.drips, conn)
	case kind.flood != "":
		f.flood = append(f.flood, flood{conn, kind.flood})
	}
	f.held.Add(1)
}

func (f *farm) open() {
	f.mu.Lock()
	floods := make(chan flood, len(f.flood))
	for _, one := range f.flood {
		floods <- one
	}
	f.mu.Unlock()
	close(floods)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for one := range floods {
				_, _ = io.WriteString(one.conn, one.text)
			}
		})
	}
	wg.Wait()
}

// drip sends a header byte per second on each dripping connection.
func (f *farm) drip(stop <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		f.mu.Lock()
		all := append([]net.Conn(nil), f.drips...)
		f.mu.Unlock()
		for _, conn := range all {
			_, _ = io.WriteString(conn, "x")
		}
	}
}

// TestFiveThousandHostileReceivers keeps 5,000 attempts in flight at receivers that never speak,
// don't answer, send a byte per second or stall in the body. Some of them then flood with headers,
// interim responses and a compressed body. The memory of both ends must stay bounded, and a normal
// receiver must be served meanwhile (G6). TestPostTimesOut shows that hanging attempts time out.
// Here the receivers end them.
func TestFiveThousandHostileReceivers(t *testing.T) {
	const boundBytes = 768 << 20
	hostile := raiseFiles(t, 5000)
	f := &farm{}
	url, mute := f.start(t)
	good := receiver(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, func(cfg *Config) { cfg.AttemptTimeout = 5 * time.Minute })
	kinds := []struct{ url, want string }{
		{mute, "0 CONN_REFUSED"}, {url + "/silent", "0 CONN_REFUSED"}, {url + "/drip", "0 CONN_REFUSED"},
		{url + "/stalled", "200 CONN_REFUSED"},
		{url + "/headers", "0 CONN_REFUSED"}, {url + "/interim", "0 CONN_REFUSED"},
		{url + "/zipped", "200 BODY_TOO_LARGE"},
	}
	peak := watchMemory(t)
	var wg sync.WaitGroup
	var wrong, flooded atomic.Int32
	flooding := 0
	for i := range hostile {
		kind := kinds[i%len(kinds)]
		floods := i%len(kinds) >= 4
		if floods {
			flooding++
		}
		wg.Go(func() {
			r := post(t, c, kind.url)
			if got := strconv.Itoa(r.StatusCode) + " " + string(r.Error); got != kind.want &&
				wrong.Add(1) < 10 {
				t.Errorf("%s: %s (%s), want %s", kind.url, got, r.Detail, kind.want)
			}
			if floods {
				flooded.Add(1)
			}
		})
		// Each handshake needs an extra goroutine, and the race detector limits how many can run.
		testkit.Eventually(t, "the last hundred are held",
			func() bool { return int(f.held.Load()) > i-100 })
	}
	testkit.Eventually(t, "all are held", func() bool { return int(f.held.Load()) == hostile })
	wantResult(t, post(t, c, good.URL), 200, "")
	f.open()
	wantResult(t, post(t, c, good.URL), 200, "")
	testkit.Eventually(t, "all floods are cut off",
		func() bool { return int(flooded.Load()) == flooding })
	f.hangUp()
	wg.Wait()
	used := peak()
	t.Logf("%d attempts at once: at most %d MiB in both ends", hostile, used>>20)
	if used > boundBytes {
		t.Errorf("%d MiB were in use, %d are the bound", used>>20, boundBytes>>20)
	}
}

// raiseFiles raises the limit of open files so that n connections can have both ends in this
// process. It returns how many are possible, which is fewer if the hard limit is low.
func raiseFiles(t *testing.T, n int) int {
	t.Helper()
	const others, least = 500, 1000
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = max(limit.Cur, min(limit.Max, uint64(2*n+others)))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	can := min(n, (int(min(limit.Cur, 1<<30))-others)/2)
	if can < least {
		t.Fatalf("%d files may be open here, which is too few for this test: raise the hard limit (ulimit -Hn %d)", limit.Cur, 2*n+others)
	}
	return can
}

// watchMemory samples the memory in use. The function that it returns stops the sampling and
// returns the peak growth.
func watchMemory(t *testing.T) func() uint64 {
	t.Helper()
	runtime.GC()
	inUse := func() uint64 {
		s := []metrics.Sample{
			{Name: "/memory/classes/heap/objects:bytes"},
			{Name: "/memory/classes/heap/stacks:bytes"},
		}
		metrics.Read(s)
		return s[0].Value.Uint64() + s[1].Value.Uint64()
	}
	begin, most := inUse(), uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				most = max(most, inUse())
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return most - min(begin, most)
	}
}
