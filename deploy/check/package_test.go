//go:build package

package check

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// jail is a bare Debian system on which a package can be installed: an overlay over [debianBase]
// that keeps its writes in memory. Its network has no connection to the outside.
type jail struct {
	t      *testing.T
	holder *exec.Cmd
	share  string // path of /share outside the jail

	program string // the program in the packages
}

// jailScript sets up the jail in new namespaces and keeps it until it is killed.
const jailScript = `set -euo pipefail
mount -t tmpfs tmpfs "$1"
mkdir "$1"/{upper,work,root}
mount -t overlay -o lowerdir="$3",upperdir="$1"/upper,workdir="$1"/work overlay "$1"/root
root="$1"/root
mkdir -p "$root"/{share,old,run,root,tmp}
echo "127.0.0.1 localhost" > "$root"/etc/hosts
mount --bind "$2" "$root"/share
mount -t proc proc "$root"/proc
mount --rbind /dev "$root"/dev
mount -t tmpfs tmpfs "$root"/tmp
mount -t tmpfs tmpfs "$root"/run
mkdir -p "$root"/run/systemd/system
cd "$root"
pivot_root . old
umount -l /old
chmod 1777 /tmp
ip link set lo up
echo ready
sleep infinity & # the shell stays, and reaps what others leave behind
wait`

// debianBase returns a folder with a bare Debian. debootstrap creates it once and verifies its
// packages. systemd is installed for the tools that the package's scripts use, but not started.
func debianBase(t *testing.T) string {
	t.Helper()
	const suite, packages = "bookworm",
		"ca-certificates,iproute2,nftables,nginx-light,procps,python3-minimal,systemd"
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "lumenhook", "debian-"+suite+"-"+strings.ReplaceAll(packages, ",", "-"))
	if _, err := os.Stat(base); err == nil {
		return base
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		t.Fatal(err)
	}
	half, err := os.MkdirTemp(filepath.Dir(base), ".debian-")
	if err != nil {
		t.Fatal(err)
	}
	// #nosec G204 -- constants
	out, err := exec.Command("debootstrap", "--variant=minbase", "--include="+packages, suite,
		half).CombinedOutput()
	if err == nil {
		err = errors.Join(os.Chmod(half, 0o755), os.Rename(half, base))
	}
	if err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, out)
	}
	return base
}

func newJail(t *testing.T) *jail {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test installs packages into namespaces: run it as root")
	}
	j := &jail{t: t, share: t.TempDir()}
	// #nosec G204 -- our own script
	j.holder = exec.Command("unshare", "--mount", "--propagation", "private", "--net", "--pid", "--fork",
		"--kill-child", "bash", "-c", jailScript, "jail", t.TempDir(), j.share, debianBase(t))
	j.holder.Stderr = os.Stderr
	out, err := j.holder.StdoutPipe()
	if err == nil {
		err = j.holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = j.holder.Process.Kill()
		_ = j.holder.Wait()
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("the namespaces: %v", err)
	}
	j.copySelf()
	return j
}

func (j *jail) inside(args ...string) *exec.Cmd {
	init, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", j.holder.Process.Pid))
	if err != nil {
		j.t.Fatal(err)
	}
	c := exec.Command("nsenter", append([]string{"--target", strings.Fields(string(init))[0],
		"--mount", "--net", "--pid", "--wdns=/root"}, args...)...)
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	return c
}

func (j *jail) does(script string) string {
	j.t.Helper()
	out, err := j.inside("bash", "-euo", "pipefail", "-c", script).CombinedOutput()
	if err != nil {
		j.t.Fatalf("%s\nended with %v:\n%s", script, err, out)
	}
	return string(out)
}

// shows checks that a script prints the expected output.
func (j *jail) shows(script, want string) {
	j.t.Helper()
	if got := strings.TrimSpace(j.does(script)); got != want {
		j.t.Errorf("%s\nshows %q, and should show %q", script, got, want)
	}
}

func (j *jail) copySelf() {
	j.t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(j.share, "check"), self, 0o755)
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// packages writes two versions of the .deb to the jail's /share.
func (j *jail) packages() {
	j.t.Helper()
	makeShellFiles(j.t)
	program := filepath.Join(j.t.TempDir(), "lumenhook")
	c := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program, "./cmd/lumenhook")
	c.Dir = root
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		j.t.Fatalf("%v\n%s", err, out)
	}
	for file, version := range map[string]string{"lumenhook.deb": "9.8.7", "newer.deb": "9.8.8"} {
		f, err := os.Create(filepath.Join(j.share, file))
		if err != nil {
			j.t.Fatal(err)
		}
		writePackage(j.t, f, "deb", version, program)
		if err := f.Close(); err != nil {
			j.t.Fatal(err)
		}
	}
	j.program = program
	j.engineArchive(program)
}

