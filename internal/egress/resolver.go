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

const (
	maxNames = 8192
	// answerTTL is how long an answer is cached, including that a name doesn't exist. It is shorter
	// than most TTLs, so that changes are noticed quickly.
	answerTTL  = 5 * time.Second
	failureTTL = time.Second // how long a failure of a name server is cached
	// maxCachedAddrs limits the memory for a name, whose answers the receiver controls. Answers with
	// more addresses are used but not cached.
	maxCachedAddrs = 64
)

// cachingResolver queries the hosts file and the name servers. It caches answers for a short fixed
// time, in a cache of limited size. Concurrent lookups of a name share one query.
type cachingResolver struct {
	dns     *net.Resolver
	hosts   *net.Resolver // only the hosts file
	timeout time.Duration

	mu    sync.Mutex
	names *simplelru.LRU[string, *lookup]
}

// lookup is a query. It is in progress until done is closed.
type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	until time.Time
}

// newCachingResolver returns a resolver that queries server (an address and port) or, if it is
// empty, the servers in /etc/resolv.conf. A lookup takes at most timeout.
func newCachingResolver(server string, timeout time.Duration) (*cachingResolver, error) {
	if server != "" {
		if _, err := netip.ParseAddrPort(server); err != nil {
			return nil, fmt.Errorf("egress: DNSServer %q is not an address with a port: write it as "+
				"192.0.2.53:53 or [2001:db8::53]:53", server)
		}
	}
	names, err := simplelru.NewLRU[string, *lookup](maxNames, nil)
	if err != nil {
		return nil, fmt.Errorf("egress: create the name cache: %w", err)
	}
	return &cachingResolver{
		dns:     newDNS(server, timeout*2/5),
		hosts:   newHosts(),
		timeout: timeout,
		names:   names,
	}, nil
}

// LookupNetIP returns the IPv4 and IPv6 addresses of a host, whatever the network.
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
	// The first caller may be cancelled, but others may be waiting for the answer.
	go r.resolve(context.WithoutCancel(ctx), host, l)
	return l
}

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
	l.addrs, l.err = r.ask(ctx, host)
	l.until = time.Now().Add(ttl(l.err))
	if len(l.addrs) > maxCachedAddrs {
		r.forget(host, l)
	}
	close(l.done)
}

// ask returns the addresses of a host with a trailing dot. With the dot, the standard library
// doesn't find single-label names in the hosts file; without it, it would also try search domains.
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

func ttl(err error) time.Duration {
	var dnsErr *net.DNSError
	if err == nil || errors.As(err, &dnsErr) && dnsErr.IsNotFound {
		return answerTTL
	}
	return failureTTL
}
