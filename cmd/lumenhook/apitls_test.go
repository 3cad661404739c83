package main

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
)

// TestTheAPISpeaksTLS checks that the API is served over HTTPS with its security headers, and that
// responses to wrong keys slow down after many of them.
func TestTheAPISpeaksTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := keys.LoadOrCreateCA(dir, filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile, err := ca.WriteFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--api-tls-cert", certFile, "--api-tls-key", keyFile)
	defer s.interrupt()
	if !strings.HasPrefix(s.file.APIURL, "https://") {
		t.Fatalf("the API is at %s", s.file.APIURL)
	}
	roots := x509.NewCertPool()
	ca.AddTo(roots)
	client := &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	get := func(key string) *http.Response {
		req, err := http.NewRequest(http.MethodGet,
			s.file.APIURL+"/v1/events/evt_00000000000000000000000000", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	var resp *http.Response
	s.eventually("the history answers", func() bool {
		resp = get(s.file.APIKey)
		return resp.StatusCode != http.StatusServiceUnavailable
	})
	for name, want := range map[string]string{
		"Strict-Transport-Security": "max-age=31536000",
		"X-Content-Type-Options":    "nosniff", "Cache-Control": "no-store",
		"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Server": "",
	} {
		if resp.StatusCode != http.StatusNotFound || resp.Header.Get(name) != want {
			t.Errorf("%d, %s: %q, want %q", resp.StatusCode, name, resp.Header.Get(name), want)
		}
	}
	var slowest time.Duration
	for range 22 {
		began := time.Now()
		if resp := get(strings.Repeat("x", 10)); resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a bad key was answered %d", resp.StatusCode)
		}
		slowest = max(slowest, time.Since(began))
	}
	if slowest < 400*time.Millisecond {
		t.Errorf("of 22 bad keys the slowest answer took %s", slowest)
	}
}
