package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

type folderView struct {
	Keys      []client.Key
	Endpoints []client.Endpoint
	Watches   []client.Watch
	Events    []client.Event
}

func (s *testService) view(c *client.Client) (v folderView, err error) {
	all, ctx := client.Page{Limit: 250}, s.t.Context()
	keys, err := c.ListKeys(ctx, all)
	if err != nil {
		return v, err
	}
	for _, k := range keys.Data {
		k.LastUsedAt = nil // every request changes it
		v.Keys = append(v.Keys, k)
	}
	endpoints, err := c.ListEndpoints(ctx, client.EndpointFilter{}, all)
	if err != nil {
		return v, err
	}
	watches, err := c.ListWatches(ctx, client.WatchFilter{}, all)
	if err != nil {
		return v, err
	}
	events, err := c.ListEvents(ctx, client.EventFilter{}, all)
	if err != nil {
		return v, err
	}
	v.Watches = watches.Data
	for _, e := range endpoints.Data {
		e.Health, e.HealthUnavailable = nil, "" // covers only the last minutes
		v.Endpoints = append(v.Endpoints, e)
	}
	for _, e := range events.Data {
		full, err := c.GetEvent(ctx, e.ID)
		if err != nil {
			return v, err
		}
		v.Events = append(v.Events, full)
	}
	return v, nil
}

// TestAFolderIsRestored loses a service's disk, and restores it in another folder from a backup and
// the secrets. The service must have the same objects and history, repeat no delivery, and deliver
// the next payment once.
func TestAFolderIsRestored(t *testing.T) {
	t.Parallel()
	a := newNetwork(t)
	flags := []string{
		"--no-demo", "--network", a.devnet.Passphrase(), "--stellar-rpc-url", a.devnet.RPCURL(),
		"--ledger-poll-interval", "50ms", "--egress-allow", "127.0.0.1/32",
		"--egress-ports", "1024-65535", "--egress-ca", filepath.Join(a.dir, "ca.pem"),
	}
	s := &testService{t: t, dir: filepath.Join(t.TempDir(), "lost")}
	s.start(flags...)
	a.watchBy(s.client(s.file.APIKey))
	whilePaying := filepath.Join(t.TempDir(), "while-paying")
	paid := a.payThrough(func() {
		s.eventually("payments are received", func() bool { return a.hooks.count() > 2 })
		s.must("backup", "--to", whilePaying)
		told := a.hooks.count()
		s.eventually("payments are received after the backup",
			func() bool { return a.hooks.count() > told+2 })
	})
	a.account(s.eventually, paid)
	before := s.completeView(len(paid))
	to := filepath.Join(t.TempDir(), "backup")
	out := s.must("backup", "--to", to)
	if !strings.Contains(out, filepath.Join(s.dir, "secrets")+"; keep a copy") {
		t.Errorf("the backup does not say what it lacks:\n%s", out)
	}
	left, err := filepath.Glob(filepath.Join(s.dir, "broker", "snapshot-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the backup left its snapshot: %v %v", left, err)
	}
	saved := filepath.Join(t.TempDir(), "secrets")
	copies(t, filepath.Join(s.dir, "secrets"), saved)
	s.kill()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}

	s.dir = filepath.Join(t.TempDir(), "new")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s.refused("lacks account, api-key, ", "restore", "--from", to)
	none, err := program("restore", "--from", to).CombinedOutput()
	if err == nil || !strings.Contains(string(none), "name the new folder") {
		t.Errorf("a restore without a folder: %v\n%s", err, none)
	}
	copies(t, saved+"/.", filepath.Join(s.dir, "secrets"))
	s.mustNotRestoreOther(to)
	s.must("restore", "--from", to)
	s.refused("already has data", "restore", "--from", to)
	s.start(flags...)
	s.sameView(before, len(paid))
	paid = append(paid, a.payThrough(func() {})...)
	a.account(s.eventually, paid)
	s.completeView(len(paid))
	if posts := a.hooks.count(); posts != len(paid) {
		t.Errorf("%d posts were made of %d payments", posts, len(paid))
	}
	s.interrupt()

	// After an older backup, the service reads payments from the ledgers again, with the same event
	// ids.
	s.dir = filepath.Join(t.TempDir(), "older")
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	copies(t, saved, filepath.Join(s.dir, "secrets"))
	s.must("restore", "--from", whilePaying)
	s.start(flags...)
	paid = append(paid, a.payThrough(func() {})...)
	a.account(s.eventually, paid)
	s.eventually("the history has every event once", func() bool {
		v, err := s.view(s.client(s.file.APIKey))
		return err == nil && len(v.Events) == len(paid)
	})
	s.interrupt()
}

