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

// postRequest is passed to http.ReadResponse, which needs to know the request's method.
var postRequest = &http.Request{Method: http.MethodPost}

// longPast is a deadline that ends all pending reads and writes immediately.
var longPast = time.Unix(1, 0)

// connection is an HTTP/1.1 connection, owned by the pool while idle, or else by an attempt.
type connection struct {
	client  *Client
	conn    *tls.Conn
	raw     *meteredConn
	probe   prober
	in      *bufio.Reader
	inLimit int64 // bytes that may still be read, which bounds the headers
	inErr   error // error of the last read; parsers may return another one
	addr    string
	made    time.Time
	reused  bool

	// The fields below belong to the pool.
	idleSince time.Time
	idleLimit time.Duration // maximum idle time
	place     *list.Element // in the pool's list
}

func newConnection(c *Client, conn *tls.Conn, raw *meteredConn) (*connection, error) {
	probe, err := newProber(raw.TCPConn)
	if err != nil {
		_ = raw.Close()
		return nil, inStage(ConnRefused, stageConnect, err)
	}
	h := &connection{client: c, conn: conn, raw: raw, probe: probe, made: time.Now()}
	h.in = bufio.NewReaderSize(limitedIn{h}, 4<<10)
	return h, nil
}

type limitedIn struct{ h *connection }

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

// exchange writes the request and reads the response in the caller's goroutine, with a deadline.
func (h *connection) exchange(
	ctx context.Context, deadline time.Time, t *target, req Request,
) reply {
	h.addr = t.addr
	h.raw.grant(h.client.cfg.answerBytes())
	_ = h.conn.SetDeadline(deadline) // only fails if the socket is closed, which the write reports
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

func (h *connection) roundTrip(t *target, req Request) (rep reply, keep bool) {
	_, writeErr := h.conn.Write(encodeRequest(t, req))
	// A server may respond and close the connection before it has read the complete request. If the
	// write failed, there may still be a response.
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

// unanswered returns the reply of an exchange without a response. If a reused connection ended
// before the first byte, the receiver has closed it as idle and the request may be sent again.
func (h *connection) unanswered(err, writeErr error) reply {
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

// idleMargin keeps requests from crossing with the receiver's close of an idle connection.
const idleMargin = time.Second

// idleLimit returns limit, or less if the receiver closes idle connections earlier (Keep-Alive).
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

// readHeader reads the final response's header. Interim responses count toward the same limit.
func (h *connection) readHeader() (*http.Response, error) {
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

// usable reports whether an idle connection is open and the peer has sent nothing unsolicited.
func (h *connection) usable() bool { return h.probe.quiet() }

// expired reports whether the connection is too old or has been idle for too long.
func (h *connection) expired(now time.Time, cfg Config) bool {
	return now.Sub(h.made) >= cfg.MaxConnAge || now.Sub(h.idleSince) >= h.idleLimit
}

// close closes the socket directly. tls.Conn.Close would send a closing alert, which is useless
// here and may block for seconds if the socket's buffer is full.
func (h *connection) close() { _ = h.raw.Close() }
