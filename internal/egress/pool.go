package egress

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// pool holds the idle connections by host and port.
//
// Each host has a stack of connections, so that under lower load the connections at the bottom
// expire. A list of all of them determines which one is evicted. The connection that has been idle
// the longest is at the end of that list and therefore at the bottom of its host's stack.
type pool struct {
	cfg Config

	mu     sync.Mutex
	hosts  map[string][]*connection // none is empty
	idle   list.List                // all connections, the most recently used first
	sweep  *time.Timer
	closed bool
}

func newPool(cfg Config) *pool {
	return &pool{cfg: cfg, hosts: make(map[string][]*connection)}
}

// take returns a connection to addr that appears to be open, or nil.
func (p *pool) take(addr string, now time.Time) *connection {
	for {
		c := p.pop(addr)
		switch {
		case c == nil:
			return nil
		case !c.expired(now, p.cfg) && c.usable():
			c.reused = true
			return c
		}
		c.close()
	}
}

func (p *pool) pop(addr string) *connection {
	p.mu.Lock()
	defer p.mu.Unlock()
	stack := p.hosts[addr]
	if len(stack) == 0 {
		return nil
	}
	c := stack[len(stack)-1]
	p.remove(addr, len(stack)-1)
	return c
}

func (p *pool) put(c *connection) {
	surplus := c
	p.mu.Lock()
	if !p.closed && len(p.hosts[c.addr]) < p.cfg.MaxIdlePerHost {
		surplus = nil
		if p.idle.Len() >= p.cfg.MaxIdle {
			surplus = p.idle.Back().Value.(*connection)
			p.remove(surplus.addr, 0)
		}
		c.idleSince = time.Now()
		p.hosts[c.addr] = append(p.hosts[c.addr], c)
		c.place = p.idle.PushFront(c)
		p.armSweep()
	}
	p.mu.Unlock()
	if surplus != nil {
		surplus.close()
	}
}

// discard closes the idle connections that match.
func (p *pool) discard(match func(*connection) bool) {
	var dead []*connection
	p.mu.Lock()
	for addr, stack := range p.hosts {
		for i := len(stack) - 1; i >= 0; i-- {
			if c := stack[i]; match(c) {
				dead = append(dead, c)
				p.remove(addr, i)
			}
		}
	}
	p.mu.Unlock()
	for _, c := range dead {
		c.close()
	}
}

func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	p.mu.Unlock()
	p.discard(func(*connection) bool { return true })
}

func (p *pool) armSweep() {
	if p.sweep == nil && !p.closed {
		p.sweep = time.AfterFunc(p.cfg.IdleTimeout/2, p.expire)
	}
}

// expire closes connections that are too old or idle for too long.
func (p *pool) expire() {
	now := time.Now()
	p.discard(func(c *connection) bool { return c.expired(now, p.cfg) })
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep = nil
	if len(p.hosts) > 0 {
		p.armSweep()
	}
}

func (p *pool) remove(addr string, i int) {
	stack := p.hosts[addr]
	p.idle.Remove(stack[i].place)
	if p.hosts[addr] = slices.Delete(stack, i, i+1); len(stack) == 1 {
		delete(p.hosts, addr)
	}
}
