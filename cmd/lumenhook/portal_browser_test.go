//go:build browser

package main

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBrowserPortalInAFrame: a merchant uses the portal in a frame of a page that the operator has
// named, of another site than the API's, in a real Chromium. No other page shows it in a frame, and
// none the console.
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
	// another site for a browser, as 127.0.0.1 is the API's
	elsewhere := func(of *httptest.Server) string {
		return strings.Replace(of.URL, "127.0.0.1", "localhost", 1)
	}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--portal-frame-ancestors", elsewhere(shop))
	defer s.interrupt()
	const endpoint = "https://127.0.0.1:9443/webhooks"
	if status := s.call("POST", "/v1/endpoints", map[string]any{"url": endpoint}, nil); status != 201 {
		t.Fatalf("the endpoint was answered %d", status)
	}
	pictures := os.Getenv(picturesVariable)
	if pictures == "" {
		pictures = t.TempDir()
	}
	args, err := json.Marshal(map[string]any{
		"chromium": chromium, "pictures": pictures, "api": s.file.APIURL, "endpoint": endpoint,
		"shop": elsewhere(shop) + "/", "stranger": elsewhere(stranger) + "/",
	})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := command(dir, "node", "portal.mjs", string(args)); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
