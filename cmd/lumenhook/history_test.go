package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/deploy"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// A download of the engine that hangs must not delay anything. Payments are delivered, reads of the
// history explain why it is missing, and the history starts once the engine has been fetched.
func TestAHangingNPMHoldsNothingUp(t *testing.T) {
	home := t.TempDir()
	gate := hangingNPM(t, home)
	s := &testService{t: t, dir: filepath.Join(home, "data")}
	flags := []string{"--ledger-interval", "100ms", "--demo-interval", "100ms"}
	s.start(flags...)
	s.interrupt() // while npm hangs
	s.start(flags...)
	s.eventually("a delivery",
		func() bool { return strings.Contains(s.output.String(), "delivered  evt_") })
	if s.file.ClickHouse != nil || !strings.Contains(s.output.String(), "the history comes later") {
		t.Errorf("run.json names %+v, and the terminal says:\n%s", s.file.ClickHouse, s.output)
	}
	if said := s.output.String(); s.saidReady() ||
		!strings.Contains(said, "ready, but for the history\n") {
		t.Errorf("without a history it is not said to be ready but for that:\n%s", said)
	}
	_, err := s.client(s.file.APIKey).GetEvent(t.Context(), "evt_00000000000000000000000000")
	var refused *client.Problem
	if !errors.As(err, &refused) || refused.Code != "HISTORY_UNAVAILABLE" ||
		!strings.Contains(refused.Detail, "still being fetched through npm") {
		t.Errorf("%v", err)
	}
	s.refused("still being fetched through npm", "events", "list")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.eventually("the history in run.json", func() bool {
		file, err := runfile.Read(s.dir)
		return err == nil && file.ClickHouse != nil && file.APIURL == s.file.APIURL
	})
	s.eventually("events in the history, from the beginning", func() bool {
		var events struct{ Data []struct{ ID string } }
		return s.call("GET", "/v1/events?state=DELIVERED", nil, &events) == http.StatusOK &&
			len(events.Data) > 0
	})
	s.must("sql", "SELECT count() FROM attempts")
	s.interrupt()
}

// Without npm and without the engine, the service is ready. Every error about the missing history
// names the command that installs the engine into the service's folder.
func TestAMissingEngineNamesItsInstallation(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("PATH", t.TempDir())
	t.Setenv(clickhouse.CacheDirVariable, cache)
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo")
	fix := "lumenhook install-clickhouse --from FILE"
	s.eventually("health names it", func() bool {
		out, _, err := s.command("health")
		return err == nil && strings.Contains(out, "history") &&
			strings.Contains(out, "npm is not on PATH") && strings.Contains(out, fix+" --cache-dir "+cache)
	})
	out, _, err := s.command("doctor", "--only", "clickhouse")
	if err != nil || !strings.Contains(out, fix+" --cache-dir "+cache) {
		t.Errorf("doctor ended with %v:\n%s", err, out)
	}
	s.refused(fix, "events", "list")
	s.refused(fix, "sql", "SELECT 1")
	s.interrupt()
}

// hangingNPM puts an npm on PATH that installs the engine only once the file gate exists.
func hangingNPM(t *testing.T, home string) (gate string) {
	t.Helper()
	library, err := clickhouse.Locate(clickhouse.Options{})
	if err != nil {
		t.Fatalf("this test shows the program the engine that other tests have installed: %v", err)
	}
	gate = filepath.Join(home, "gate")
	pinned, err := deploy.ClickHouseEngine(deploy.Platforms()[0])
	if err != nil {
		t.Fatal(err)
	}
	npm := fmt.Sprintf("#!/bin/sh\nuntil [ -e %q ]; do sleep 0.1; done\nmkdir -p node_modules/%s\n"+
		"ln -s %q node_modules/%s/%s\n",
		gate, pinned.Package, library, pinned.Package, pinned.Library)
	testkit.WriteProgram(t, filepath.Join(home, "npm"), npm)
	t.Setenv("PATH", home+":"+os.Getenv("PATH"))
	t.Setenv(clickhouse.CacheDirVariable, filepath.Join(home, "cache"))
	return gate
}

