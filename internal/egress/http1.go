package egress

import (
	"bufio"
	"cmp"
	"container/list"
	"context"
	"crypto/tls"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

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
	inErr   error // of the last read, which parsers may replace by one of their own
	addr    string
	made    time.Time
	reused  bool

	// The pool's.
	idleSince time.Time
	idleLimit time.Duration // how long it may stay idle
	place     *list.Element // in its list
}

func newHTTP1(c *Client, conn *tls.Conn, raw *meteredConn) (*http1Conn, error) {
	probe, err := newProber(raw.TCPConn)
	if err != nil {
		_ = raw.Close()
		return nil, inStage(ConnRefused, stageConnect, err)
	}
	h := &http1Conn{client: c, conn: conn, raw: raw, probe: probe, made: time.Now()}
	h.in = bufio.NewReaderSize(limitedIn{h}, 4<<10)
	return h, nil
}

// limitedIn is the connection's reading side under inLimit.
type limitedIn struct{ h *http1Conn }

func (l limitedIn) Read(p []byte) (int, error) {
	if l.h.inLimit <= 0 {
		l.h.inErr = errHeadersTooLarge
		return 0, errHeadersTooLarge
	}
	n, err := l.h.conn.Read(p[:min(int64(len(p)), l.h.inLimit)])
	l.h.inLimit -= int64(n)
	l.h.inErr = err
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
	_, writeErr := h.conn.Write(encodeRequest(t, req))
	// A server may answer and close before it has read the whole request, so a failed write
	// does not mean that there is no answer.
	resp, err := h.readHeader()
	if err != nil {
		return h.unanswered(err, writeErr), false
	}
	rep.status, rep.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	cfg := &h.client.cfg
	rep.body, rep.tooLarge, rep.err = readBody(resp.Body, cfg.MaxBodyBytes, cfg.StoredBodyBytes)
	if rep.err != nil {
		rep.err = inStage(ConnRefused, stageBody, cmp.Or(h.inErr, rep.err))
	}
	h.idleLimit = idleLimit(resp.Header.Get("Keep-Alive"), cfg.IdleTimeout)
	keep = writeErr == nil && rep.err == nil && !rep.tooLarge && !resp.Close &&
		rep.status != http.StatusSwitchingProtocols && h.in.Buffered() == 0 && h.idleLimit > 0
	return rep, keep
}

// unanswered is the reply of an exchange without a response. The request may be sent again if
// a reused connection ended before a byte of the response: the receiver closed it as idle.
func (h *http1Conn) unanswered(err, writeErr error) reply {
	silent := h.inLimit == maxHeaderBytes
	sendAgain := h.reused && silent && isConnectionLost(err)
	switch {
	case writeErr != nil && silent && isConnectionLost(err):
		err = inStage(ConnRefused, stageSend, writeErr)
	case silent:
		err = inStage(ConnRefused, stageWait, err)
	default:
		err = inStage(ConnRefused, stageHeader, err)
	}
	return reply{err: err, sendAgain: sendAgain}
}

// idleMargin is how much earlier than the receiver we end an idle connection, so that the
// next request does not cross its close.
const idleMargin = time.Second

// idleLimit returns how long a connection may stay idle: at most the limit, or less if the
// receiver closes it earlier (Keep-Alive: timeout=5).
func idleLimit(keepAlive string, limit time.Duration) time.Duration {
	for parameter := range strings.SplitSeq(keepAlive, ",") {
		name, value, _ := strings.Cut(parameter, "=")
		seconds, err := strconv.ParseUint(strings.TrimSpace(value), 10, 31)
		if err == nil && strings.EqualFold(strings.TrimSpace(name), "timeout") {
			said := time.Duration(seconds) * time.Second
			return min(limit, said-min(said/2, idleMargin))
		}
	}
	return limit
}

// headerBytesMost is more than the header of a delivery usually takes.
const headerBytesMost = 2 << 10

func encodeRequest(t *target, req Request) []byte {
	b := make([]byte, 0, headerBytesMost+len(req.Body))
	b = append(b, t.head...)
	b = strconv.AppendInt(b, int64(len(req.Body)), 10)
	for _, f := range req.Header {
		b = append(b, "\r\n"+f.Name+": "+f.Value...)
	}
	b = append(b, "\r\n\r\n"...)
	return append(b, req.Body...)
}

// readHeader reads up to the final response's header. Interim responses are skipped; they
// and the header share one limit.
func (h *http1Conn) readHeader() (*http.Response, error) {
	h.inLimit, h.inErr = maxHeaderBytes, nil
	for {
		resp, err := http.ReadResponse(h.in, postRequest)
		if err != nil {
			return nil, cmp.Or(h.inErr, err)
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

// expired reports whether the connection is too old, or was unused for too long.
func (h *http1Conn) expired(now time.Time, cfg Config) bool {
	return now.Sub(h.made) >= cfg.MaxConnAge || now.Sub(h.idleSince) >= h.idleLimit
}

// close does not wait: the closing alert is useless here, and a full socket would block
// tls.Conn.Close for seconds.
func (h *http1Conn) close() { _ = h.raw.Close() }
