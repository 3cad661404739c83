package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In the shell of `lumenhook sql`, Ctrl-C stops a query, also on the server, and discards what was
// typed. The shell remains usable.
func TestCtrlCStopsTheQueryOfTheShell(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	installProgram(t, filepath.Join(home, "bin"))
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo")
	shell := openTerminal(t, home, filepath.Join(home, "bin", "lumenhook"), "sql")
	shell.types("SELECT 40 + 2 AS n;\r", "42")
	running := func() string {
		return s.must("sql", "--format", "csv", "SELECT count() FROM system.processes "+
			"WHERE query LIKE '%ipHash64%' AND query NOT LIKE '%processes%'")
	}
	shell.types("SELECT count() FROM numbers(100000000000) WHERE sipHash64(number) = 1;\r", "= 1;")
	s.eventually("the query runs", func() bool { return running() == "count()\n1\n" })
	shell.types("\x03", "interrupted")
	s.eventually("the query is stopped", func() bool { return running() == "count()\n0\n" })
	shell.types("SELECT 'open\r", "...>")
	shell.types("\x03", "lumenhook> ")
	shell.types("SELECT 41 + 2 AS n;\r", "43")
	shell.types("\\d nosuch\r", "no table or view nosuch")

	s.refused("the setting max_block_size can't be changed", "sql",
		"SELECT 1 SETTINGS max_block_size = 1")
	if out := s.must("sql", "--format", "csv", "SELECT number FROM numbers(10001)"); strings.Count(
		out, "\n") != 10_002 {
		t.Errorf("an export has %d lines", strings.Count(out, "\n"))
	}
}

// A mistake in a users.d file stops the history. The service shows ClickHouse's reason, and doctor
// warns.
func TestAMistakeInUsersD(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	users := filepath.Join(s.dir, "clickhouse", "users.d")
	if err := os.MkdirAll(users, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(users, "shop.xml")
	if err := os.WriteFile(file, []byte("<clickhouse><users><shop></clickhouse>"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start("--no-demo")
	s.eventually("the reason", func() bool {
		return strings.Contains(s.output.String(), "no history yet")
	})
	_, reason, _ := strings.Cut(s.output.String(), "no history yet")
	reason, _, _ = strings.Cut(reason, "\n")
	if !strings.Contains(reason, "Exception: Failed to merge config") ||
		!strings.Contains(reason, "users.d/shop.xml'") || strings.Contains(reason, "Stack trace") {
		t.Errorf("the reason is %q", reason)
	}
	out, _, _ := s.command("doctor", "--only", "clickhouse")
	if !strings.Contains(out, "warning") || !strings.Contains(out, "users.d/shop.xml") {
		t.Errorf("doctor says %s", out)
	}
}
