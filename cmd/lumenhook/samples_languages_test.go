//go:build receivers

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// someSamples are run in languages whose programs take a second to start or to build: a read, a
// create, the other methods, and one that is refused.
var someSamples = []string{
	"listEndpoints", "createEndpoint", "createWatch", "updateEndpoint", "deleteWatch", "resendEvent",
	refused,
}

// TestSamplesOfOtherLanguagesRun runs the sample of each operation in Python, and some of those in
// Java and Rust.
func TestSamplesOfOtherLanguagesRun(t *testing.T) {
	r := newSampleRig(t)
	for name, source := range r.samples("Python") {
		r.runs(name, t.TempDir(), "python3", "-c", source)
	}
	write := func(file, source string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	java := r.samples("Java")
	for _, name := range someSamples {
		dir := t.TempDir()
		write(filepath.Join(dir, "Example.java"), java[name])
		r.runs(name, dir, "java", "Example.java")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "samples"))); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "src", "bin"), 0o750); err != nil {
		t.Fatal(err)
	}
	rust := r.samples("Rust")
	for _, name := range someSamples {
		write(filepath.Join(dir, "src", "bin", name+".rs"), rust[name])
	}
	if _, err := command(dir, "cargo", "build", "--quiet", "--locked"); err != nil {
		t.Fatal(err)
	}
	for _, name := range someSamples {
		r.runs(name, dir, filepath.Join(dir, "target", "debug", name))
	}
}
