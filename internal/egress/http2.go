package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"
)

// http2HeaderBytes is where an HTTP/2 response header ends its connection, and so the other
// attempts on it: far above maxHeaderBytes, which ends its own attempt.
const http2HeaderBytes = 4 * maxHeaderBytes

// http2Conn is one shared HTTP/2 connection: net/http's, which never repeats a request.
type http2Conn struct {
	client *Client
	conn   *http.ClientConn
	raw    *meteredConn
	addr   string
	made   time.Time
	pooled bool // set before it is shared

	begun    atomic.Int64 // exchanges
	lastUsed atomic.Int64 // Unix nanoseconds
	retired  atomic.Bool
}

// dialedKey passes an established connection to the transport, whose own dialing is never
// used.
type dialedKey struct{}

// newHTTP2Transport ends no connection for its silence before an attempt on it has timed out.
func newHTTP2Transport(attempt time.Duration) *http.Transport {
	t := &http.Transport{
		DisableCompression:     true,
		MaxResponseHeaderBytes: http2HeaderBytes,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, ok := ctx.Value(dialedKey{}).(net.Conn)
			if !ok {
				return nil, errors.New("egress: invariant E1: the HTTP/2 transport was asked to dial by itself")
			}
			return conn, nil
		},
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     128 << 10,
			SendPingTimeout:               max(15*time.Second, attempt),
			PingTimeout:                   5 * time.Second,
			WriteByteTimeout:              max(10*time.Second, attempt),
		},
		Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP2(true)
	return t
}

// newHTTP2 begins a connection, with a stream reserved on it. If it is not shared, it is
// closed after one exchange: what ends it ends no other attempt.
func (c *Client) newHTTP2(
	ctx context.Context, secured *tls.Conn, raw *meteredConn, t *target, shared bool,
) (*http2Conn, error) {
	raw.grant(handshakeBytes) // for the settings at the start of a connection
	conn, err := c.http2.NewClientConn(context.WithValue(ctx, dialedKey{}, net.Conn(secured)), "https",
		t.addr)
	if err != nil {
		_ = raw.Close()
		return nil, inStage(ConnRefused, stageSend, err)
	}
	h := &http2Conn{client: c, conn: conn, raw: raw, addr: t.addr, made: time.Now()}
	h.lastUsed.Store(h.made.UnixNano())
	if err := conn.Reserve(); err != nil {
		_ = conn.Close()
		return nil, inStage(ConnRefused, stageSend, err)
	}
	h.pooled = shared && c.pool.share(h)
	return h, nil
}

// exchange uses the stream that Reserve has reserved on the connection.
func (h *http2Conn) exchange(
	ctx context.Context, deadline time.Time, t *target, req Request,
) reply {
	defer h.release()
	h.raw.grant(h.client.cfg.answerBytes())
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	var touched atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaderField: func(string, []string) { touched.Store(true) },
	})
	h.begun.Add(1)
	resp, err := h.conn.RoundTrip(h.request(ctx, t, req))
	if err != nil {
		return reply{
			err:       inStage(ConnRefused, stageWait, err),
			sendAgain: !touched.Load() || h.notTaken(err),
		}
	}
	defer resp.Body.Close()
	if headerBytes(resp.Header) > maxHeaderBytes {
		return reply{err: inStage(ConnRefused, stageHeader, errHeadersTooLarge)}
	}
	rep := reply{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	cfg := &h.client.cfg
	rep.body, rep.tooLarge, rep.err = readBody(resp.Body, cfg.MaxBodyBytes, cfg.StoredBodyBytes)
	if rep.err != nil {
		rep.err = inStage(ConnRefused, stageBody, rep.err)
	}
	return rep
}

// notTaken reports whether a request that failed without a response may be sent again: the receiver
// said that it did not process it (RFC 9113, 8.7), or the connection ended, and other requests were
// on it, so that this one need not be the cause. net/http distinguishes these only in the text of
// its errors; the second is for a stream above the last one of a GOAWAY.
func (h *http2Conn) notTaken(err error) bool {
	text := err.Error()
	return strings.Contains(text, "; REFUSED_STREAM; ") ||
		strings.HasPrefix(text, "http2: Transport received ") ||
		!strings.HasPrefix(text, "stream error: ") && h.begun.Load() > 1 && h.conn.Err() != nil
}

func headerBytes(header http.Header) (n int) {
	for name, values := range header {
		for _, value := range values {
			n += len(name) + len(value)
		}
	}
	return n
}

// request leaves GetBody nil, so that nothing below could send it twice.
func (h *http2Conn) request(ctx context.Context, t *target, req Request) *http.Request {
	header := make(http.Header, len(req.Header)+1)
	for _, f := range req.Header {
		header.Add(f.Name, f.Value)
	}
	header.Set("User-Agent", h.client.cfg.UserAgent)
	r := &http.Request{
		Method:        http.MethodPost,
		URL:           t.url,
		Host:          t.url.Host,
		Header:        header,
		Proto:         "HTTP/2.0",
		ProtoMajor:    2,
		ContentLength: int64(len(req.Body)),
		Body:          io.NopCloser(bytes.NewReader(req.Body)),
	}
	return r.WithContext(ctx)
}

// release frees the stream and closes a connection that cannot be used further.
func (h *http2Conn) release() {
	h.lastUsed.Store(time.Now().UnixNano())
	switch {
	case !h.pooled:
		_ = h.conn.Close()
	case h.conn.Err() != nil:
		h.client.pool.unshare(h)
		_ = h.conn.Close()
	case h.retired.Load():
		h.retire()
	}
}

// retire closes the connection now, or leaves that to the last attempt on it.
func (h *http2Conn) retire() {
	h.retired.Store(true)
	if h.conn.InFlight() == 0 {
		_ = h.conn.Close()
	}
}

// expired reports whether the pool should drop the connection: broken, too old, or unused
// for too long.
func (h *http2Conn) expired(now time.Time, cfg Config) bool {
	idle := now.Sub(time.Unix(0, h.lastUsed.Load()))
	return h.conn.Err() != nil || now.Sub(h.made) >= cfg.MaxConnAge ||
		idle >= cfg.IdleTimeout && h.conn.InFlight() == 0
}
