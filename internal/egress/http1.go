package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxPooledRequest bounds what a pooled request buffer may have grown to.
const maxPooledRequest = 64 << 10

var requestBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// postRequest tells http.ReadResponse which method is being answered.
var postRequest = &http.Request{Method: http.MethodPost}

// longPast is a deadline that ends every pending read and write at once.
var longPast = time.Unix(1, 0)

// http1Conn is one HTTP/1.1 connection. While it is idle it belongs to the pool, else to
// the one attempt that uses it.
type http1Conn struct {
	client  *Client
	conn    *tls.Conn
	raw     *meteredConn
	probe   prober
	in      *bufio.Reader
	inLimit int64 // bytes that may still be read: bounds the headers
	addr    string
	made    time.Time
	reused  bool

	// The pool's.
	idleSince  time.Time
	prev, next *http1Conn
}

func newHTTP1(c *Client, conn *tls.Conn, raw *meteredConn) (*http1Conn, error) {
	probe, err := newProber(raw.TCPConn)
	if err != nil {
		_ = raw.Close()
		return nil, inStage(ConnRefused, fmt.Errorf("connect: %w", err))
	}
	h := &http1Conn{client: c, conn: conn, raw: raw, probe: probe, made: time.Now()}
	h.in = bufio.NewReaderSize(limitedIn{h}, 4<<10)
	return h, nil
}

// limitedIn is the connection's reading side under inLimit.
type limitedIn struct{ h *http1Conn }

func (l limitedIn) Read(p []byte) (int, error) {
	if l.h.inLimit <= 0 {
		return 0, errHeadersTooLarge
	}
	n, err := l.h.conn.Read(p[:min(int64(len(p)), l.h.inLimit)])
	l.h.inLimit -= int64(n)
	return n, err
}

// exchange writes the request in one piece and reads the answer, in the caller's goroutine
// and under the socket's own deadline.
func (h *http1Conn) exchange(
	ctx context.Context, deadline time.Time, t *target, req Request,
) reply {
	h.addr = t.addr
	h.raw.grant(h.client.cfg.answerBytes())
	_ = h.conn.SetDeadline(deadline) // fails only on a closed socket, which the write reports
	undo := func() bool { return true }
	if ctx.Done() != nil {
		undo = context.AfterFunc(ctx, func() { _ = h.conn.SetDeadline(longPast) })
	}
	rep, keep := h.roundTrip(t, req)
	if undo() && keep {
		h.client.pool.put(h)
	} else {
		h.close()
	}
	return rep
}

func (h *http1Conn) roundTrip(t *target, req Request) (rep reply, keep bool) {
	written, writeErr := h.write(t, req)
	if writeErr != nil && written == 0 && h.reused {
		return reply{err: fmt.Errorf("write request: %w", writeErr), neverWritten: true}, false
	}
	// A server may answer and close before it has read the whole request, so a failed write
	// does not mean that there is no answer.
	resp, err := h.readHeader()
	if err != nil {
		if writeErr != nil {
			err = fmt.Errorf("write request: %w", writeErr)
		}
		return reply{err: err}, false
	}
	rep.status, rep.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	cfg := &h.client.cfg
	rep.body, rep.tooLarge, rep.err = readBody(resp.Body, cfg.MaxBodyBytes, cfg.StoredBodyBytes)
	if rep.err != nil {
		rep.err = fmt.Errorf("read response body: %w", rep.err)
	}
	keep = writeErr == nil && rep.err == nil && !rep.tooLarge && !resp.Close &&
		rep.status != http.StatusSwitchingProtocols && h.in.Buffered() == 0
	return rep, keep
}

func (h *http1Conn) write(t *target, req Request) (int, error) {
	buf := requestBuffers.Get().(*[]byte)
	*buf = appendRequest((*buf)[:0], t, req)
	n, err := h.conn.Write(*buf)
	if cap(*buf) <= maxPooledRequest {
		requestBuffers.Put(buf)
	}
	return n, err
}

func appendRequest(b []byte, t *target, req Request) []byte {
	b = append(b, t.head...)
	b = strconv.AppendInt(b, int64(len(req.Body)), 10)
	for _, f := range req.Header {
		b = append(b, "\r\n"...)
		b = append(b, f.Name...)
		b = append(b, ": "...)
		b = append(b, f.Value...)
	}
	b = append(b, "\r\n\r\n"...)
	return append(b, req.Body...)
}

// readHeader reads up to the final response's header. Interim responses are skipped; they
// and the header share one limit.
func (h *http1Conn) readHeader() (*http.Response, error) {
	h.inLimit = maxHeaderBytes
	for {
		resp, err := http.ReadResponse(h.in, postRequest)
		if err != nil {
			return nil, fmt.Errorf("read response: %w", err)
		}
		if resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			h.inLimit = math.MaxInt64
			return resp, nil
		}
	}
}

// usable probes an idle connection: if the peer closed it, or sent something unsolicited,
// it cannot be used.
func (h *http1Conn) usable() bool { return h.probe.quiet() }

// close does not wait: the closing alert is useless here, and a full socket would block
// tls.Conn.Close for seconds.
func (h *http1Conn) close() { _ = h.raw.Close() }
