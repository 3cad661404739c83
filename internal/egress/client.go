package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/net/http/httpguts"

	"github.com/lumenhook/lumenhook/internal/retry"
)

const (
	maxHeaderBytes  = 32 << 10
	maxTargets      = 8192
	defaultTimeout  = 10 * time.Second
	defaultMaxBody  = 64 << 10
	defaultStored   = 1 << 10
	defaultPerHost  = 128
	defaultIdle     = 2048
	defaultIdleTime = time.Minute
	defaultConnAge  = time.Minute

	resolveShare = 2 // a lookup may take this fraction of an attempt
	maxSends     = 3 // of one attempt's request, each on another connection (E2)
)

// Resolver turns a name into addresses. *net.Resolver is one; an error counts as
// the budget spent if the context has ended, else as DNS.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config configures a Client. Zero values mean the defaults named.
type Config struct {
	Policy  Policy
	RootCAs *x509.CertPool // the system's roots

	// Resolver is used for every dial. If nil, it is one with a bounded cache that keeps
	// answers for seconds: the hosts file first, then DNSServer (an address and port), or
	// those of /etc/resolv.conf if that is empty. It gives up after half of AttemptTimeout
	// at most: a name that no server answers for did not resolve.
	Resolver  Resolver
	DNSServer string

	// Proxy tunnels every attempt through an HTTP proxy (see ParseProxy), never taken from
	// the environment. A host's addresses are still checked before the proxy is asked, but
	// it is the proxy that connects: the address policy must be enforced there too, or
	// names that change their address get through.
	Proxy *url.URL

	AttemptTimeout  time.Duration // 10 s, over resolution, connect, handshake, headers and body
	MaxBodyBytes    int           // 64 KiB: a longer response is BODY_TOO_LARGE
	StoredBodyBytes int           // 1 KiB of the response kept in a Result

	MaxIdlePerHost int           // 128 idle connections to one host and port
	MaxIdle        int           // 2048 idle connections in all; the longest idle goes first
	IdleTimeout    time.Duration // 1 min unused, or less if the receiver says so (Keep-Alive)
	MaxConnAge     time.Duration // 1 min, after which a name is resolved and judged again
	DisableHTTP2   bool          // offer HTTP/1.1 alone

	UserAgent string           // "Lumenhook"
	Now       func() time.Time // time.Now; dates results, measures nothing
}

// Field is one header field of a request.
type Field struct{ Name, Value string }

// Request is one attempt: a POST of Body to URL. Fields of the message's
// framing (Host, Content-Length, Connection and their like) are the client's.
type Request struct {
	URL    string
	Header []Field
	Body   []byte
}

// Client makes attempts. It is safe for concurrent use; Close it when done.
type Client struct {
	cfg      Config
	dialer   net.Dialer
	tls      *tls.Config
	sessions sessions
	http2    *http.Transport
	pool     *pool
	targets  *lru.Cache[string, *target]
}

// New builds a client. Its errors name the field at fault.
func New(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	targets, err := lru.New[string, *target](maxTargets)
	if err != nil {
		return nil, fmt.Errorf("egress: make the cache of targets: %w", err)
	}
	sessions, err := newSessions()
	if err != nil {
		return nil, fmt.Errorf("egress: make the cache of TLS sessions: %w", err)
	}
	c := &Client{cfg: cfg, targets: targets, sessions: sessions, pool: newPool(cfg)}
	c.dialer = net.Dialer{ControlContext: c.judgeDial, KeepAlive: keepAlivePeriod}
	c.tls = &tls.Config{
		RootCAs:    cfg.RootCAs,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		// One record a request: small first records would cost a system call each.
		DynamicRecordSizingDisabled: true,
	}
	if cfg.DisableHTTP2 {
		c.tls.NextProtos = []string{"http/1.1"}
	}
	c.http2 = newHTTP2Transport(cfg.AttemptTimeout)
	return c, nil
}

