package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/doctor"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func examined(t *testing.T, args ...string) (code int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	line := commandLine(append([]string{"doctor"}, args...))
	line.Root.SetOut(&stdout)
	line.Stderr = &stderr
	code = cli.Execute(t.Context(), line)
	return code, stdout.String(), stderr.String()
}

// Doctor must find no problem with a running service, and print no secret.
func TestDoctorOfARunningService(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--ledger-interval", "200ms")
	s.eventually("a history", func() bool {
		file, err := runfile.Read(s.dir)
		s.file = file
		return err == nil && file.ClickHouse != nil
	})
	var report doctor.Report
	s.eventually("all is well", func() bool {
		code, out, said := examined(t, "--data-dir", s.dir, "--json")
		if err := json.Unmarshal([]byte(out), &report); err != nil {
			t.Fatalf("%v: %s%s", err, out, said)
		}
		return code == 0
	})
	if len(report.Checks) != len(doctor.Names()) {
		t.Errorf("%d checks were made", len(report.Checks))
	}
	_, table, _ := examined(t, "--data-dir", s.dir)
	for _, want := range []string{
		"the broker of lumenhook run responds", "ClickHouse 2", "no problems (checks: 14, warnings: ",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("it does not say %q:\n%s", want, table)
		}
	}
	for _, secret := range []string{
		s.file.APIKey, s.file.Kafka.Password, s.file.ClickHouse.Password,
		s.file.ClickHouse.Reader.Password,
	} {
		if secret == "" || strings.Contains(table, secret) {
			t.Errorf("it prints the secret %q", secret)
		}
	}
	s.interrupt()
}

// Without the service, doctor makes only the checks that don't need it and lists the others as
// unknown. It must fail, unless none of the others was requested, and it must not create a data
// folder.
func TestDoctorWithoutTheService(t *testing.T) {
	stopped, empty := t.TempDir(), filepath.Join(t.TempDir(), "none")
	folder, err := runfile.Open(stopped)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	for dir, why := range map[string]string{
		stopped: "has been stopped: start it again with `lumenhook run --data-dir " + stopped,
		empty:   "no service has run in " + empty,
	} {
		code, out, said := examined(t, "--data-dir", dir)
		if code != cli.ExitFailure ||
			!strings.Contains(said, "could not be checked: configuration, kafka, topics, ") {
			t.Errorf("it ended with %d: %s", code, said)
		}
		if strings.Count(out, why) != 1 || strings.Contains(said, why) {
			t.Errorf("it does not say %q once:\n%s%s", why, out, said)
		}
		for _, want := range []string{
			"configuration  unknown  ",
			"kafka          unknown  skipped, because the service is not running",
			"clock          unknown  skipped, because the service is not running",
			"files          ok  ", "disk           ok  ", "limits         ok  ",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("of %s it does not say %q:\n%s", dir, want, out)
			}
		}
		if code, out, said = examined(t, "--data-dir", dir, "--only", "disk,limits"); code != 0 {
			t.Errorf("it ended with %d: %s%s", code, out, said)
		}
		code, out, said = examined(t, "--data-dir", dir, "--only", "clock")
		if code != cli.ExitFailure || !strings.Contains(said, why) {
			t.Errorf("it ended with %d, and does not say why: %s%s", code, out, said)
		}
	}
	if _, err := os.Stat(empty); !os.IsNotExist(err) {
		t.Errorf("it made a folder: %v", err)
	}
}

// After a start failed because of a wrong setting, later commands on the folder explain it.
// Commands that check a file say which command a setting belongs to.
func TestAWrongSettingIsExplained(t *testing.T) {
	dir := t.TempDir()
	folder, err := runfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("no-demo: true\negress-alow: [10.0.0.0/8]\n")
	if out, err := program("run", "--config", file, "--data-dir", dir).CombinedOutput(); err == nil {
		t.Fatalf("it started: %s", out)
	}
	for _, line := range []string{"health", "doctor"} {
		out, err := program(line, "--data-dir", dir).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "; it failed before: ") ||
			!strings.Contains(string(out), "run.yaml:2: egress-alow sets nothing; did you mean egress-allow") {
			t.Errorf("%s ended with %v: %s", line, err, out)
		}
	}
	write("no-demo: true\negress-allow: [10.0.0.0/8]\n")
	out, err := program("config", "check", "--config", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out),
		"no-demo sets nothing; it is a setting of `lumenhook run`") {
		t.Errorf("config check ended with %v: %s", err, out)
	}
	if code, out, said := examined(t, "--config", file, "--data-dir", dir, "--only",
		"disk"); code != 0 {
		t.Errorf("doctor refuses a file of run with %d: %s%s", code, out, said)
	}
}

// Given the files of serve, doctor reports what serve would fail with.
func TestDoctorTakesTheFilesOfServe(t *testing.T) {
	file, secrets := aFileOfServe(t, newGuardedBroker(t, "file", "right"), "wrong-password")
	if err := os.Remove(filepath.Join(secrets, "smtp-password")); err != nil { // it needs --smtp-addr
		t.Fatal(err)
	}
	files := []string{
		"--config", file, "--secrets-dir", secrets, "--roles", "projector", "--data-dir", t.TempDir(),
	}
	code, out, said := examined(t, append(files, "--only", "kafka,topics,clickhouse,disk")...)
	if code != cli.ExitFailure || strings.Contains(out+said, "wrong-password") {
		t.Errorf("it ended with %d:\n%s%s", code, out, said)
	}
	for _, want := range []string{
		"the broker closed the connection", "topics         unknown  no broker answers",
		"clickhouse     PROBLEM  ", "disk           ok",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if !strings.Contains(said, "there are problems: kafka, clickhouse") {
		t.Error(said)
	}
	code, out, _ = examined(t, append(files, "--only", "configuration", "--partitions", "-1")...)
	if code != cli.ExitUsage || !strings.Contains(out, "--partitions -1: must be 0 or more") {
		t.Errorf("it ended with %d:\n%s", code, out)
	}
}
