package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const repository = "../../.."

// TestTheSiteOfThisRepositoryIsBuilt: every page comes to a file, every link leads somewhere, and
// nothing is loaded from elsewhere.
func TestTheSiteOfThisRepositoryIsBuilt(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	n, err := build(repository, out)
	if err != nil {
		t.Fatal(err)
	}
	if n < 50 {
		t.Errorf("only %d pages were built", n)
	}
	for name, wants := range map[string][]string{
		"index.html":                   {"<title>Lumenhook documentation</title>", `href="receiving.html"`},
		"receiving.html":               {`id="in-order"`, `aria-current="page"`, "<span class="},
		"decisions/site.html":          {`href="../assets/site.css"`, `href="../index.html"`},
		"state-machines.html":          {"<td><code>QUEUED</code></td><td><code>DELIVERED</code></td><td>2xx</td>"},
		"reference/api/endpoints.html": {"POST /v1/endpoints", `href="objects.html#endpointcreate"`},
		"source/examples/verify/go/verify.go/verify.go.html": {"verifyPublicly"},
		"assets/search-index.js":                             {"window.searchIndex = ", "Receiving a webhook"},
		"pictures/recording/first-webhook.svg":               {"<svg"},
	} {
		text, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, want := range wants {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
	}
}

// TestWhatIsWrongWithAPageIsNamed: each fault ends the build, with the page and what to do.
func TestWhatIsWrongWithAPageIsNamed(t *testing.T) {
	for name, c := range map[string]struct{ page, want string }{
		"no list":   {"", "docs/Other.md is on no list: give it a line in docs/README.md"},
		"no file":   {"[there](nowhere.md)", "docs/Page.md links nowhere.md"},
		"no anchor": {"[there](README.md#nowhere)", "index.html has no part #nowhere"},
		"scheme":    {"[there](http://shop.example)", "neither of the site nor of https"},
		"picture":   {"![it](none.svg)", "none.svg"},
		"html":      {"<b>so</b>", "docs/Page.md:3: HTML"},
		"diagram":   {"```mermaid\npie\n```", "diagrams"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			page := "# Page\n\n" + c.page + "\n"
			if name == "no list" {
				write(t, root, "docs/Other.md", "# Other\n")
			}
			write(t, root, "docs/Page.md", page)
			write(t, root, "docs/README.md", "# Home\n\n## Guides\n\n- [Page](Page.md): so.\n")
			_, err := build(root, filepath.Join(root, "out"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, and not %q", err, c.want)
			}
		})
	}
}

// TestWhatThePolicyForbidsIsNamed: a page that a browser would show otherwise than it is meant.
func TestWhatThePolicyForbidsIsNamed(t *testing.T) {
	for html, want := range map[string]string{
		`<script>1</script>`:                   "a script within the page",
		`<style>a{}</style>`:                   "a style within the page",
		`<p style="color:red">`:                "the attribute style",
		`<img src="https://shop.example/a">`:   "it loads https://shop.example/a",
		`<a id="a"></a><a id="a"></a>`:         "two parts are named a",
		`<a href="/docs">`:                     "neither of the site",
		`<script src="https://shop.example/">`: "it loads https://shop.example/",
	} {
		out := t.TempDir()
		write(t, out, "page.html", html)
		if err := check(out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", html, err)
		}
	}
}

// TestTheSiteIsServedWithItsPolicy: also with what a page cannot say by itself.
func TestTheSiteIsServedWithItsPolicy(t *testing.T) {
	address, out := served(t)
	resp, err := http.Get(address + "/receiving.html")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(filepath.Join(out, "receiving.html"))
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != string(kept) ||
		!strings.Contains(resp.Header.Get("Content-Security-Policy"), "frame-ancestors 'none'") {
		t.Errorf("%d bytes with %v", len(text), resp.Header)
	}
}

// served serves the site of this repository until the test ends.
func served(t *testing.T) (address, out string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "site")
	if _, err := build(repository, out); err != nil {
		t.Fatal(err)
	}
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- serve(t.Context(), out, "127.0.0.1:0", func(address string) { at <- address })
	}()
	t.Cleanup(func() { // the test's context has ended by now
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case address = <-at:
		return "http://" + address, out
	case <-time.After(10 * time.Second):
		t.Fatal("it is not served")
	}
	return "", ""
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
