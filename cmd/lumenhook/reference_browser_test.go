//go:build browser

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBrowserReadsTheReference reads the API reference of a running service in a real Chromium,
// searches it, and tries operations with a key.
func TestBrowserReadsTheReference(t *testing.T) {
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
	s.start("--no-demo")
	defer s.interrupt()
	pictures := os.Getenv(picturesVariable)
	if pictures == "" {
		pictures = t.TempDir()
	}
	on, err := json.Marshal(map[string]any{
		"reference": s.file.APIURL + "/docs", "key": s.file.APIKey, "chromium": chromium,
		"pictures": pictures,
	})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := command(dir, "node", "reference.mjs", string(on)); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
}
