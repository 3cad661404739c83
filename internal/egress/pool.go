package egress

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// maxHTTP2PerHost is the maximum number of shared HTTP/2 connections per host. If an attempt can't
// use any of them, it opens a connection that isn't shared.
const maxHTTP2PerHost = 4

// pool holds the reusable connections by host and port. It contains HTTP/1.1 connections only while
// they are idle. HTTP/2 connections are shared and stay in the pool while they are used.
//
// Each host has a stack of idle connections, so that under lower load the connections at the bottom
// expire. A list of all idle connections determines which one is evicted. The connection that has
// been idle the longest is at the end of that list and therefore at the bottom of its host's stack.
type pool struct {
	cfg Config

	mu     sync.Mutex
	hosts  map[string]*hostPool
	idle   list.List // HTTP/1.1 connections, the most recently used first
	shared int       // number of HTTP/2 connections
	sweep  *time.Timer
	closed bool
}

type hostPool struct {
	idle   []*http1Conn
	shared []*http2Conn
}

func newPool(cfg Config) *pool {
	return &pool{cfg: cfg, hosts: make(map[string]*hostPool)}
}

// take returns a connection to addr that appears to be open, with a reserved stream, or nil.
func (p *pool) take(addr string, now time.Time) link {
	for {
		h1, h2 := p.pop(addr, now)
		switch {
		case h2 != nil:
			return h2
		case h1 == nil:
			return nil
		case !h1.expired(now, p.cfg) && h1.usable():
			h1.reused = true
			return h1
		}
		h1.close()
	}
}

func (p *pool) pop(addr string, now time.Time) (*http1Conn, *http2Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := p.hosts[addr]
	if host == nil {
		return nil, nil
	}
	for _, h2 := range host.shared {
		if now.Sub(h2.made) < p.cfg.MaxConnAge && h2.conn.Reserve() == nil {
			return nil, h2
		}
	}
	if len(host.idle) == 0 {
		return nil, nil
	}
	h1 := host.idle[len(host.idle)-1]
	p.remove(host, len(host.idle)-1)
	return h1, nil
}

func (p *pool) put(h *http1Conn) {
	var surplus *http1Conn
	p.mu.Lock()
	host := p.host(h.addr)
	switch {
	case p.closed || len(host.idle) >= p.cfg.MaxIdlePerHost:
		surplus = h
	default:
		if p.idle.Len() >= p.cfg.MaxIdle {
			surplus = p.idle.Back().Value.(*http1Conn)
			p.remove(p.hosts[surplus.addr], 0)
		}
		h.idleSince = time.Now()
		host.idle = append(host.idle, h)
		h.place = p.idle.PushFront(h)
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.close()
	}
}

// share makes an HTTP/2 connection available to other attempts if the limits permit it.
func (p *pool) share(h *http2Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	host := p.host(h.addr)
	ok := !p.closed && len(host.shared) < maxHTTP2PerHost && p.shared < p.cfg.MaxIdle
	if ok {
		host.shared = append(host.shared, h)
		p.shared++
	}
	return ok
}

// drop closes idle connections to addr. Shared connections are closed once they are unused.
func (p *pool) drop(addr string) {
	p.mu.Lock()
	host := p.hosts[addr]
	var idle []*http1Conn
	var shared []*http2Conn
	if host != nil {
		idle, shared = append(idle, host.idle...), host.shared
		for len(host.idle) > 0 {
			p.remove(host, len(host.idle)-1)
		}
		host.shared = nil
		p.shared -= len(shared)
	}
	p.mu.Unlock()
	for _, h := range idle {
		h.close()
	}
	for _, h := range shared {
		h.retire()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	addrs := make([]string, 0, len(p.hosts))
	for addr := range p.hosts {
		addrs = append(addrs, addr)
	}
	p.mu.Unlock()
	for _, addr := range addrs {
		p.drop(addr)
	}
}

func (p *pool) armSweep() {
	if p.sweep == nil && !p.closed {
		p.sweep = time.AfterFunc(p.cfg.IdleTimeout/2, p.expire)
	}
}

// expire closes connections that are too old or idle for too long, and removes hosts without
// connections, so that the map only has the hosts used within half an IdleTimeout.
func (p *pool) expire() {
	now := time.Now()
	var dead []*http1Conn
	var retired []*http2Conn
	p.mu.Lock()
	for addr, host := range p.hosts {
		for i := len(host.idle) - 1; i >= 0; i-- {
			if h := host.idle[i]; h.expired(now, p.cfg) {
				dead = append(dead, h)
				p.remove(host, i)
			}
		}
		for i := len(host.shared) - 1; i >= 0; i-- {
			if h := host.shared[i]; h.expired(now, p.cfg) {
				retired = append(retired, h)
				p.removeShared(host, i)
			}
		}
		if len(host.idle) == 0 && len(host.shared) == 0 {
			delete(p.hosts, addr)
		}
	}
	p.sweep = nil
	if len(p.hosts) > 0 {
		p.armSweep()
	}
	p.mu.Unlock()
	for _, h := range dead {
		h.close()
	}
	for _, h := range retired {
		h.retire()
	}
}

func (p *pool) unshare(h *http2Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if host := p.hosts[h.addr]; host != nil {
		if i := slices.Index(host.shared, h); i >= 0 {
			p.removeShared(host, i)
		}
	}
}

func (p *pool) host(addr string) *hostPool {
	host := p.hosts[addr]
	if host == nil {
		host = &hostPool{}
		p.hosts[addr] = host
		p.armSweep()
	}
	return host
}

func (p *pool) remove(host *hostPool, i int) {
	p.idle.Remove(host.idle[i].place)
	host.idle = slices.Delete(host.idle, i, i+1)
}

func (p *pool) removeShared(host *hostPool, i int) {
	host.shared = slices.Delete(host.shared, i, i+1)
	p.shared--
}
