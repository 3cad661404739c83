package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
)

// A key that was created with --permission read must not get the default permissions as well.
func TestGivenPermissionsReplaceTheDefaultOnes(t *testing.T) {
	for _, line := range [][]string{{"accounts", "create"}, {"keys", "create"}} {
		c, _, err := newRoot().Find(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.ParseFlags([]string{"--permission", "read"}); err != nil {
			t.Fatal(err)
		}
		got, err := c.Flags().GetStringSlice("permission")
		if err != nil || !slices.Equal(got, []string{"read"}) {
			t.Errorf("%v --permission read asks for %v (%v)", line, got, err)
		}
	}
}

// TestTheFoldersKeyRotates checks that after a roll, commands on the folder and the next start use
// the new key. A start with any other key must not create a second account: it fails with advice.
// Without the key file, it creates a key of the same account.
func TestTheFoldersKeyRotates(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	first := s.file
	command := func(args ...string) (string, error) {
		out, err := program(append(args, "--data-dir", s.dir)...).CombinedOutput()
		return string(out), err
	}
	if out, err := command("keys", "revoke", first.APIKeyID); err == nil ||
		!strings.Contains(out, "keys roll "+first.APIKeyID) {
		t.Errorf("revoking the folder's own key ended with %v:\n%s", err, out)
	}
	if out, err := command("keys", "roll", first.APIKeyID, "--grace", "0s"); err != nil ||
		!strings.Contains(out, "The data folder already has it.") {
		t.Fatalf("%v:\n%s", err, out)
	}
	if out, err := command("keys", "list"); err != nil {
		t.Errorf("after the roll, a command ends with %v:\n%s", err, out)
	}
	s.interrupt()
	s.start("--no-demo")
	rolled := s.file
	if rolled.AccountID != first.AccountID || rolled.APIKey == first.APIKey {
		t.Errorf("the service started with account %s, not %s, or with the old key",
			rolled.AccountID, first.AccountID)
	}
	s.interrupt()

	path := filepath.Join(s.dir, "secrets", "api-key")
	for name, key := range map[string]string{
		"a revoked key": first.APIKey,
		"a strange key": domain.NewAPIKey(false, [32]byte{1}),
	} {
		if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := program(anyPorts(s.dir, "--no-demo")...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "unknown, revoked or expired") {
			t.Errorf("a start with %s ended with %v:\n%s", name, err, out)
		}
		if strings.Contains(string(out), key) {
			t.Errorf("the start with %s prints it:\n%s", name, out)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.start("--no-demo")
	if s.file.AccountID != first.AccountID {
		t.Errorf("the new key belongs to %s, not %s", s.file.AccountID, first.AccountID)
	}
	if status := s.call("GET", "/v1/endpoints", nil, nil); status != 200 {
		t.Errorf("the new key gets %d", status)
	}
	s.interrupt()
}
