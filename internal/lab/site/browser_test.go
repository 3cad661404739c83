//go:build browser

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// picturesVariable names a folder that keeps the pictures which the test makes.
const picturesVariable = "SITE_PICTURES"

// looks has Playwright and axe, at the versions of its lock file.
const looks = "../../../cmd/lumenhook/testdata/console"

// TestBrowserReadsTheSite: a page of every kind, on a wide and a narrow screen.
func TestBrowserReadsTheSite(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("this test needs Chromium: apt-get install chromium")
	}
	dir := t.TempDir()
	for _, from := range []string{looks, "testdata"} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	runs(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	address, _ := served(t)
	pictures := os.Getenv(picturesVariable)
	if pictures == "" {
		pictures = filepath.Join(dir, "pictures")
	}
	on, err := json.Marshal(map[string]any{
		"site": address, "chromium": chromium, "pictures": pictures, "pages": []string{
			"index.html", "overview.html", "receiving.html", "analytics.html", "state-machines.html",
			"start/python.html", "concepts.html", "guides/go-live.html", "commands.html",
			"decisions/index.html", "reference/api/index.html", "reference/api/endpoints.html",
			"reference/api/objects.html", "source/examples/verify/go/verify.go/verify.go.html",
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	runs(t, dir, "node", "look.mjs", string(on))
}

func runs(t *testing.T, dir string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), args[0], args[1:]...)
	c.Dir = dir
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, said)
	}
}
