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

// http2HeaderBytes is the size at which a response header ends its HTTP/2 connection with all
// attempts on it. Headers above maxHeaderBytes only end their own attempt.
const http2HeaderBytes = 4 * maxHeaderBytes

// http2Conn is a shared HTTP/2 connection, based on net/http, which never repeats a request.
type http2Conn struct {
	client *Client
	conn   *http.ClientConn
	raw    *meteredConn
	addr   string
	made   time.Time
	pooled bool // set before the connection is shared

	begun    atomic.Int64 // number of exchanges
	lastUsed atomic.Int64 // Unix nanoseconds
	retired  atomic.Bool
}

// dialedKey is the context key of the connection that the transport uses instead of dialing.
type dialedKey struct{}

// newHTTP2Transport returns a transport that closes no silent connection before its attempts time
// out.
func newHTTP2Transport(attempt time.Duration) *http.Transport {
	t := &http.Transport{
		DisableCompression:     true,
		MaxResponseHeaderBytes: http2HeaderBytes,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, ok := ctx.Value(dialedKey{}).(net.Conn)
			if !ok {
				return nil, errors.New("egress: invariant E1: the HTTP/2 transport must not dial on its own")
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

// newHTTP2 starts an HTTP/2 connection with one reserved stream. A connection that is not shared is
// closed after one exchange, so that whatever ends it affects no other attempt.
func (c *Client) newHTTP2(
	ctx context.Context, secured *tls.Conn, raw *meteredConn, t *target, shared bool,
) (*http2Conn, error) {
	raw.grant(handshakeBytes) // for the initial settings
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

// notTaken reports whether a request without a response may be sent again. This is the case if the
// receiver reported that it did not process the request (RFC 9113, 8.7), or if the connection ended
// while it was shared with other requests, so that this request need not be the cause. net/http
// distinguishes these cases only in the texts of its errors; the second text belongs to a stream
// above the last one of a GOAWAY.
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

// request does not set GetBody, so that no layer below can send the request twice.
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

func (h *http2Conn) retire() {
	h.retired.Store(true)
	if h.conn.InFlight() == 0 {
		_ = h.conn.Close()
	}
}

// expired reports whether the connection is broken, too old, or has been idle for too long.
func (h *http2Conn) expired(now time.Time, cfg Config) bool {
	idle := now.Sub(time.Unix(0, h.lastUsed.Load()))
	return h.conn.Err() != nil || now.Sub(h.made) >= cfg.MaxConnAge ||
		idle >= cfg.IdleTimeout && h.conn.InFlight() == 0
}
