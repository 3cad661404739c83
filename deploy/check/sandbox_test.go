//go:build package

package check

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/sys/unix"
)

// Where systemd cannot run, the test builds a unit's sandbox from its settings with util-linux.
// This program itself restricts the system calls and then executes the unit's program.

// callsVariable is the environment variable with the system calls that the unit allows.
const callsVariable = "CHECK_SYSTEM_CALLS"

// denyWriteExecute is listed among the system calls to enable this setting.
const denyWriteExecute = "MemoryDenyWriteExecute"

func init() { confine = confineByVariable }

func confineByVariable() {
	calls := strings.Fields(os.Getenv(callsVariable))
	if len(calls) == 0 {
		return
	}
	os.Unsetenv(callsVariable)
	runtime.LockOSThread() // a filter applies to one thread, which must be the one that executes
	err := seccomp.LoadFilter(seccomp.Filter{NoNewPrivs: true, Policy: unitPolicy(calls)})
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "confining:", err)
	os.Exit(125)
}

// unitPolicy allows the given system calls, except with arguments that units forbid:
// MemoryDenyWriteExecute and RestrictAddressFamilies (all but IP and Unix). RestrictNamespaces
// forbids unshare and setns.
func unitPolicy(calls []string) seccomp.Policy {
	known, err := arch.GetInfo("")
	if err != nil {
		panic(err)
	}
	allowed := slices.DeleteFunc(slices.Clone(calls), func(name string) bool {
		_, found := known.SyscallNames[name]
		return !found || slices.Contains([]string{"unshare", "setns"}, name)
	})
	set := func(argument uint32, bits uint64) seccomp.Condition {
		return seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: bits}
	}
	not := func(value uint64) seccomp.Condition {
		return seccomp.Condition{Operation: seccomp.NotEqual, Value: value}
	}
	refused := []seccomp.NameWithConditions{
		{Name: "socket", Conditions: seccomp.ArgumentConditions{
			not(unix.AF_INET), not(unix.AF_INET6), not(unix.AF_UNIX)}},
	}
	if slices.Contains(calls, denyWriteExecute) {
		refused = append(refused,
			seccomp.NameWithConditions{Name: "mmap", Conditions: seccomp.ArgumentConditions{
				set(2, unix.PROT_WRITE), set(2, unix.PROT_EXEC)}},
			seccomp.NameWithConditions{Name: "mprotect", Conditions: seccomp.ArgumentConditions{
				set(2, unix.PROT_EXEC)}})
	}
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{
			{Action: seccomp.ActionErrno, NamesWithCondtions: refused},
			{Action: seccomp.ActionAllow, Names: allowed},
		},
	}
}

// allowedCalls expands SystemCallFilter. The lines apply in order, and those with ~ remove calls.
func allowedCalls(t *testing.T, filters []string) []string {
	t.Helper()
	allowed := make(map[string]bool)
	for _, line := range append([]string{"@default"}, filters...) {
		names, removes := strings.CutPrefix(line, "~")
		for _, name := range expandCalls(t, strings.Fields(names)) {
			if removes {
				delete(allowed, name)
			} else {
				allowed[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(allowed))
}

func expandCalls(t *testing.T, names []string) (calls []string) {
	t.Helper()
	for _, name := range names {
		if !strings.HasPrefix(name, "@") {
			calls = append(calls, name)
			continue
		}
		out, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") && line != name {
				calls = append(calls, expandCalls(t, strings.Fields(line))...)
			}
		}
	}
	return calls
}

// sandboxScript returns a bash script that runs a command under a unit's restrictions, as the
// unit's user: sandboxScript COMMAND…. helper is the path of this program where the script runs.
func sandboxScript(t *testing.T, path, helper string) string {
	t.Helper()
	all := unitFile(t, path)
	get := func(name string) string { return strings.Join(all["Service."+name], " ") }
	for name, want := range map[string]string{ // hard-coded in the script
		"User": "lumenhook", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
		"PrivateDevices": "yes", "NoNewPrivileges": "yes", "CapabilityBoundingSet": "",
		"RestrictNamespaces": "yes", "UMask": "0077",
		"RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
	} {
		if got, is := all["Service."+name]; !is || got[0] != want {
			t.Fatalf("%s: %s is %q, and the sandbox is for %q", path, name, got, want)
		}
	}
	writable := strings.Fields(get("ReadWritePaths"))
	for _, folder := range strings.Fields(get("StateDirectory")) {
		writable = append(writable, "/var/lib/"+folder)
	}
	for _, folder := range strings.Fields(get("CacheDirectory")) {
		writable = append(writable, "/var/cache/"+folder)
	}
	calls := allowedCalls(t, all["Service.SystemCallFilter"])
	if get(denyWriteExecute) == "yes" {
		calls = append(calls, denyWriteExecute)
	}
	return fmt.Sprintf(`#!/bin/bash
# The sandbox of %s
set -euo pipefail
if [[ ${1-} != inside ]]; then
  exec unshare --mount --propagation private "$0" inside "$@"
fi
shift
for folder in %s; do mount --bind $folder $folder; done
mount -o remount,bind,ro /
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
for folder in /home /root; do mount -t tmpfs -o ro,mode=000 tmpfs $folder; done
mkdir /tmp/dev
for device in null zero full random urandom; do
  touch /tmp/dev/$device
  mount --bind /dev/$device /tmp/dev/$device
done
ln -s /proc/self/fd /tmp/dev/fd
mount --rbind /tmp/dev /dev
mount -t proc -o nosuid,nodev,noexec,hidepid=invisible proc /proc
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
umask 0077
cd /
ulimit -c 0
uid=$(id -u lumenhook) gid=$(id -g lumenhook)
exec env -i HOME=/var/lib/lumenhook PATH=/usr/local/bin:/usr/bin LANG=C.UTF-8 %s \
  CHECK_SYSTEM_CALLS='%s' setpriv --reuid $uid --regid $gid --clear-groups \
  --bounding-set=-all --inh-caps=-all --no-new-privs \
  unshare --user --map-user=$uid --map-group=$gid %s "$@"
`, path, strings.Join(writable, " "), get("Environment"),
		strings.Join(calls, " "), helper)
}
