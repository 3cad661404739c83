package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams"
)

// kinds of load
const (
	loadAppends     = "appends"      // matches, at full speed
	loadPosts       = "posts"        // by a bare net/http client, at full speed
	loadEgress      = "egress"       // by a bare client of the product's
	loadPacedAppend = "paced-append" // matches, at a rate
	loadPacedPosts  = "paced-posts"  // by a bare net/http client
	loadCommits     = "commits"      // matches by transactions, at a rate
	loadPays        = "pays"         // payments on the development network, at a rate
)

const (
	// chunk is how many matches are appended at once.
	chunk = 2000
	// atOnce is how many posts a bare client has under way.
	atOnce = 64
	// connections is how many may be kept to the receiver.
	connections = 1024
)

func (t *task) load(ctx context.Context) error {
	switch t.Kind {
	case loadAppends:
		return t.appends(ctx)
	case loadPosts:
		return t.posts(ctx, t.bare)
	case loadEgress:
		return t.posts(ctx, t.bareEgress)
	case loadPacedAppend:
		return t.pacedAppend(ctx)
	case loadPacedPosts:
		return t.pacedPosts(ctx)
	case loadCommits:
		return t.pacedCommits(ctx)
	case loadPays:
		return t.pays(ctx)
	}
	return fmt.Errorf("there is no load %q", t.Kind)
}

// appends puts matches in, as many and as long as it is told at least, and keeps up a backlog
// of those that have not arrived.
func (t *task) appends(ctx context.Context) error {
	producer, err := t.Cluster.open().NewProducer()
	if err != nil {
		return err
	}
	defer producer.Close()
	arrived := counter{t.Counter}
	began, used := time.Now(), processor()
	report(event{Kind: eventBegan})
	n := 0
	for n < t.AtLeast || time.Since(began) < t.Time {
		if err := t.awaitBacklog(ctx, arrived, n); err != nil {
			return err
		}
		records := make([]streams.Record, 0, chunk)
		for range t.chunkBehind(n) {
			records = append(records, t.Payments.Match(t.Run, n))
			n++
		}
		if err := producer.Append(ctx, records...); err != nil {
			return err
		}
	}
	report(event{Kind: eventDone, N: n, Processor: processor() - used})
	return nil
}

// chunkBehind is how many matches are appended behind n: no more than are asked for, unless
// it is a time that is.
func (t *task) chunkBehind(n int) int {
	if n < t.AtLeast {
		return min(chunk, t.AtLeast-n)
	}
	return chunk
}

// awaitBacklog waits until fewer than the backlog of n have not arrived.
func (t *task) awaitBacklog(ctx context.Context, arrived counter, n int) error {
	if n < t.Backlog {
		return nil
	}
	_, err := arrived.await(ctx, n-t.Backlog+1)
	return err
}

// posts measures what 64 senders at once post in a while, by the function that opens returns.
func (t *task) posts(
	ctx context.Context, opens func() (post func(context.Context, string) error, err error),
) error {
	post, err := opens()
	if err != nil {
		return err
	}
	if err := t.warm(ctx, post); err != nil {
		return err
	}
	if err := (counter{t.Counter}).expect(ctx, t.AtLeast); err != nil {
		return err
	}
	began, used := time.Now(), processor()
	report(event{Kind: eventBegan})
	n, err := t.postUntil(ctx, post, t.Run, func(n int64) bool {
		return n >= int64(t.AtLeast) && time.Since(began) >= t.Time
	})
	report(event{Kind: eventDone, N: int(n), Processor: processor() - used})
	return err
}

// warm posts what is not counted, so that connections are open.
func (t *task) warm(ctx context.Context, post func(context.Context, string) error) error {
	_, err := t.postUntil(ctx, post, "warm", func(n int64) bool { return n >= int64(t.Warm) })
	return err
}

func (t *task) postUntil(
	ctx context.Context, post func(context.Context, string) error, run string,
	enough func(n int64) bool,
) (made int64, err error) {
	var next, done atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, atOnce)
	for i := range atOnce {
		all.Go(func() {
			for ctx.Err() == nil {
				n := next.Add(1) - 1
				if enough(n) {
					return
				}
				if errs[i] = post(ctx, measuring.EventID(run, int(n))); errs[i] != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return done.Load(), errors.Join(errs...)
}

// bare opens a net/http client with no more around it.
func (t *task) bare() (post func(context.Context, string) error, err error) {
	pool, err := roots(t.Roots)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		MaxIdleConnsPerHost: connections,
	}}
	body := t.Payments.Body(t.Run, 0)
	return func(ctx context.Context, id string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Receiver, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Webhook-Id", id)
		resp, err := client.Do(r) // #nosec G704 -- the benchmark's own receiver
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		return errors.Join(err, resp.Body.Close())
	}, nil
}

// bareEgress opens the product's own client with no more around it.
func (t *task) bareEgress() (post func(context.Context, string) error, err error) {
	pool, err := roots(t.Roots)
	if err != nil {
		return nil, err
	}
	address, err := url.Parse(t.Receiver)
	if err != nil {
		return nil, err
	}
	ports, err := egress.ParsePorts(address.Port())
	if err != nil {
		return nil, err
	}
	client, err := egress.New(egress.Config{
		Policy: egress.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Ports: ports,
		},
		RootCAs:        pool,
		MaxIdlePerHost: connections,
	})
	if err != nil {
		return nil, err
	}
	body := t.Payments.Body(t.Run, 0)
	return func(ctx context.Context, id string) error {
		result, err := client.Post(ctx, egress.Request{
			URL:    t.Receiver,
			Header: []egress.Field{{Name: "Webhook-Id", Value: id}},
			Body:   body,
		})
		if err == nil && !result.Delivered() {
			err = fmt.Errorf("a post failed: %s %s", result.Error, result.Detail)
		}
		return err
	}, nil
}
