package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// http2Conn is one shared HTTP/2 connection: net/http's, which never repeats a request.
type http2Conn struct {
	client *Client
	conn   *http.ClientConn
	raw    *meteredConn
	addr   string
	made   time.Time
	pooled bool // set before it is shared

	lastUsed atomic.Int64 // Unix nanoseconds
	retired  atomic.Bool
}

// dialedKey passes an established connection to the transport, whose own dialing is never
// used.
type dialedKey struct{}

func newHTTP2Transport() *http.Transport {
	t := &http.Transport{
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
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
			SendPingTimeout:               15 * time.Second,
			PingTimeout:                   5 * time.Second,
			WriteByteTimeout:              10 * time.Second,
		},
		Protocols: new(http.Protocols),
	}
	t.Protocols.SetHTTP2(true)
	return t
}

func (c *Client) newHTTP2(
	ctx context.Context, secured *tls.Conn, raw *meteredConn, t *target,
) (*http2Conn, error) {
	raw.grant(handshakeBytes) // for the settings at the start of a connection
	conn, err := c.http2.NewClientConn(context.WithValue(ctx, dialedKey{}, net.Conn(secured)), "https",
		t.addr)
	if err != nil {
		_ = raw.Close()
		return nil, inStage(ConnRefused, fmt.Errorf("begin HTTP/2: %w", err))
	}
	h := &http2Conn{client: c, conn: conn, raw: raw, addr: t.addr, made: time.Now()}
	h.lastUsed.Store(h.made.UnixNano())
	if err := conn.Reserve(); err != nil {
		_ = conn.Close()
		return nil, inStage(ConnRefused, fmt.Errorf("begin HTTP/2: %w", err))
	}
	h.pooled = c.pool.share(h)
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
	resp, err := h.conn.RoundTrip(h.request(ctx, t, req))
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return reply{
			err:          fmt.Errorf("HTTP/2: %w", err),
			neverWritten: !touched.Load() && ctx.Err() == nil,
		}
	}
	defer resp.Body.Close()
	rep := reply{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}
	cfg := &h.client.cfg
	rep.body, rep.tooLarge, rep.err = readBody(resp.Body, cfg.MaxBodyBytes, cfg.StoredBodyBytes)
	if rep.err != nil {
		if ctx.Err() != nil {
			rep.err = ctx.Err()
		}
		rep.err = fmt.Errorf("read response body: %w", rep.err)
	}
	return rep
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
