package sealing_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/sealing"
)

func TestWhatIsSealedOpensWithTheSameKeyAndPurpose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master-key.json")
	s, err := sealing.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := s.Seal([]byte("whsec_secret"), "ep_1")
	if err != nil || bytes.Contains(sealed, []byte("whsec_secret")) {
		t.Fatalf("sealed as %q, %v", sealed, err)
	}
	again, err := sealing.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := again.Open(sealed, "ep_1"); err != nil || string(plain) != "whsec_secret" {
		t.Errorf("opened as %q, %v", plain, err)
	}
	other, err := sealing.LoadOrCreate(filepath.Join(t.TempDir(), "other.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Open(sealed, "ep_1"); err == nil {
		t.Error("another key opens it")
	}
	if _, err := s.Open(sealed, "ep_2"); err == nil {
		t.Error("it opens for another endpoint")
	}
	sealed[len(sealed)-1] ^= 1
	if _, err := s.Open(sealed, "ep_1"); err == nil {
		t.Error("it opens after a change")
	}
}

func TestAKeyFileThatOthersMayReadIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "master-key.json")
	if _, err := sealing.LoadOrCreate(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sealing.LoadOrCreate(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sealing.Load(path); err == nil {
		t.Error("a damaged key was taken")
	}
}
