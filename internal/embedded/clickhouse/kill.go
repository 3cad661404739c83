package clickhouse

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
)

// killer stops the queries of readers that have closed their HTTP connections. The server itself
// only notices that when the query reads its next rows, which may take minutes in a join.
//
// Whether a connection has run a query is not known, as the gateway reads only its first request.
// So that clients that come and go keep the server busy with one statement at most, the ports of
// all that leave while one runs are in the next.
type killer struct {
	kill func(ports []string)

	mu      sync.Mutex
	running bool
	next    *killing // nil if nobody has left since the last statement began
}

type killing struct {
	ports []string // one per relay at most, as each of them waits
	done  chan struct{}
}

// left returns when the query has been stopped. Until then its relay must keep the port, or the
// statement could stop the query of another client.
func (k *killer) left(port int) {
	k.mu.Lock()
	if k.next == nil {
		k.next = &killing{done: make(chan struct{})}
	}
	own := k.next
	own.ports = append(own.ports, fmt.Sprint(port))
	if !k.running {
		k.running = true
		go k.run()
	}
	k.mu.Unlock()
	<-own.done
}

func (k *killer) run() {
	for {
		k.mu.Lock()
		now := k.next
		k.next = nil
		k.running = now != nil
		k.mu.Unlock()
		if now == nil {
			return
		}
		k.kill(now.ports)
		close(now.done)
	}
}

// killQueries uses a client of its own, so that it never delays the health checks.
func (e *Engine) killQueries(ports []string) {
	ctx, cancel := context.WithTimeout(context.Background(), statementMax)
	defer cancel()
	sql := fmt.Sprintf("KILL QUERY WHERE port IN (%s) AND user != '%s' ASYNC",
		strings.Join(ports, ", "), e.cfg.Service.User)
	// Without an answer, the server is down.
	_, _ = e.requestBy(ctx, e.killer, http.MethodPost, "/", e.cfg.Service, sql)
}
