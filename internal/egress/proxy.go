package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// ParseProxy parses the address of a proxy, http://host:port or https://host:port, with an optional
// user name and password. Errors don't contain the address because it may contain a password.
func ParseProxy(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil, u.Opaque != "", u.Hostname() == "":
		return nil, errors.New("the proxy cannot be read: write it as http://host:port")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("the proxy must begin with http:// or https://")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("the proxy must be a host and a port without path, query or fragment")
	case u.Port() == "":
		return nil, errors.New("the proxy has no port: write it as http://host:port")
	}
	return u, nil
}

// dialProxy opens a tunnel to a target through the proxy. The proxy resolves the host again after
// we have checked its addresses, so only the proxy can check the address that is used.
func (c *Client) dialProxy(ctx context.Context, t *target, deadline time.Time) (carrier, error) {
	proxy := c.cfg.Proxy
	addrs, err := c.lookup(ctx, proxy.Hostname())
	if err != nil {
		return carrier{}, viaProxy(err)
	}
	// not c.dialer, because the operator chose this address
	dialer := net.Dialer{KeepAlive: keepAlivePeriod}
	raw, err := connect(ctx, dialer, addrs, proxy.Port())
	if err != nil {
		return carrier{}, viaProxy(err)
	}
	along := carrier{raw: newMetered(raw)}
	along.conn = along.raw
	if proxy.Scheme == "https" {
		secured := tls.Client(along.raw,
			&tls.Config{RootCAs: c.cfg.RootCAs, MinVersion: tls.VersionTLS12, ServerName: proxy.Hostname()})
		err, along.conn = secured.HandshakeContext(ctx), secured
		along.raw.grant(handshakeBytes)
	}
	if err == nil {
		err = c.openTunnel(ctx, along.conn, t, deadline)
	}
	if err != nil {
		_ = raw.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return carrier{}, viaProxy(err)
	}
	along.raw.grant(handshakeBytes)
	return along, nil
}

// viaProxy adds the proxy's stage to an error. A proxy error is not caused by the receiver's name
// or certificate, and the account holder only learns the proxy's status code.
func viaProxy(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return inStage(Timeout, stageProxy, err)
	}
	told := "the proxy failed"
	var refused proxyAnswer
	if errors.As(err, &refused) {
		told = refused.Error()
	}
	return &stageError{code: ConnRefused, stage: stageProxy, err: err, told: told}
}

type proxyAnswer int

func (p proxyAnswer) Error() string { return fmt.Sprintf("the proxy answered %d", int(p)) }

// openTunnel sends a CONNECT request to the proxy (RFC 9110, 9.3.6).
func (c *Client) openTunnel(
	ctx context.Context, conn net.Conn, t *target, deadline time.Time,
) error {
	_ = conn.SetDeadline(deadline)
	undo := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(longPast) })
	defer undo()
	ask := "CONNECT " + t.addr + " HTTP/1.1\r\nHost: " + t.addr + "\r\nUser-Agent: " +
		c.cfg.UserAgent + "\r\n"
	if user := c.cfg.Proxy.User; user != nil {
		password, _ := user.Password()
		ask += "Proxy-Authorization: Basic " +
			base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, ask+"\r\n"); err != nil {
		return err
	}
	in := bufio.NewReader(io.LimitReader(conn, maxHeaderBytes))
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return fmt.Errorf("read its answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return proxyAnswer(resp.StatusCode)
	}
	if in.Buffered() > 0 { // in TLS, the client sends first
		return errors.New("it sent more than its answer")
	}
	if !undo() {
		return context.Cause(ctx)
	}
	return conn.SetDeadline(time.Time{})
}
