package receiver

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

const secret = "whsec_test"

var now = time.Unix(1_800_000_000, 0)

// rig is a running receiver with a client that trusts it.
type rig struct {
	*Receiver
	got    chan Webhook
	client *http.Client
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	ca, err := keys.LoadOrCreateCA(dir+"/secrets", dir+"/ca.pem", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan Webhook, 100)
	cfg := Config{
		Listen:         "127.0.0.1:0",
		GetCertificate: ca.GetCertificate,
		Secrets:        func() []domain.Secret { return []domain.Secret{"whsec_new", secret} },
		OnWebhook:      func(w Webhook) { got <- w },
		Now:            func() time.Time { return now },
	}
	if change != nil {
		change(&cfg)
	}
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	ca.AddTo(pool)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := r.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return &rig{r, got, client}
}

// send posts a body with headers; an empty value leaves a header out.
func (r *rig) send(t *testing.T, id, timestamp, signature, body string) int {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, r.URL(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Webhook-Id":        id,
		"Webhook-Timestamp": timestamp,
		"Webhook-Signature": signature,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := r.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

func (r *rig) next(t *testing.T) Webhook {
	t.Helper()
	select {
	case w := <-r.got:
		return w
	case <-time.After(testkit.Patience(t)):
		t.Fatal("no webhook was handed on")
		return Webhook{}
	}
}

const body = `{"id":"evt_1", "type":"payment.received"}`

func stamp(offset int) string { return strconv.FormatInt(now.Unix()+int64(offset), 10) }

func TestReceivesAndDeduplicates(t *testing.T) {
	r := newRig(t, nil)
	signature := "v1=" + domain.Sign(secret, now.Unix(), []byte(body))
	for i := range 3 {
		if status := r.send(t, "evt_1", stamp(0), signature, body); status != 200 {
			t.Fatalf("status %d", status)
		}
		w := r.next(t)
		if w.Timestamp != stamp(0) || w.Signature != signature {
			t.Errorf("webhook %d was signed %q at %q", i, w.Signature, w.Timestamp)
		}
		if w.ID != "evt_1" || w.Type != "payment.received" || string(w.Body) != body || !w.Verified ||
			w.Reason != "" || w.Duplicate != (i > 0) {
			t.Errorf("webhook %d: %+v", i, w)
		}
	}
}

func TestRefuses(t *testing.T) {
	r := newRig(t, nil)
	good := "v1=" + domain.Sign(secret, now.Unix(), []byte(body))
	other := `{"id":"evt_2"}`
	for name, k := range map[string]struct {
		id, timestamp, signature, body string
		status                         int
	}{
		"no id":               {"", stamp(0), good, body, 400},
		"long id":             {strings.Repeat("e", 129), stamp(0), good, body, 400},
		"no timestamp":        {"evt_1", "", good, body, 400},
		"timestamp not digit": {"evt_1", "1e9", good, body, 400},
		"too early": {
			"evt_1", stamp(301), "v1=" + domain.Sign(secret, now.Unix()+301, []byte(body)),
			body, 401,
		},
		"too late": {
			"evt_1", stamp(-301), "v1=" + domain.Sign(secret, now.Unix()-301, []byte(body)),
			body, 401,
		},
		"no signature":      {"evt_1", stamp(0), "", body, 401},
		"other body":        {"evt_1", stamp(0), good, body + " ", 401},
		"reserialised body": {"evt_1", stamp(0), good, strings.ReplaceAll(body, " ", ""), 401},
		"other secret": {
			"evt_1", stamp(0), "v1=" + domain.Sign("whsec_other", now.Unix(), []byte(body)),
			body, 401,
		},
		"other time": {"evt_1", stamp(1), good, body, 401},
		"id of another": {
			"evt_1", stamp(0), "v1=" + domain.Sign(secret, now.Unix(), []byte(other)), other,
			400,
		},
		"signed, not JSON": {
			"evt_1", stamp(0), "v1=" + domain.Sign(secret, now.Unix(), []byte("x")), "x", 400,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if status := r.send(t, k.id, k.timestamp, k.signature, k.body); status != k.status {
				t.Errorf("status %d, want %d", status, k.status)
			}
			if w := r.next(t); w.Verified || w.Duplicate || w.Reason == "" || w.Type != "" ||
				string(w.Body) != k.body || len(w.ID) > maxIDBytes {
				t.Errorf("webhook %+v", w)
			}
		})
	}
	// None of them has used up the id.
	if status := r.send(t, "evt_1", stamp(0), good, body); status != 200 || r.next(t).Duplicate {
		t.Errorf("the real one afterwards: status %d", status)
	}
}

func TestRefusesOtherRequests(t *testing.T) {
	r := newRig(t, nil)
	if resp, err := r.client.Get(r.URL()); err != nil || resp.StatusCode != 405 {
		t.Errorf("GET: %v, %v", resp, err)
	}
	if resp, err := r.client.Post(r.URL()+"/other", "", nil); err != nil || resp.StatusCode != 404 {
		t.Errorf("other path: %v, %v", resp, err)
	}
	resp, err := r.client.Post(r.URL(), "", bytes.NewReader(make([]byte, maxBodyBytes+1)))
	if err != nil || resp.StatusCode != 413 {
		t.Errorf("large body: %v, %v", resp, err)
	}
}

func TestMemoryOfIDsIsBounded(t *testing.T) {
	r := newRig(t, nil)
	for i := range maxSeen + 10 {
		r.seen.ContainsOrAdd(fmt.Sprint(i), struct{}{})
	}
	if r.seen.Len() != maxSeen {
		t.Errorf("%d ids remembered", r.seen.Len())
	}
}

// TestCloseDrains: what was answered 200 is handed on before Close returns.
func TestCloseDrains(t *testing.T) {
	gate, first := make(chan struct{}), make(chan struct{}, 10)
	var handed []string
	r := newRig(t, func(cfg *Config) {
		cfg.OnWebhook = func(w Webhook) { first <- struct{}{}; <-gate; handed = append(handed, w.ID) }
	})
	for i := range 5 {
		b := fmt.Sprintf(`{"id":"evt_%d"}`, i)
		if status := r.send(t, fmt.Sprintf("evt_%d", i), stamp(0),
			"v1="+domain.Sign(secret, now.Unix(), []byte(b)), b); status != 200 {
			t.Fatalf("status %d while the callback is busy", status)
		}
	}
	<-first
	closed := make(chan error)
	go func() { closed <- r.Close(context.Background()) }()
	select {
	case <-closed:
		t.Fatal("closed before the webhooks were handed on")
	default:
	}
	close(gate)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if strings.Join(handed, " ") != "evt_0 evt_1 evt_2 evt_3 evt_4" {
		t.Errorf("handed on: %v", handed)
	}
	if _, err := net.Dial("tcp", r.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

func TestNewAndStartNameTheirFaults(t *testing.T) {
	_, err := New(Config{})
	for _, field := range []string{"Listen", "GetCertificate", "Secrets", "OnWebhook"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("error %v does not name %s", err, field)
		}
	}
	r := newRig(t, nil)
	cfg := r.cfg
	cfg.Listen = r.Addr().String()
	second, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(); err == nil || !strings.Contains(err.Error(), cfg.Listen) {
		t.Errorf("taken port: %v", err)
	}
	if err := second.Close(context.Background()); err != nil {
		t.Errorf("close of one never started: %v", err)
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("evt\x1b[31m\n\xff" + strings.Repeat("a", 200)); strings.ContainsAny(got,
		"\x1b\n") || len(got) != maxIDBytes {
		t.Errorf("%q", got)
	}
}
