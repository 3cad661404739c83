package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
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

	resolveShare = 2 // divisor: a lookup may take half of an attempt's timeout
)

// Resolver resolves host names. An error counts as a timeout if ctx has ended, or else as DNS.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config configures a Client. Comments give the default for the zero value.
type Config struct {
	Policy  Policy
	RootCAs *x509.CertPool // default: the system's roots

	// Resolver is used for every dial. The default resolver queries the hosts file, then DNSServer (an
	// address and port) or, if empty, the servers in /etc/resolv.conf. It caches answers for a few
	// seconds and gives up after half of AttemptTimeout, so that a silent server counts as DNS.
	Resolver  Resolver
	DNSServer string

	// Proxy is an HTTP proxy for all attempts (see ParseProxy), never taken from the environment. A
	// host's addresses are checked first, but the proxy resolves it again and connects. It must
	// therefore enforce the address policy as well, or names whose addresses change can bypass it.
	Proxy *url.URL

	AttemptTimeout  time.Duration // 10 s; includes DNS, connect, TLS, headers and body
	MaxBodyBytes    int           // 64 KiB; longer responses are BODY_TOO_LARGE
	StoredBodyBytes int           // 1 KiB of the response to store in a Result

	MaxIdlePerHost int           // 128 idle connections per host and port
	MaxIdle        int           // 2048 in total; the longest idle one is closed first
	IdleTimeout    time.Duration // 1 min, or less if the receiver requests it (Keep-Alive)
	MaxConnAge     time.Duration // 1 min, so that names are resolved and checked again

	UserAgent string           // "Lumenhook"
	Now       func() time.Time // time.Now; only used for dates, not durations
}

// Field is a header field of a request.
type Field struct{ Name, Value string }

// Request is an attempt to POST Body to URL. The client sets Host, Content-Length, Connection and
// the other fields that frame a message.
type Request struct {
	URL    string
	Header []Field
	Body   []byte
}

// Client makes delivery attempts. It is safe for concurrent use. Close it after use.
type Client struct {
	cfg      Config
	dialer   net.Dialer
	tls      *tls.Config
	sessions sessions
	pool     *pool
	targets  *lru.Cache[string, *target]
}

// New returns a client. Errors name the invalid field.
func New(cfg Config) (*Client, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	targets, err := lru.New[string, *target](maxTargets)
	if err != nil {
		return nil, fmt.Errorf("egress: create the target cache: %w", err)
	}
	sessions, err := newSessions()
	if err != nil {
		return nil, fmt.Errorf("egress: create the TLS session cache: %w", err)
	}
	c := &Client{cfg: cfg, targets: targets, sessions: sessions, pool: newPool(cfg)}
	c.dialer = net.Dialer{ControlContext: c.judgeDial, KeepAlive: keepAlivePeriod}
	c.tls = &tls.Config{
		RootCAs:    cfg.RootCAs,
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		// Send each request in one TLS record; small first records would each cost a system call.
		DynamicRecordSizingDisabled: true,
	}
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
		faults = append(faults, errors.New("egress: UserAgent contains a control character"))
	}
	return errors.Join(faults...)
}

func orDefault[T int | time.Duration](name string, field *T, value T) error {
	if *field < 0 {
		return fmt.Errorf("egress: %s is negative: leave it 0 for the default or set it above 0", name)
	}
	*field = cmp.Or(*field, value)
	return nil
}

// Close closes idle connections. Attempts in flight continue.
func (c *Client) Close() { c.pool.close() }

// DropIdle closes idle connections to a URL's host, after an endpoint was disabled or moved.
func (c *Client) DropIdle(rawURL string) {
	if t, err := c.target(rawURL); err == nil {
		c.pool.discard(func(idle *connection) bool { return idle.addr == t.addr })
	}
}

// Post makes one attempt and returns its result, which includes failures of the receiver. It only
// returns an error if the header is malformed, or if ctx was cancelled before the response was
// complete (the request may have been sent; errors.Is(err, context.Canceled)).
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
		// The URL was checked at creation, but the policy may have become stricter since.
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

// attempt sends a request and returns the reply. If the exchange on an idle connection reports that
// the request may be sent again, attempt does so immediately on a new one (E2).
func (c *Client) attempt(
	ctx context.Context, t *target, req Request, begin time.Time,
) (rep reply) {
	deadline := begin.Add(c.cfg.AttemptTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	for conn := c.pool.take(t.addr, begin); ; conn = nil {
		var err error
		if conn == nil {
			conn, err = c.dial(ctx, t, deadline)
		}
		if rep = (reply{err: err}); err == nil {
			rep = conn.exchange(ctx, deadline, t, req)
		}
		late := !time.Now().Before(deadline)
		if rep.err != nil && late && !errors.Is(rep.err, errForbidden) {
			// Whatever error the layers below have made of the exceeded deadline.
			rep.err = inStage(Timeout, stageOf(rep.err), context.DeadlineExceeded)
		}
		if !rep.sendAgain || late || ctx.Err() != nil {
			return rep
		}
	}
}

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