func (cfg *Config) complete() error {
	var faults []error
	faults = append(faults,
		orDefault("AttemptTimeout", &cfg.AttemptTimeout, defaultTimeout),
		orDefault("MaxBodyBytes", &cfg.MaxBodyBytes, defaultMaxBody),
		orDefault("StoredBodyBytes", &cfg.StoredBodyBytes, defaultStored),
		orDefault("MaxIdlePerHost", &cfg.MaxIdlePerHost, defaultPerHost),
		orDefault("MaxIdle", &cfg.MaxIdle, defaultIdle),
		orDefault("IdleTimeout", &cfg.IdleTimeout, defaultIdleTime),
		orDefault("MaxConnAge", &cfg.MaxConnAge, defaultConnAge))
	cfg.UserAgent = cmp.Or(cfg.UserAgent, "Lumenhook")
	if cfg.Resolver == nil {
		resolver, err := newCachingResolver(cfg.DNSServer, cfg.AttemptTimeout/resolveShare)
		cfg.Resolver = resolver
		faults = append(faults, err)
	}
	if cfg.Proxy != nil {
		if _, err := ParseProxy(cfg.Proxy.String()); err != nil {
			faults = append(faults, fmt.Errorf("egress: Proxy: %w", err))
		}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if !httpguts.ValidHeaderFieldValue(cfg.UserAgent) {
		faults = append(faults, errors.New("egress: UserAgent holds a control character"))
	}
	return errors.Join(faults...)
}

// orDefault sets a field that is 0.
func orDefault[T int | time.Duration](name string, field *T, value T) error {
	if *field < 0 {
		return fmt.Errorf("egress: %s is negative: leave it 0 for the default or set it above 0", name)
	}
	*field = cmp.Or(*field, value)
	return nil
}

// Close drops the idle connections; attempts in flight end on their own.
func (c *Client) Close() { c.pool.close() }

// DropIdle closes the idle connections to a url's host, for when its endpoint
// was disabled or moved.
func (c *Client) DropIdle(rawURL string) {
	if t, err := c.target(rawURL); err == nil {
		c.pool.drop(t.addr)
	}
}

// Post makes one attempt and returns its result. The error is not the receiver's: ctx was
// cancelled before the answer was complete (the request may have been sent; errors.Is(err,
// context.Canceled)), or the request's header is malformed. The result is then meaningless.
func (c *Client) Post(ctx context.Context, req Request) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, fmt.Errorf("egress: not sent: %w", err)
	}
	if err := checkHeader(req.Header); err != nil {
		return Result{}, err
	}
	begin := time.Now()
	result := Result{SentAt: c.cfg.Now()}
	t, err := c.target(req.URL)
	if err != nil {
		// Checked at creation; the policy may have become stricter since.
		result.Error, result.Detail = SSRFBlocked, oneLine(err.Error())
		return result, nil
	}
	rep := c.attempt(ctx, t, req, begin)
	if rep.err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return Result{}, fmt.Errorf("egress: attempt interrupted: %w", context.Canceled)
	}
	result.Duration = time.Since(begin)
	result.StatusCode, result.Body = rep.status, rep.body
	result.Error, result.Detail = rep.code(), c.cfg.Policy.reason(rep.err)
	result.RetryAfter = retry.After(rep.retryAfter, result.SentAt, maxRetryAfter)
	return result, nil
}

// attempt exchanges one request for one reply. It uses another connection at once if the
// exchange reports that the request may be sent again (E2).
func (c *Client) attempt(
	ctx context.Context, t *target, req Request, begin time.Time,
) (rep reply) {
	deadline := begin.Add(c.cfg.AttemptTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	link := c.pool.take(t.addr, begin)
	for sends := 1; ; sends++ {
		var err error
		if link == nil {
			link, err = c.dial(ctx, t, deadline, sends == 1)
		}
		if rep = (reply{err: err}); err == nil {
			rep = link.exchange(ctx, deadline, t, req)
		}
		link = nil
		late := !time.Now().Before(deadline)
		if rep.err != nil && late && !errors.Is(rep.err, errForbidden) {
			// Whatever the layers below made of the passed deadline.
			rep.err = inStage(Timeout, stageOf(rep.err), context.DeadlineExceeded)
		}
		if !rep.sendAgain || late || sends == maxSends || ctx.Err() != nil {
			return rep
		}
	}
}

// link is a connection on which an attempt has been given its place; exchange
// uses it and hands it back to the pool or closes it.
type link interface {
	exchange(ctx context.Context, deadline time.Time, t *target, req Request) reply
}

// ownFields are the header fields that frame the message.
var ownFields = map[string]bool{
	"host": true, "content-length": true, "transfer-encoding": true, "connection": true,
	"keep-alive": true, "proxy-connection": true, "upgrade": true, "te": true, "trailer": true,
	"expect": true, "user-agent": true, "accept-encoding": true,
}

func checkHeader(header []Field) error {
	for _, f := range header {
		if !httpguts.ValidHeaderFieldName(f.Name) || !httpguts.ValidHeaderFieldValue(f.Value) {
			return fmt.Errorf("egress: header field %q is malformed", f.Name)
		}
		if ownFields[strings.ToLower(f.Name)] {
			return fmt.Errorf("egress: header field %q is set by the client itself", f.Name)
		}
	}
	return nil
}
