package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// How long answers are kept. A name server's own times hold below these.
const (
	maxNames        = 8192
	maxKept         = 5 * time.Minute
	maxKeptNegative = 30 * time.Second
	keptWithoutTTL  = 5 * time.Second // of the hosts file
	keptFailure     = time.Second     // of a name server that failed
	// maxKeptAddrs bounds what a name of the receiver's choosing can take up: an
	// answer with more addresses is used and not kept.
	maxKeptAddrs = 64
)

// cachingResolver asks the hosts file and the name servers, and keeps what they
// say for as long as they say it, within bounds. A name is asked for once,
// however many want it at the same time.
type cachingResolver struct {
	dns     *net.Resolver
	hosts   *net.Resolver // the hosts file alone
	timeout time.Duration

	mu    sync.Mutex
	names *simplelru.LRU[string, *lookup]
}

// lookup is one question, under way until done is closed.
type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	until time.Time
}

// newCachingResolver asks server (an address and port), or those of
// /etc/resolv.conf when it is empty.
// A lookup may take the timeout in all.
func newCachingResolver(server string, timeout time.Duration) (*cachingResolver, error) {
	if server != "" {
		if _, err := netip.ParseAddrPort(server); err != nil {
			return nil, fmt.Errorf("egress: DNSServer %q is not an address with a port: write it as "+
				"192.0.2.53:53 or [2001:db8::53]:53", server)
		}
	}
	names, err := simplelru.NewLRU[string, *lookup](maxNames, nil)
	if err != nil {
		return nil, fmt.Errorf("egress: make the cache of names: %w", err)
	}
	return &cachingResolver{
		dns:     newDNS(server, timeout*2/5),
		hosts:   newHosts(),
		timeout: timeout,
		names:   names,
	}, nil
}

// LookupNetIP gives all addresses of a name. The network is ignored: it is "ip".
func (r *cachingResolver) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	l := r.lookup(ctx, host)
	select {
	case <-l.done:
		return slices.Clone(l.addrs), l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *cachingResolver) lookup(ctx context.Context, host string) *lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.names.Get(host); ok && l.fresh() {
		return l
	}
	l := &lookup{done: make(chan struct{})}
	r.names.Add(host, l)
	// Whoever asked first may give up; the others still want the answer.
	go r.resolve(context.WithoutCancel(ctx), host, l)
	return l
}

// fresh tells that a lookup is under way or its answer still holds.
func (l *lookup) fresh() bool {
	select {
	case <-l.done:
		return time.Now().Before(l.until)
	default:
		return true
	}
}

func (r *cachingResolver) resolve(ctx context.Context, host string, l *lookup) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	ctx, times := withTimes(ctx)
	l.addrs, l.err = r.ask(ctx, host)
	keep := times.keep(l.err)
	l.until = time.Now().Add(keep)
	if keep <= 0 || len(l.addrs) > maxKeptAddrs {
		r.forget(host, l)
	}
	close(l.done)
}

// ask gives the addresses of an absolute name. The standard library's resolver
// finds names of one label in the hosts file only without their final dot, which
// in turn would let it try search domains.
func (r *cachingResolver) ask(ctx context.Context, host string) ([]netip.Addr, error) {
	if label := strings.TrimSuffix(host, "."); !strings.Contains(label, ".") {
		if addrs, err := r.hosts.LookupNetIP(ctx, "ip", label); err == nil {
			return addrs, nil
		}
	}
	return r.dns.LookupNetIP(ctx, "ip", host)
}

func (r *cachingResolver) forget(host string, l *lookup) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now, ok := r.names.Peek(host); ok && now == l {
		r.names.Remove(host)
	}
}

// keep is how long an answer holds: the least time to live among the records of
// a positive one, the zone's negative time of a negative one (RFC 2308).
func (t *times) keep(err error) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	var dnsErr *net.DNSError
	switch {
	case err == nil && t.positive.seen:
		return min(t.positive.least, maxKept)
	case err == nil:
		return keptWithoutTTL
	case errors.As(err, &dnsErr) && dnsErr.IsNotFound && t.negative.seen:
		return min(t.negative.least, maxKeptNegative)
	default:
		return keptFailure
	}
}