// While a lost history is rebuilt, an event that is already there is marked as possibly out of
// date, and all other reads return 503.
func TestAHistoryThatWasLostMarksEachAnswerUntilItIsBack(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	const resends = 100
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "200ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)
	wallet := s.watchedWallet(h)
	s.devnet(nil, "pay", "--to", wallet, "--amount", "1")
	s.eventually("an event that is delivered", func() bool { return s.delivered(1) })
	var events client.List[client.Event]
	s.cli(&events, "events", "list")
	id := events.Data[0].ID
	for c := s.client(s.file.APIKey); h.count() < resends; {
		if _, err := c.ResendEvent(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	s.eventually("its last attempt", func() bool { return s.delivered(1) })
	want, err := s.client(s.file.APIKey).GetEvent(t.Context(), id)
	if err != nil || want.HistoryBehind || len(want.Attempts) < resends {
		t.Fatalf("%v, marked: %t, %d attempts", err, want.HistoryBehind, len(want.Attempts))
	}
	s.interrupt()
	if err := os.RemoveAll(filepath.Join(s.dir, "clickhouse")); err != nil {
		t.Fatal(err)
	}
	s.start(flags...)
	c := s.client(s.file.APIKey)
	s.eventually("the whole event", func() bool {
		got, err := c.GetEvent(t.Context(), id)
		var refused *client.Problem
		switch {
		case errors.As(err, &refused):
			if refused.Code != "HISTORY_BEHIND" {
				t.Fatalf("an event of a lost history: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		case !got.HistoryBehind && !reflect.DeepEqual(got, want):
			t.Fatalf("%d attempts of %d, %s, and no mark", len(got.Attempts), len(want.Attempts),
				got.Delivery.State)
		}
		return err == nil && !got.HistoryBehind
	})
	s.interrupt()
	for behind, want := range map[bool]int{false: 0, true: 1} {
		var shown strings.Builder
		apicli.ShowEvent(&shown, client.Event{ID: id, HistoryBehind: behind})
		if n := strings.Count(shown.String(), "being rebuilt"); n != want {
			t.Errorf("`events get` says %d times that the history is behind, not %d", n, want)
		}
	}
}

// TestATornHistoryIsNoticedAndRebuilt truncates a third of ClickHouse's data files, as a power
// failure may. No list may be short, and the history must become complete without a command.
func TestATornHistoryIsNoticedAndRebuilt(t *testing.T) {
	testkit.Nightly(t)
	t.Parallel()
	const events = 12
	s := &testService{t: t, dir: t.TempDir()}
	flags := []string{"--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "100ms"}
	s.start(flags...)
	h := startHooks(t, s.dir)
	wallet := s.watchedWallet(h)
	for n := range events {
		s.devnet(nil, "pay", "--to", wallet, "--amount", "1")
		s.eventually("an event that is delivered", func() bool { return s.delivered(n + 1) })
	}
	list := func() (n int, err error) {
		page, err := s.client(s.file.APIKey).ListEvents(t.Context(), client.EventFilter{}, client.Page{})
		var refused *client.Problem
		switch {
		case err == nil:
			return len(page.Data), nil
		case errors.As(err, &refused) && refused.Code == "HISTORY_BEHIND":
			return 0, err
		}
		t.Fatal(err)
		return 0, err
	}
	s.interrupt()
	files, err := filepath.Glob(filepath.Join(s.dir, "clickhouse", "data", "store", "*", "*", "*",
		"data.bin"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d parts, %v", len(files), err)
	}
	for i, file := range files {
		if i%3 == 0 {
			if err := os.Truncate(file, 7); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.start(flags...)
	s.eventually("the damage is named", func() bool {
		if n, err := list(); err == nil && n != events {
			t.Fatalf("%d of %d events are listed", n, events)
		}
		return strings.Contains(s.output.String(), "the history lost rows on disk")
	})
	s.eventually("the history is whole again", func() bool {
		n, err := list()
		if err == nil && n != events {
			t.Fatalf("%d of %d events are listed", n, events)
		}
		return err == nil && s.call("GET", "/readyz", nil, nil) == http.StatusOK
	})
	s.must("verify-projection", "--all")
	if code, report, _ := examined(t, "--data-dir", s.dir, "--only", "clickhouse"); code != 0 {
		t.Errorf("doctor finds, after all:\n%s", report)
	}
	s.interrupt()
}
