package check

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-systemd/v22/unit"
)

// unitFile returns the values in a unit by section and name.
func unitFile(t *testing.T, path string) map[string][]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	options, err := unit.DeserializeOptions(file)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string][]string)
	for _, o := range options {
		name := o.Section + "." + o.Name
		values[name] = append(values[name], o.Value)
	}
	return values
}

// environmentFile reads the variables in a file as systemd does, as far as our files need it.
func environmentFile(t *testing.T, path string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return env
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if name, value, found := strings.Cut(lines.Text(), "="); found && !strings.HasPrefix(name, "#") {
			env[name] = value
		}
	}
	return env
}

// secretsOfRoles lists the content of each role's secrets folder in docs/operate/cluster.md.
var secretsOfRoles = map[string][]string{
	"api":       {"kafka-password", "kafka-ca", "master-key", "clickhouse-password"},
	"engine":    {"kafka-password", "kafka-ca", "master-key"},
	"follower":  {"kafka-password", "kafka-ca"},
	"projector": {"kafka-password", "kafka-ca", "clickhouse-password"},
	"mailer":    {"kafka-password", "kafka-ca", "smtp-password"},
}

// Every role's process must accept the command line of the unit, with its files where the unit
// has them.
func TestUnitsStartEveryRole(t *testing.T) {
	service := unitFile(t, "../systemd/lumenhook@.service")
	stop, err := time.ParseDuration(service["Service.TimeoutStopSec"][0] + "s")
	if err != nil {
		t.Fatal(err)
	}
	listens := make(map[string]string)
	for _, role := range roles(t) {
		at := func(text string) string {
			return strings.NewReplacer("%i", role, "%H", "host-1").Replace(text)
		}
		dir := t.TempDir()
		for _, name := range secretsOfRoles[role] {
			secret(t, dir, name)
		}
		config, err := filepath.Abs("../systemd/lumenhook.yaml")
		if err != nil {
			t.Fatal(err)
		}
		p := place{
			name: "lumenhook@" + role,
			env:  environmentFile(t, "../systemd/"+role+".env"),
			paths: map[string]string{
				"/etc/lumenhook/lumenhook.yaml":  config,
				"/etc/lumenhook/secrets/" + role: dir,
			},
		}
		words := strings.Fields(at(service["Service.ExecStart"][0]))
		settings, err := p.accepts(words[1:])
		if err != nil {
			t.Error(err)
			continue
		}
		endsInTime(t, p.name, settings, stop, 0)
		if want := at("/var/lib/" + service["Service.StateDirectory"][0]); settings["data-dir"] != want {
			t.Errorf("%s keeps its state in %s, and may write %s", role, settings["data-dir"], want)
		}
		if settings["supervised"] != "true" {
			t.Errorf("%s is not supervised", role)
		}
		if other := listens[settings["metrics-listen"]]; other != "" {
			t.Errorf("%s and %s have one port of metrics", role, other)
		}
		listens[settings["metrics-listen"]] = role
	}
}

func TestUnitsAreConfined(t *testing.T) {
	service := unitFile(t, "../systemd/lumenhook@.service")
	for name, want := range map[string]string{
		"User":            "lumenhook",
		"NoNewPrivileges": "yes", "ProtectSystem": "strict", "CapabilityBoundingSet": "",
		"KillSignal": "SIGTERM", "Restart": "always", "RestartPreventExitStatus": "2",
		"KillMode":  "mixed", // otherwise a supervisor and its child would both receive the signal
		"OOMPolicy": "continue",
		"LimitCORE": "0", "LimitNOFILE": "65536",
	} {
		if got := service["Service."+name]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	run := unitFile(t, "../systemd/lumenhook.service")
	if env := strings.Join(run["Service.Environment"], " "); !strings.Contains(env, "GOTRACEBACK=crash") {
		t.Errorf("a panic would exit with 2, and the service would stay down: %s", env)
	}
	for _, name := range []string{
		"User", "NoNewPrivileges", "ProtectSystem", "CapabilityBoundingSet", "KillSignal", "Restart",
		"RestartPreventExitStatus", "KillMode", "OOMPolicy", "LimitCORE", "LimitNOFILE",
		"StateDirectoryMode", "RestrictAddressFamilies",
	} {
		if got, want := run["Service."+name], service["Service."+name]; !slices.Equal(got, want) {
			t.Errorf("%s of lumenhook.service is %q, and of the roles %q", name, got, want)
		}
	}
	users, err := os.ReadFile("../systemd/lumenhook.sysusers")
	if err != nil || !strings.Contains(string(users), "\nu "+service["Service.User"][0]+" ") {
		t.Errorf("nobody makes the unit's user (%v)", err)
	}
}

// The backup unit must make space before a backup. It deletes old backups and what interrupted
// backups left, but never the newest backup.
func TestUnitOfBackupsMakesSpace(t *testing.T) {
	const day = 24 * time.Hour
	service := unitFile(t, "../systemd/lumenhook-backup.service")
	const one, two, three = "2026-11-01T010203Z", "2026-11-02T010203Z", "2026-11-03T010203Z"
	for name, c := range map[string]struct {
		complete, half map[string]time.Duration // ages by name
		left           []string
	}{
		"nothing": {},
		"old ones": {
			complete: map[string]time.Duration{one: 20 * day, two: 13 * day, three: 0},
			left:     []string{two, three},
		},
		"no newer one": {
			complete: map[string]time.Duration{one: 30 * day, two: 20 * day},
			half:     map[string]time.Duration{three: time.Hour},
			left:     []string{one, two, three},
		},
		"interrupted": {
			complete: map[string]time.Duration{one: 3 * day},
			half:     map[string]time.Duration{two: 49 * time.Hour, three: time.Hour},
			left:     []string{one, three},
		},
		"not the unit's": {
			complete: map[string]time.Duration{one: 3 * day},
			half:     map[string]time.Duration{"secrets-2026-11-03": 3 * day},
			left:     []string{one, "secrets-2026-11-03"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for name, age := range c.half {
				aged(t, filepath.Join(dir, name), age)
			}
			for name, age := range c.complete {
				aged(t, filepath.Join(dir, name, "manifest.json"), age)
				aged(t, filepath.Join(dir, name), age)
			}
			for _, command := range service["Service.ExecStartPre"] {
				script := strings.ReplaceAll(command, "/var/backups/lumenhook", dir)
				if out, err := exec.Command("sh", "-euc", script).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", script, err, out)
				}
			}
			entries, err := os.ReadDir(dir)
			var left []string
			for _, e := range entries {
				left = append(left, e.Name())
			}
			if err != nil || !slices.Equal(left, c.left) {
				t.Errorf("it leaves %q (%v), and should leave %q", left, err, c.left)
			}
		})
	}
}

// aged creates a folder, or an empty file if the path ends in .json, with the given age.
func aged(t *testing.T, path string, age time.Duration) {
	t.Helper()
	folder, isFile := path, filepath.Ext(path) == ".json"
	if isFile {
		folder = filepath.Dir(path)
	}
	err := os.MkdirAll(filepath.Join(folder, "broker"), 0o700)
	if isFile {
		err = errors.Join(err, os.WriteFile(path, nil, 0o600))
	}
	at := time.Now().Add(-age)
	if err := errors.Join(err, os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
}