func (s *testService) sameView(before folderView, events int) {
	s.t.Helper()
	was, err := json.MarshalIndent(before, "", " ")
	if err != nil {
		s.t.Fatal(err)
	}
	is, err := json.MarshalIndent(s.completeView(events), "", " ")
	if err != nil || !bytes.Equal(was, is) {
		s.t.Errorf("%v: before:\n%s\nafter:\n%s", err, was, is)
	}
}

func copies(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A copy of a stopped folder is the same service, and so is a restored backup of it. A copy of a
// running folder must be rejected at its start.
func TestAColdCopyWorks(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: filepath.Join(t.TempDir(), "first")}
	s.start("--ledger-interval", "200ms", "--demo-interval", "1h", "--egress-ports", "1024-65535")
	before := s.completeView(1)
	hot, cold := filepath.Join(t.TempDir(), "hot"), filepath.Join(t.TempDir(), "cold")
	copies(t, s.dir, hot)
	s.interrupt()
	copies(t, s.dir, cold)
	to, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	s.must("backup", "--to", to)
	if err := os.Mkdir(restored, 0o700); err != nil {
		t.Fatal(err)
	}
	copies(t, filepath.Join(s.dir, "secrets"), restored)
	out, err := program(anyPorts(hot)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is a copy of a folder whose service") {
		t.Errorf("a hot copy: %v\n%s", err, out)
	}
	s.dir = restored
	s.must("restore", "--from", to)
	for _, s.dir = range []string{cold, restored} {
		s.start("--no-demo", "--ledger-interval", "200ms", "--egress-ports", "1024-65535")
		s.sameView(before, 1)
		s.interrupt()
	}
}

// TestABackupIsRestoredWithOtherSecrets restores a backup with secrets from another day. The result
// is the same service with a new API key. Secrets alone must not start a new service, and a backup
// needs the master key of its time.
func TestABackupIsRestoredWithOtherSecrets(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: filepath.Join(t.TempDir(), "first")}
	s.start("--no-demo")
	first, saved := s.file, t.TempDir()
	save := func(name string) {
		s.must("backup", "--to", filepath.Join(saved, name))
		copies(t, filepath.Join(s.dir, "secrets"), filepath.Join(saved, name+"-secrets"))
	}
	save("before")
	s.must("keys", "roll", first.APIKeyID, "--grace", "1h")
	save("after")
	var report struct{ Keys []struct{ ID string } }
	s.cli(&report, "secrets", "rewrap")
	dropped := report.Keys[0].ID
	s.must("secrets", "drop", dropped)
	save("dropped")
	s.interrupt()

	restores := func(backup, secrets string) (advice string) {
		s.dir = filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(s.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		copies(t, filepath.Join(saved, secrets+"-secrets"), filepath.Join(s.dir, "secrets"))
		out, err := program(anyPorts(s.dir, "--no-demo")...).CombinedOutput()
		advice = "lumenhook restore --from FOLDER --data-dir " + s.dir
		if err == nil || !strings.Contains(string(out), advice) {
			t.Errorf("a start with only the secrets ended with %v:\n%s", err, out)
		}
		return filepath.Join(saved, backup)
	}
	for _, backup := range []string{"before", "after"} {
		s.refused("lacks the key "+dropped, "restore", "--from", restores(backup, "dropped"))
	}
	for backup, secrets := range map[string]string{"before": "after", "after": "before"} {
		s.must("restore", "--from", restores(backup, secrets))
		earlier, err := os.ReadFile(filepath.Join(s.dir, "secrets", "api-key"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			s.start("--no-demo")
			status := s.call("GET", "/v1/endpoints", nil, nil)
			if s.file.AccountID != first.AccountID || status != 200 ||
				s.file.APIKey == strings.TrimSpace(string(earlier)) {
				t.Errorf("%s with the secrets from %s: account %s, status %d, or the key is the same",
					backup, secrets, s.file.AccountID, status)
			}
			s.interrupt()
		}
	}
}

// mustNotRestoreOther damages a file of a backup, checks that it is rejected, and repairs it.
func (s *testService) mustNotRestoreOther(backup string) {
	s.t.Helper()
	path := filepath.Join(backup, "broker", "topics.json")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, bytes.ToUpper(text), 0o600)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.refused("broker/topics.json: the file is damaged", "restore", "--from", backup)
	out, err := program(anyPorts(s.dir)...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "repeat `lumenhook restore`") {
		s.t.Errorf("a start after a failed restore: %v\n%s", err, out)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// completeView waits until the history has every event with its attempt.
func (s *testService) completeView(events int) (v folderView) {
	s.t.Helper()
	c := s.client(s.file.APIKey)
	s.eventually("the history is complete", func() (complete bool) {
		var err error
		if v, err = s.view(c); err != nil || len(v.Events) != events {
			return false
		}
		for _, e := range v.Events {
			if e.Delivery.State != "DELIVERED" || len(e.Attempts) != 1 || e.HistoryBehind {
				return false
			}
		}
		return true
	})
	return v
}