// engineArchive writes the engine on this machine as an archive in the format of `npm pack`.
func (j *jail) engineArchive(program string) {
	j.t.Helper()
	out, err := exec.Command(program, "install-clickhouse").Output()
	if err != nil {
		j.t.Fatalf("install-clickhouse: %v", err)
	}
	library, err := os.Open(strings.TrimSpace(string(out)))
	if err != nil {
		j.t.Fatal(err)
	}
	defer library.Close()
	info, err := library.Stat()
	if err != nil {
		j.t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(j.share, "chdb.tgz"))
	if err != nil {
		j.t.Fatal(err)
	}
	defer f.Close()
	zip, _ := gzip.NewWriterLevel(f, gzip.NoCompression)
	w := tar.NewWriter(zip)
	err = w.WriteHeader(&tar.Header{
		Name: "package/" + filepath.Base(library.Name()), Mode: 0o644, Size: info.Size(),
	})
	if err == nil {
		_, err = io.Copy(w, library)
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = zip.Close()
	}
	if err != nil {
		j.t.Fatal(err)
	}
}

// systemctl is a script that handles the package's units as systemd does, and logs its calls.
const systemctl = `#!/bin/bash
set -euo pipefail
echo "$*" >> /run/systemctl.log
command=$1
shift
now=
for argument; do case $argument in
  --now) now=yes ;;
esac; done
start() {
  local unit=/usr/lib/systemd/system/$1.service
  local command
  command=$(sed -n 's/^ExecStart=//p' $unit | sed 's/%%/%/g')
  if [[ ! -e /share/$1 ]]; then # a unit of Debian
    eval "$command"
  elif [[ $1 == lumenhook ]]; then
    if [[ -e /share/world.yaml ]] && ! grep -q egress-ca /etc/lumenhook/run.yaml; then
      cat /share/world.yaml >> /etc/lumenhook/run.yaml # of the test's world
    fi
    install -d -o lumenhook -g lumenhook -m 0700 /var/lib/lumenhook
    eval "setsid /share/$1 $command >> /run/$1.log 2>&1 < /dev/null &"
    echo $! > /run/$1.pid
  else
    local before
    while read -r before; do
      eval "/share/$1 $before" < /dev/null
    done < <(sed -n 's/^ExecStartPre=//p' $unit)
    eval "/share/$1 $command"
  fi
}
stop() {
  local pid
  pid=$(cat /run/$1.pid 2>/dev/null) || return 0
  kill -TERM $pid 2>/dev/null || true
  timeout 60 tail --pid=$pid -f /dev/null
  rm /run/$1.pid
}
for unit; do
  unit=${unit%.service}
  case "$command $now $unit" in
    *" --now" | *.timer) ;;
    "enable yes "* | "start  "*) start $unit ;;
    "disable yes "* | "stop  "*) stop $unit ;;
    "restart  nginx") if [[ -s /run/nginx.pid ]]; then nginx -s reload; else start nginx; fi ;;
    "restart  "*) stop $unit; start $unit ;;
    "try-restart  "*) if [[ -e /run/$unit.pid ]]; then stop $unit; start $unit; fi ;;
  esac
done
`

