package clickhouse_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
)

// hello returns the first packet of a native protocol client.
func hello(database, user, password string) string {
	var b []byte
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendUvarint(b, 0)
	text("a test")
	for _, n := range []uint64{1, 1, 54_448} {
		b = binary.AppendUvarint(b, n)
	}
	text(database)
	text(user)
	text(password)
	return string(b)
}

// Whatever a client sends and however it disconnects, the process that serves all clients must
// continue. When clients connected to it directly, each of these cases ended the process, except
// those marked as harmless.
func TestNoClientEndsTheEngine(t *testing.T) {
	t.Parallel()
	e := clickhousetest.Start(t)
	pid := e.PID()
	service := hello(e.Database(), e.Service().User, e.Service().Password)
	http := strings.TrimPrefix(e.HTTPURL(), "http://")
	for _, c := range []struct {
		name, addr, says string
		reads            int  // bytes of the response to read before disconnecting
		resets           bool // reset the connection instead of closing it
		answer           string
	}{
		{name: "garbage", addr: e.NativeAddr(), says: "no protocol at all", answer: "Unexpected packet"},
		{name: "a name without an end", addr: e.NativeAddr(), says: "\x00\xff\xff\xff\xff\x7fa"},
		{
			name: "a wrong password", addr: e.NativeAddr(),
			says: hello("", e.Service().User, "wrong"), answer: "Authentication failed",
		},
		{name: "nobody", addr: e.NativeAddr(), says: hello("", "", ""), answer: "Authentication failed"},
		{name: "garbage after Hello", addr: e.NativeAddr(), says: service + "no protocol at all"},
		{name: "a packet that does not exist", addr: e.NativeAddr(), says: service + "\x00\x7f"},
		{name: "a reset at once", addr: e.NativeAddr(), resets: true},
		{name: "a reset within Hello", addr: e.NativeAddr(), says: service[:9], resets: true},
		{name: "a reset after Hello", addr: e.NativeAddr(), says: service, reads: 8, resets: true},
		{name: "a reset with an answer unread", addr: e.NativeAddr(), says: service, resets: true},
		{name: "a reset within a request", addr: http, says: "GET / HT", resets: true},
		{name: "HTTP on the native port", addr: e.NativeAddr(), // harmless before
			says: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", answer: e.HTTPURL()},
		{name: "Hello cut short", addr: e.NativeAddr(), says: service[:9]}, // harmless before
		{name: "nothing", addr: e.NativeAddr()},                            // harmless before
		{name: "a reset within a body", addr: http, resets: true, // harmless before
			says: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 5 {
				answer, err := converse(c.addr, c.says, c.reads, c.resets)
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Contains(answer, []byte(c.answer)) {
					t.Errorf("it is answered %q, not %q", answer, c.answer)
				}
			}
		})
	}
	t.Run("clients of clickhouse-go that give up", func(t *testing.T) {
		for range 20 {
			conn := connect(t, e.DSN())
			ctx, giveUp := context.WithCancel(deadline(t))
			rows, err := conn.Query(ctx, "SELECT number FROM system.numbers")
			must(t, err)
			if !rows.Next() {
				t.Fatal("there are no numbers")
			}
			giveUp()
			rows.Close()
			conn.Close()
		}
	})
	t.Run("a database that is not there", func(t *testing.T) {
		var refused *driver.Exception
		err := connect(t, strings.Replace(e.DSN(), "/"+e.Database(), "/nowhere", 1)).
			Ping(deadline(t))
		if !errors.As(err, &refused) {
			t.Errorf("the answer is %v", err)
		}
	})
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
	if e.PID() != pid || e.Restarts() != 0 {
		t.Errorf("process %d has become %d, after %d restarts", pid, e.PID(), e.Restarts())
	}
}

func converse(
	addr, says string, reads int, resets bool,
) (answer []byte, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	tcp := conn.(*net.TCPConn)
	if _, err := io.WriteString(tcp, says); err != nil {
		return nil, err
	}
	if resets {
		answer = make([]byte, reads)
		if _, err := io.ReadFull(tcp, answer); err != nil {
			return nil, fmt.Errorf("reading %d bytes: %w", reads, err)
		}
		return answer, tcp.SetLinger(0)
	}
	if err := tcp.CloseWrite(); err != nil {
		return nil, err
	}
	return io.ReadAll(tcp)
}

