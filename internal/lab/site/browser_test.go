//go:build browser

// Package site tests the documentation site, which build generates with MkDocs Material.
package site

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/pages"
)

// picturesVariable is the environment variable with the folder for the screenshots.
const picturesVariable = "SITE_PICTURES"

// looks is the folder with Playwright and axe, at the versions in its lock file.
const looks = "../../../cmd/lumenhook/testdata/console"

// TestBrowserReadsTheSite builds the site, which fails on dead links, and opens a page of every
// kind and the API reference on a wide and a narrow screen.
func TestBrowserReadsTheSite(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install chromium")
	}
	dir := t.TempDir()
	built := filepath.Join(dir, "site")
	runs(t, ".", "./build", built)
	hasAllBlocks(t, built)
	for _, from := range []string{looks, "testdata"} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	runs(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	server := httptest.NewServer(http.FileServer(http.Dir(built)))
	defer server.Close()
	pictures := os.Getenv(picturesVariable)
	if pictures == "" {
		pictures = filepath.Join(dir, "pictures")
	}
	on, err := json.Marshal(map[string]any{
		"site": server.URL, "chromium": chromium, "pictures": pictures, "pages": []string{
			"docs/index.html", "index.html", "docs/receiving.html", "docs/analytics.html",
			"docs/state-machines.html", "docs/start/python.html",
			"docs/decisions/index.html", "docs/guides/verify.html",
		},
		"folder": "file://" + built,
	})
	if err != nil {
		t.Fatal(err)
	}
	runs(t, dir, "node", "look.mjs", string(on))
	for _, base := range []string{server.URL, "file://" + built} {
		on, err := json.Marshal(map[string]string{
			"reference": base + "/schemas/docs.html", "chromium": chromium, "pictures": pictures,
			"brief": map[bool]string{true: "it reads one screen"}[base != server.URL],
		})
		if err != nil {
			t.Fatal(err)
		}
		runs(t, dir, "node", "reference.mjs", string(on))
	}
}

// hasAllBlocks checks that each code block of a page is a code block on the site, even in lists.
func hasAllBlocks(t *testing.T, built string) {
	t.Helper()
	root := filepath.Join("..", "..", "..")
	checked := 0
	for _, dir := range []string{"docs", "docs/*", "."} {
		names, err := filepath.Glob(filepath.Join(root, dir, "*.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			name, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
			p, err := pages.Read(root, filepath.ToSlash(name))
			if err != nil {
				t.Fatal(err)
			}
			page := strings.TrimSuffix(name, ".md") + ".html"
			page = strings.Replace(page, "README.html", "index.html", 1)
			text, err := os.ReadFile(filepath.Join(built, page))
			if err != nil {
				t.Error(err)
				continue
			}
			checked++
			if shown := strings.Count(string(text), "<pre"); shown != len(p.Blocks) {
				t.Errorf("%s has %d blocks of code, and the site shows %d", name, len(p.Blocks), shown)
			}
		}
	}
	if checked < 60 {
		t.Errorf("only %d pages were checked", checked)
	}
}

func runs(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, said)
	}
}
