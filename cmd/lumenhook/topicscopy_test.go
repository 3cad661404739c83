package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// TestFromOneMachineToACluster moves a merchant's service from one machine to a cluster. Payments
// made in between are delivered there, earlier deliveries are not repeated, and the history is
// complete.
func TestFromOneMachineToACluster(t *testing.T) {
	t.Parallel()
	a := newNetwork(t)
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--network", a.devnet.Passphrase(), "--stellar-rpc-url", a.devnet.RPCURL(),
		"--ledger-poll-interval", "50ms", "--egress-allow", "127.0.0.1/32",
		"--egress-ports", "1024-65535", "--egress-ca", filepath.Join(a.dir, "ca.pem"))
	a.watchBy(s.client(s.file.APIKey))
	paid := a.payThrough(func() {
		s.eventually("payments are received", func() bool { return a.hooks.count() > 2 })
	})
	a.account(s.eventually, paid)
	s.interrupt()
	told := a.hooks.count()
	paid = append(paid, a.payThrough(func() {})...)

	a.startBroker(a.stack.Logger)
	a.startClickHouse(a.stack.Logger)
	config, secrets := a.configure()
	masterKey, err := os.ReadFile(filepath.Join(s.dir, "secrets", "master-key.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(secrets, "master-key"), masterKey, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var report transfer.MirrorReport
	out := a.program("topics", "copy", "--json", "--data-dir", s.dir, "--config", config,
		"--secrets-dir", secrets)
	if err := json.Unmarshal(out, &report); err != nil || len(report.Topics) == 0 ||
		len(report.Groups) == 0 {
		t.Fatalf("the copy's report: %v\n%s", err, out)
	}

	all := &role{t: t, name: "serve", args: []string{
		"serve", "--roles", "api,engine,follower,projector,mailer", "--config", config, "--secrets-dir",
		secrets,
		"--data-dir", filepath.Join(a.dir, "of-all"),
	}}
	all.start()
	all.untilReady()
	a.account(all.until, paid)
	if posts := a.hooks.count(); posts != len(paid) {
		t.Errorf("%d posts were made of %d payments, %d of them before the copy", posts, len(paid), told)
	}
	c, err := client.New(all.said(saidAPI), s.file.APIKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	all.until("the history is whole", func() bool {
		list, err := c.ListEvents(t.Context(), client.EventFilter{}, client.Page{Limit: 100})
		return err == nil && len(list.Data) == len(paid)
	})
	all.terminate()
}

func TestWhatCannotBeCopied(t *testing.T) {
	for _, c := range []struct{ says, line string }{
		{"--kafka-brokers", "topics copy --data-dir " + t.TempDir()},
		{
			"there are no topics to copy",
			"topics copy --kafka-brokers 127.0.0.1:1 --data-dir " + t.TempDir(),
		},
	} {
		out, err := program(strings.Fields(c.line)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v, and should say %q:\n%s", c.line, err, c.says, out)
		}
	}
}
