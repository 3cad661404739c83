package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/deploy"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

// A download that hangs holds nothing up: payments are delivered, what asks for the
// history is told why there is none, and it is attached when the engine is there.
func TestAHangingNPMHoldsNothingUp(t *testing.T) {
	library, err := clickhouse.Locate(clickhouse.Options{})
	if err != nil {
		t.Fatalf("this test shows the program the engine that other tests have installed: %v", err)
	}
	home := t.TempDir()
	gate := filepath.Join(home, "gate")
	pinned, err := deploy.ClickHouseEngine(deploy.Platforms()[0])
	if err != nil {
		t.Fatal(err)
	}
	npm := fmt.Sprintf("#!/bin/sh\nuntil [ -e %q ]; do sleep 0.1; done\nmkdir -p node_modules/%s\nln -s %q node_modules/%s/%s\n",
		gate, pinned.Package, library, pinned.Package, pinned.Library)
	if err := os.WriteFile(filepath.Join(home, "npm"), []byte(npm), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	t.Setenv(clickhouse.CacheDirVariable, filepath.Join(home, "cache"))

	s := &testService{t: t, dir: filepath.Join(home, "data")}
	flags := []string{"--ledger-interval", "100ms", "--demo-interval", "100ms"}
	s.start(flags...)
	s.interrupt() // while npm hangs
	s.start(flags...)
	s.eventually("a delivery", func() bool { return strings.Contains(s.output.String(), "delivered  evt_") })
	if s.file.ClickHouse != nil || !strings.Contains(s.output.String(), "the history comes later") {
		t.Errorf("run.json names %+v, and the terminal says:\n%s", s.file.ClickHouse, s.output)
	}
	_, err = s.client(s.file.APIKey).GetEvent(t.Context(), "evt_00000000000000000000000000")
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Code != "HISTORY_UNAVAILABLE" || !strings.Contains(refused.Detail, "still being fetched through npm") {
		t.Errorf("%v", err)
	}
	s.refused("still being fetched through npm", "events", "list")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.eventually("the history in run.json", func() bool {
		file, err := readRunFile(s.dir)
		return err == nil && file.ClickHouse != nil && file.APIURL == s.file.APIURL
	})
	s.eventually("events in the history, from the beginning", func() bool {
		var events struct{ Data []struct{ ID string } }
		return s.call("GET", "/v1/events?state=DELIVERED", nil, &events) == http.StatusOK && len(events.Data) > 0
	})
	s.must("sql", "SELECT count() FROM attempts")
	s.interrupt()
}

func TestSettingsOfTheHistoryNameTheirFaults(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "",
		"--history-retention=90d":  "",
		"--history-retention=0":    "",
		"--history-retention=6d":   "--history-retention \"6d\": projections: a retention of 144h0m0s is too short",
		"--history-retention=long": "--history-retention \"long\": must be days such as 90d",
		"--history-block-rows=0":   "--history-block-rows 0: must be from 1 to 1000000",
		"--history-block-wait=2h":  "--history-block-wait 2h0m0s: must be from 1ms to 1m",
		"--history-lag-max=0":      "--history-lag-max 0: must be at least 1",
		"--history-lag-max=0 --history-block-rows=0": "--history-block-rows 0",
	} {
		var s historySettings
		flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
		s.register(flags)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := errors.Join(s.check()...); err != nil {
			got = err.Error()
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, not %q", args, got, want)
		}
	}
}