// Clients that send nothing on either port, or a wrong password, must neither prevent the
// supervisor from checking the engine nor lock out other clients.
func TestSilentClientsLockNobodyOut(t *testing.T) {
	t.Parallel()
	const hangAfter = 500 * time.Millisecond
	e := clickhousetest.StartWith(t, clickhouse.Config{
		Program:        clickhousetest.Program(t),
		DataDir:        t.TempDir(),
		HealthInterval: 20 * time.Millisecond,
		HangAfter:      hangAfter,
	})
	conn := connect(t, e.DSN())
	must(t, conn.Ping(deadline(t)))
	var held []net.Conn
	for _, addr := range []string{e.NativeAddr(), strings.TrimPrefix(e.HTTPURL(), "http://")} {
		for range 300 {
			c, err := net.Dial("tcp", addr)
			must(t, err)
			held = append(held, c)
		}
	}
	for range 300 {
		c, err := net.Dial("tcp", strings.TrimPrefix(e.HTTPURL(), "http://"))
		must(t, err)
		_, err = io.WriteString(c, "GET /?query=SELECT+1&user=nobody HTTP/1.1\r\nHost: a\r\n\r\n")
		must(t, err)
		held = append(held, c)
	}
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.HTTPURL()+"/?query=SELECT+1",
		nil)
	must(t, err)
	req.SetBasicAuth(e.Reader().User, e.Reader().Password)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("HTTP answers %s while silent clients hold connections", resp.Status)
	}
	for began := time.Now(); time.Since(began) < 4*hangAfter; {
		must(t, conn.Exec(deadline(t), "SELECT 1"))
	}
	if e.Restarts() != 0 {
		t.Errorf("silent clients had the engine restarted %d times", e.Restarts())
	}
	for _, c := range held {
		c.Close()
	}
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
}

// Clients without a password that connect and disconnect as fast as they can must neither exhaust
// the server's connections nor block the supervisor's pings.
func TestFloodsEndNoEngine(t *testing.T) {
	t.Parallel()
	e := clickhousetest.StartWith(t, clickhouse.Config{
		Program:        clickhousetest.Program(t),
		DataDir:        t.TempDir(),
		HealthInterval: 20 * time.Millisecond,
		HangAfter:      2 * time.Second,
	})
	var all sync.WaitGroup
	end := time.Now().Add(6 * time.Second)
	for range 40 {
		all.Go(func() {
			for time.Now().Before(end) {
				c, err := net.Dial("tcp", strings.TrimPrefix(e.HTTPURL(), "http://"))
				if err != nil {
					continue
				}
				_, _ = io.WriteString(c, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n")
				c.Close()
			}
		})
	}
	all.Wait()
	if e.Restarts() != 0 {
		t.Errorf("the engine was restarted %d times", e.Restarts())
	}
	must(t, connect(t, e.DSN()).Ping(deadline(t)))
}

// The gateway reads a header before it knows the client, so the headers of strangers could fill
// the memory. A long query belongs in the body.
func TestLongHeadersAreCutOff(t *testing.T) {
	t.Parallel()
	e := clickhousetest.StartWith(t, clickhouse.Config{
		Program: clickhousetest.Program(t), DataDir: t.TempDir(),
	})
	ask := func(headerBytes int) (int, error) {
		c, err := net.Dial("tcp", strings.TrimPrefix(e.HTTPURL(), "http://"))
		must(t, err)
		defer c.Close()
		go func() {
			_, _ = fmt.Fprintf(c, "GET /?query=SELECT+1&user=nobody HTTP/1.1\r\nHost: a\r\nX-Pad: %s\r\n\r\n",
				strings.Repeat("a", headerBytes))
		}()
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if status, err := ask(8 << 10); err != nil || status == 0 {
		t.Errorf("a header of 8 KiB is answered %d, %v", status, err)
	}
	if status, err := ask(300 << 10); err == nil {
		t.Errorf("a header of 300 KiB is answered %d", status)
	}
}
