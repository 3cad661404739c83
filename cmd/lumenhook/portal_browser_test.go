//go:build browser

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/keys"
)

// TestBrowserPortalInAFrame uses the portal in a frame, in a real Chromium. The page around it is
// one that the operator has named, on another site than the API. No other page may frame the
// portal, and no page the console. This holds without TLS on this machine as well as with TLS.
func TestBrowserPortalInAFrame(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install chromium")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "console"))); err != nil {
		t.Fatal(err)
	}
	if _, err := command(dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) { framePortal(t, chromium, dir, secure) })
	}
}

// framePortal shows the portal in frames of the shop's page and of a stranger's, with or without
// TLS.
func framePortal(t *testing.T, chromium, dir string, secure bool) {
	s := &testService{t: t, dir: t.TempDir()}
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := s.file.APIURL + "/console"
		if r.URL.Path == "/" {
			var link struct{ Path string }
			if status := s.call("POST", "/v1/portal-links", map[string]any{
				"permissions": []string{"read", "operate"},
			}, &link); status != http.StatusOK {
				t.Errorf("the link was answered %d", status)
			}
			address = s.file.APIURL + link.Path
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<!doctype html><title>Shop</title><h1>The shop's own page</h1>`+
			`<iframe title="Webhooks" width="1200" height="760" src="`+html.EscapeString(address)+
			`"></iframe>`)
	})
	shop, stranger := httptest.NewServer(page), httptest.NewServer(page)
	defer shop.Close()
	defer stranger.Close()
	// To a browser, localhost is another site than the API's 127.0.0.1.
	elsewhere := func(of *httptest.Server) string {
		return strings.Replace(of.URL, "127.0.0.1", "localhost", 1)
	}
	flags := []string{
		"--no-demo", "--egress-ports", "1024-65535", "--portal-frame-ancestors", elsewhere(shop),
	}
	if secure {
		flags = append(flags, s.withTLS()...)
	}
	s.start(flags...)
	defer s.interrupt()
	const endpoint = "https://127.0.0.1:9443/webhooks"
	var made struct{ ID string }
	status := s.call("POST", "/v1/endpoints", map[string]any{"url": endpoint}, &made)
	if status != http.StatusCreated {
		t.Fatalf("the endpoint was answered %d", status)
	}
	var narrow struct{ Path string }
	if status := s.call("POST", "/v1/portal-links", map[string]any{
		"permissions": []string{"read"}, "endpointId": made.ID,
	}, &narrow); status != http.StatusOK {
		t.Fatalf("the link of one endpoint was answered %d", status)
	}
	pictures := os.Getenv(picturesVariable)
	if pictures == "" {
		pictures = t.TempDir()
	}
	args, err := json.Marshal(map[string]any{
		"chromium": chromium, "pictures": pictures, "api": s.file.APIURL, "endpoint": endpoint,
		"secure": secure, "narrow": s.file.APIURL + narrow.Path,
		"shop": elsewhere(shop) + "/", "stranger": elsewhere(stranger) + "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := command(dir, "node", "portal.mjs", string(args)); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}

// withTLS returns flags that serve the API with a certificate, and makes call trust it.
func (s *testService) withTLS() []string {
	s.t.Helper()
	dir := s.t.TempDir()
	ca, err := keys.LoadOrCreateCA(dir, filepath.Join(dir, "ca.pem"), time.Now)
	if err != nil {
		s.t.Fatal(err)
	}
	cert, key, err := ca.WriteFiles(dir)
	if err != nil {
		s.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca.AddTo(roots)
	s.asker = &http.Client{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
	}
	return []string{"--api-tls-cert", cert, "--api-tls-key", key}
}
