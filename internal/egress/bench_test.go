package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/domain"
)

const benchParallel = 16

func benchReceiver(b *testing.B) string {
	answer := []byte("ok")
	s := receiver(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer)
	})
	return s.URL + "/hooks"
}

var benchBody = bytes.Repeat([]byte("x"), 900)

func perSecond(b *testing.B, post func() error) {
	b.ReportAllocs()
	b.SetParallelism(benchParallel)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := post(); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
}

func BenchmarkPost(b *testing.B) {
	url := benchReceiver(b)
	c := newClient(b, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	perSecond(b, func() error {
		r, err := c.Post(ctx, Request{URL: url, Body: benchBody, Header: []Field{
			{"Content-Type", "application/json"},
			{"Webhook-Id", "evt_0123456789abcdefghjkmnpqrs"},
			{"Webhook-Timestamp", "1700000000"},
			{"Webhook-Signature", "v1=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},
		}})
		if err == nil && !r.Delivered() {
			b.Errorf("not delivered: %+v", r)
		}
		return err
	})
}

// BenchmarkDispatch makes attempts like the engine: signed, each in its own goroutine.
func BenchmarkDispatch(b *testing.B) {
	url := benchReceiver(b)
	c := newClient(b, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	d := NewDispatcher(ctx, c, time.Now)
	a := attempt
	a.URL, a.Body = url, benchBody
	perSecond(b, func() error {
		ended := make(chan domain.AttemptResult, 1)
		d.Dispatch(a, func(r domain.AttemptResult) { ended <- r })
		if r := <-ended; r.StatusCode != http.StatusOK {
			b.Errorf("not delivered: %+v", r)
		}
		return nil
	})
}

// BenchmarkFloor runs a bare net/http client against the same receiver.
func BenchmarkFloor(b *testing.B) {
	url := benchReceiver(b)
	c := &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 128,
		TLSClientConfig:     &tls.Config{RootCAs: ca().pool()},
	}}
	defer c.CloseIdleConnections()
	perSecond(b, func() error {
		resp, err := c.Post(url, "application/json", bytes.NewReader(benchBody))
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.Body.Close()
	})
}

// BenchmarkFreshConnections measures the cost of reconnecting: it posts to eight receivers on one
// machine in turn, each time on a new connection.
func BenchmarkFreshConnections(b *testing.B) {
	var urls []string
	for range 8 {
		urls = append(urls, benchReceiver(b))
	}
	c := newClient(b, func(cfg *Config) { cfg.MaxConnAge = 1 })
	var next atomic.Uint32
	perSecond(b, func() error {
		r, err := c.Post(context.Background(), Request{URL: urls[next.Add(1)%8], Body: benchBody})
		if err == nil && !r.Delivered() {
			b.Errorf("not delivered: %+v", r)
		}
		return err
	})
}
