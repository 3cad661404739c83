package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/testkit"
)

// saidRemoved is a supervisor's message after the brokers have removed the process that died. Once
// the session has expired, there is no such member to remove.
const saidRemoved = `it was removed from its group, before its session ended"`

// supervised returns an engine that runs under a supervisor.
func (a *addresses) supervised(name, config, secrets string, more ...string) *role {
	return &role{t: a.t, name: name, args: append([]string{
		"serve", "--config", config, "--secrets-dir", secrets, "--roles", "engine",
		"--node-name", name, "--data-dir", filepath.Join(a.dir, name), "--supervised",
	}, more...)}
}

func (r *role) exitCode() int {
	r.t.Helper()
	var err error
	select {
	case err = <-r.exited:
	case <-time.After(testkit.Patience(r.t)):
		r.t.Fatalf("%s did not end:\n%s", r.name, r.output)
	}
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		return exit.ExitCode()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return 0
}

func (r *role) says(what string) bool { return strings.Contains(r.output.String(), what) }

// When an engine is killed, its supervisor has the brokers remove it, so that others take over its
// partitions before its session expires. An engine that stops in order is not removed.
func TestAnEngineThatIsKilledIsRemovedByItsSupervisor(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	config, secrets := a.configure()
	first := a.supervised("first", config, secrets)
	first.start()
	first.untilReady()
	second := a.supervised("second", config, secrets, "--") // no flags can follow
	second.start()
	second.untilReady()
	first.until("both have partitions", func() bool {
		return first.says("a partition was taken over") && second.says("a partition was taken over")
	})

	first.signal(syscall.SIGKILL)
	if code := first.exitCode(); code != 128+int(syscall.SIGKILL) {
		t.Errorf("it ended with %d:\n%s", code, first.output)
	}
	if !first.says(saidRemoved) {
		t.Errorf("nothing was removed:\n%s", first.output)
	}
	second.until("it has all of the partitions", func() bool {
		return strings.Count(second.output.String(), "a partition was taken over") == 4
	})
	second.terminate() // the supervisor passes the signal on
	if !second.says(`"msg":"stopped"`) || second.says("was removed") {
		t.Errorf("it did not end in order:\n%s", second.output)
	}
}

// A supervised process exits with its child's code, even if the child could not begin.
func TestASupervisedProcessEndsAsItsChild(t *testing.T) {
	t.Parallel()
	a := newAddresses(t)
	config, secrets := a.configure()
	r := a.supervised("first", config, secrets, "--data-dir", config) // not a folder
	r.start()
	if code := r.exitCode(); code != 1 || !r.says(config) {
		t.Errorf("it ended with %d:\n%s", code, r.output)
	}
	if lines := strings.Split(r.output.String(), "\n"); !strings.Contains(lines[0], `"version":"`) ||
		!r.says(`"msg":"lumenhook is starting","version":"`) {
		t.Errorf("the log does not begin with the version:\n%s", r.output)
	}
	if r.says("was removed") || r.says("wait for the end") {
		t.Errorf("it never was in a group:\n%s", r.output)
	}
}

// Only the name tells the group which member died, so a name is required.
func TestASupervisedProcessMustHaveAName(t *testing.T) {
	out, err := program("serve", "--roles", "follower", "--kafka-brokers", "127.0.0.1:1",
		"--network", "testnet", "--supervised").CombinedOutput()
	exit, is := errors.AsType[*exec.ExitError](err)
	if !is || exit.ExitCode() != 2 ||
		!strings.Contains(string(out), "--supervised: needs --node-name") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
}
