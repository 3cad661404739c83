package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The README's first webhook is run as it stands there.
func TestTheREADMEsFirstWebhook(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "## A first webhook in five minutes")
	_, rest, found2 := strings.Cut(rest, "```sh\n")
	script, _, found3 := strings.Cut(rest, "```\n")
	if !found || !found2 || !found3 || strings.Count(script, "curl ") < 4 {
		t.Fatal("the README holds no such script")
	}
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "500ms")
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asProgram, os.Args[0])
	if err := os.WriteFile(filepath.Join(home, "bin", "lumenhook"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	// The folder of the certificate is this test's own, and a failing step ends it.
	script = strings.ReplaceAll(script, "/tmp/hook", filepath.Join(home, "hook"))
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	c.Dir = home
	c.Env = append(os.Environ(), "PORT="+freePort(t))
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{`"secret":"whsec_`, `"statusCode":200`, `"memo":"order-42"`, `"state":"DELIVERED"`, `"amount":"12.5000000"`, "webhook-signature"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the output lacks %s:\n%s", want, out)
		}
	}
	s.interrupt()
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
