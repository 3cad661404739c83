package receiver

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/keys"

	"github.com/lumenhook/lumenhook/domain"
)

// pair is a receiver and the guarded client that a run points at it.
func pair(t testing.TB, onWebhook func(Webhook)) (*Receiver, *egress.Client) {
	t.Helper()
	dir := t.TempDir()
	ca, err := keys.LoadOrCreateCA(dir+"/secrets", dir+"/ca.pem", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{
		Listen:         "127.0.0.1:0",
		GetCertificate: ca.GetCertificate,
		Secrets:        func() []domain.Secret { return []domain.Secret{secret} },
		OnWebhook:      onWebhook,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca.AddTo(roots)
	ports, err := egress.ParsePorts("1-65535")
	if err != nil {
		t.Fatal(err)
	}
	c, err := egress.New(egress.Config{
		RootCAs: roots,
		Policy:  egress.Policy{Allow: egress.LoopbackPrefixes(), Ports: ports},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r, c
}

func signedRequest(url, id string) egress.Request {
	b := []byte(`{"id":"` + id + `","type":"test.ping"}`)
	at := time.Now().Unix()
	return egress.Request{URL: url, Body: b, Header: []egress.Field{
		{Name: "Content-Type", Value: "application/json"},
		{Name: "Webhook-Id", Value: id},
		{Name: "Webhook-Timestamp", Value: fmt.Sprint(at)},
		{Name: "Webhook-Signature", Value: "v1=" + domain.Sign(secret, at, b)},
	}}
}

// TestGuardedClientReachesReceiver joins the three parts as a run does.
func TestGuardedClientReachesReceiver(t *testing.T) {
	got := make(chan Webhook, 1)
	r, c := pair(t, func(w Webhook) { got <- w })
	result, err := c.Post(context.Background(), signedRequest(r.URL(), "evt_1"))
	if err != nil || !result.Delivered() || result.StatusCode != 200 || string(result.Body) != "ok\n" {
		t.Fatalf("result %+v, %v", result, err)
	}
	if w := <-got; !w.Verified || w.ID != "evt_1" || w.Type != "test.ping" {
		t.Errorf("webhook %+v", w)
	}
}

func BenchmarkSignedPost(b *testing.B) {
	r, c := pair(b, func(Webhook) {})
	var n atomic.Int64
	b.SetParallelism(16)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			result, err := c.Post(context.Background(),
				signedRequest(r.URL(), fmt.Sprintf("evt_%d", n.Add(1))))
			if err != nil || !result.Delivered() {
				b.Errorf("%+v, %v", result, err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
}