// furnish installs systemctl in the jail, and a script with the sandbox of each unit.
func (j *jail) furnish() {
	j.t.Helper()
	for _, unit := range []string{"lumenhook", "lumenhook-backup"} {
		script := sandboxScript(j.t, "../systemd/"+unit+".service", "/share/check")
		if err := os.WriteFile(filepath.Join(j.share, unit), []byte(script), 0o755); err != nil {
			j.t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(j.share, "systemctl"), []byte(systemctl), 0o755); err != nil {
		j.t.Fatal(err)
	}
	j.does("cp /share/systemctl /usr/bin/systemctl") // where apt-get looks for it
}

func (j *jail) eventually(script string) string {
	j.t.Helper()
	deadline := time.Now().Add(40 * time.Second)
	for {
		out, err := j.inside("bash", "-euo", "pipefail", "-c", script).CombinedOutput()
		if err == nil {
			return string(out)
		}
		if time.Now().After(deadline) {
			j.t.Fatalf("%s\nnever succeeds: %v\n%s\nthe service's log:\n%s", script, err, out,
				j.does("cat /run/lumenhook.log"))
		}
		j.does("sleep 0.3")
	}
}

// TestThePackage installs the .deb with dpkg, upgrades it and removes it. The service runs in the
// sandbox of its unit with the embedded ClickHouse, and must deliver.
func TestThePackage(t *testing.T) {
	j := newJail(t)
	j.packages()
	j.furnish()
	j.does("dpkg --install /share/lumenhook.deb")
	for name, mode := range inEveryPackage {
		j.shows("stat -c '%U %G %a' "+name, fmt.Sprintf("root root %o", mode))
	}
	j.shows("dpkg-query --showformat='${Conffiles}' --show lumenhook", "") // an upgrade asks nothing
	j.shows("stat -c '%U %G %a %n' /var/lib/lumenhook /var/cache/lumenhook /var/backups/lumenhook",
		"lumenhook lumenhook 700 /var/lib/lumenhook\nlumenhook lumenhook 755 /var/cache/lumenhook\n"+
			"lumenhook lumenhook 700 /var/backups/lumenhook")
	j.shows("getent passwd lumenhook | cut -d: -f6-7", "/var/lib/lumenhook:/usr/sbin/nologin")
	j.shows("sort -u /run/systemctl.log", "daemon-reload\ntry-restart lumenhook.service")
	j.shows("ls /run/*.pid 2>/dev/null || echo nothing is started", "nothing is started")

	j.does(`lumenhook install-clickhouse --from /share/chdb.tgz --cache-dir /var/cache/lumenhook`)
	j.does("printf 'demo-interval: 1s\\nlog-level: info\\n' > /etc/lumenhook/run.yaml")
	j.does("systemctl enable --now lumenhook")
	j.eventually("lumenhook health --data-dir /var/lib/lumenhook")
	j.eventually("lumenhook events list --data-dir /var/lib/lumenhook | grep DELIVERED")
	j.isConfined()
	j.shows("stat -c '%U:%G %a' /etc/lumenhook/run.yaml", "root:lumenhook 640")
	j.does("systemctl stop lumenhook")
	j.shows("(lumenhook run --data-dir /var/lib/lumenhook 2>&1 || true) | grep -o 'run this as that user'",
		"run this as that user")
	j.shows("find /var/lib/lumenhook -user root", "")
	j.does("systemctl start lumenhook")

	j.does("dpkg --install /share/newer.deb") // also restarts the service
	j.shows("cat /etc/lumenhook/run.yaml", "demo-interval: 1s\nlog-level: info")
	j.eventually("lumenhook health --data-dir /var/lib/lumenhook")
	delivered := j.eventually("lumenhook events list --data-dir /var/lib/lumenhook | grep DELIVERED")
	j.does("dpkg --remove lumenhook")
	j.shows("ls /run/*.pid 2>/dev/null || echo it is stopped", "it is stopped")
	j.does("test -s /var/lib/lumenhook/secrets/master-key.json -a -s /etc/lumenhook/run.yaml")
	j.does("test ! -e /usr/bin/lumenhook")
	j.does("dpkg --purge lumenhook; test ! -e /etc/lumenhook -a -s /var/lib/lumenhook/secrets/master-key.json")
	j.does("dpkg --install /share/newer.deb")
	j.does("printf 'demo-interval: 1s\\n' > /etc/lumenhook/run.yaml; systemctl start lumenhook")
	event := strings.Fields(delivered)[0]
	j.eventually("lumenhook events get " + event + " --data-dir /var/lib/lumenhook")
}

// isConfined checks that the service and its ClickHouse cannot leave the sandbox.
func (j *jail) isConfined() {
	j.t.Helper()
	const engine = "$(pgrep -P $(cat /run/lumenhook.pid) | head -1)"
	for _, process := range []string{"$(cat /run/lumenhook.pid)", engine} {
		j.shows("grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/"+process+"/status | tr -d '\\t'",
			"CapPrm:0000000000000000\nCapEff:0000000000000000\nNoNewPrivs:1\nSeccomp:2")
	}
	for command, refused := range map[string]string{
		"touch /etc/x":             "Read-only file system",
		"touch /usr/bin/x":         "Read-only file system",
		"ls /root":                 "Permission denied",
		"unshare --net":            "Operation not permitted",
		"mount -t proc proc /proc": "superuser",
		"python3 -c 'import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)'": "not permitted",
	} {
		out, err := j.inside("bash", "-c", "/share/lumenhook /bin/sh -c \"$0\"", command).CombinedOutput()
		if err == nil || !strings.Contains(string(out), refused) {
			j.t.Errorf("%s in the sandbox: %v, %s, and not %q", command, err, out, refused)
		}
	}
	j.does("/share/lumenhook /usr/bin/touch /var/lib/lumenhook/x /var/cache/lumenhook/x /tmp/x")
}
