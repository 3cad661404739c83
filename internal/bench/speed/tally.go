package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// tally counts what arrives for the first time, and when. Other processes ask it by HTTP.
type tally struct {
	mu   sync.Mutex
	at   map[string]int64 // Unix nanoseconds, by event
	got  int
	last int64
}

// count is a tally's answer.
type count struct {
	Got  int   `json:"got"`
	Last int64 `json:"last"` // when the latest arrived, Unix nanoseconds
}

func (t *tally) note(id string) {
	now := time.Now().UnixNano()
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, again := t.at[id]; again || id == "" {
		return
	}
	t.at[id] = now
	t.got, t.last = t.got+1, now
}

// add counts what has no identifier.
func (t *tally) add(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.got, t.last = t.got+n, time.Now().UnixNano()
}

// serve answers at a port of its own, without TLS, and returns its URL.
func (t *tally) serve() (url string, err error) {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /expect", func(_ http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.FormValue("n"))
		t.mu.Lock()
		defer t.mu.Unlock()
		t.at, t.got, t.last = make(map[string]int64, n), 0, 0
	})
	routes.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) {
		t.mu.Lock()
		now := count{t.got, t.last}
		t.mu.Unlock()
		_ = json.NewEncoder(w).Encode(now)
	})
	routes.HandleFunc("GET /arrivals", func(w http.ResponseWriter, _ *http.Request) {
		t.mu.Lock()
		defer t.mu.Unlock()
		out := bufio.NewWriter(w)
		for id, at := range t.at {
			fmt.Fprintln(out, id, at)
		}
		_ = out.Flush()
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: routes, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until the process ends
	return "http://" + listener.Addr().String(), nil
}

// counter asks a tally of another process.
type counter struct{ url string }

func (c counter) ask(ctx context.Context, method, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r) // #nosec G704 -- a child of this one
	if err != nil {
		return nil, fmt.Errorf("asking what has arrived: %w", err)
	}
	return resp, nil
}

// expect begins to count anew; about n are to come.
func (c counter) expect(ctx context.Context, n int) error {
	resp, err := c.ask(ctx, http.MethodPost, "/expect?n="+strconv.Itoa(n))
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func (c counter) count(ctx context.Context) (now count, err error) {
	resp, err := c.ask(ctx, http.MethodGet, "/count")
	if err != nil {
		return now, err
	}
	defer resp.Body.Close()
	return now, json.NewDecoder(resp.Body).Decode(&now)
}

// arrivals returns when each event arrived, Unix nanoseconds.
func (c counter) arrivals(ctx context.Context) (map[string]int64, error) {
	resp, err := c.ask(ctx, http.MethodGet, "/arrivals")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	by := make(map[string]int64)
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		id, at, _ := strings.Cut(lines.Text(), " ")
		if by[id], err = strconv.ParseInt(at, 10, 64); err != nil {
			return nil, err
		}
	}
	return by, lines.Err()
}

// await waits until n have arrived; while some do, it does not lose patience.
func (c counter) await(ctx context.Context, n int) (count, error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	latest, at := -1, time.Now()
	for {
		now, err := c.count(ctx)
		if err != nil || now.Got >= n {
			return now, err
		}
		if now.Got > latest {
			latest, at = now.Got, time.Now()
		} else if time.Since(at) > stalled {
			return now, fmt.Errorf("%d of %d have arrived, and for %s none", now.Got, n, stalled)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return now, ctx.Err()
		}
	}
}
