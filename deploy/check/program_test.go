package check

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const root = "../.."

// built is the path of the program, built as in the image.
var built string

// confine, if set, may turn this process into a confined program, and then does not return.
var confine func()

func TestMain(m *testing.M) {
	if confine != nil {
		confine()
	}
	code := func() int {
		dir, err := os.MkdirTemp("", "lumenhook-check-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		built = filepath.Join(dir, "lumenhook")
		if err := build(built); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}()
	os.Exit(code)
}

var buildArguments = []string{
	"VERSION=v9.8.7", "COMMIT=0123456789abcdef", "DATE=2026-11-22T09:00:00Z",
	"MODIFIED=true",
}

// build runs the build command in the Dockerfile for this machine. It omits -trimpath, which
// would compile everything a second time.
func build(to string) error {
	command, err := buildCommand()
	if err != nil {
		return err
	}
	command = strings.NewReplacer("/out/lumenhook", to, "-trimpath ", "").Replace(command)
	c := exec.Command("sh", "-ec", command)
	c.Dir = root
	c.Env = append(slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") }), buildArguments...)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}

// place is the environment of a command line in an artifact: its variables, and the paths on this
// machine for its own paths.
type place struct {
	name  string
	env   map[string]string
	paths map[string]string
}

// here replaces the paths in a command line with those on this machine, the longest first.
func (p place) here(text string) string {
	from := make([]string, 0, len(p.paths))
	for path := range p.paths {
		from = append(from, path)
	}
	slices.SortFunc(from, func(a, b string) int { return len(b) - len(a) })
	for _, path := range from {
		if before, after, found := strings.Cut(text, path); found &&
			(after == "" || strings.HasPrefix(after, "/")) {
			return before + p.paths[path] + after
		}
	}
	return text
}

// run runs the program with only the place's variables in its environment.
func (p place) run(args ...string) (stdout, stderr string, err error) {
	c := exec.Command(built, args...)
	c.Env = []string{"HOME=/nonexistent"}
	for name, value := range p.env {
		c.Env = append(c.Env, name+"="+p.here(value))
	}
	var out, errors bytes.Buffer
	c.Stdout, c.Stderr = &out, &errors
	err = c.Run()
	return out.String(), errors.String(), err
}

// accepts checks that the program accepts a command line. For `serve`, it runs `config check` and
// returns the settings. For other commands, the program parses flags, variables and values.
func (p place) accepts(args []string) (settings map[string]string, err error) {
	local := make([]string, len(args))
	for i, arg := range args {
		local[i] = p.here(arg)
	}
	if len(local) > 0 && local[0] == "serve" {
		return p.acceptsServe(local[1:])
	}
	for name, value := range p.env {
		flag, ours := strings.CutPrefix(name, "LUMENHOOK_")
		if !ours {
			return nil, fmt.Errorf("%s: %s is no variable of the program", p.name, name)
		}
		flag = strings.ToLower(strings.ReplaceAll(flag, "_", "-"))
		local = append(local, "--"+flag+"="+p.here(value))
	}
	words := local
	if i := slices.IndexFunc(local, func(arg string) bool {
		return strings.HasPrefix(arg, "-")
	}); i >= 0 {
		words = local[:i]
	}
	out, stderr, err := place{}.run(append(local, "--help")...)
	if err != nil {
		return nil, fmt.Errorf("%s: %v: %w\n%s", p.name, args, err, stderr)
	}
	if len(words) == 0 || !strings.Contains(out, "\n  lumenhook "+strings.Join(words, " ")+" ") {
		return nil, fmt.Errorf("%s: %v is no command", p.name, words)
	}
	return nil, nil
}

func (p place) acceptsServe(args []string) (map[string]string, error) {
	out, stderr, err := p.run(append([]string{"config", "check", "--json"}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("%s: serve %v: %w\n%s", p.name, args, err, stderr)
	}
	var shown []struct{ Name, Value string }
	if err := json.Unmarshal([]byte(out), &shown); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", p.name, err, out)
	}
	settings := make(map[string]string)
	for _, s := range shown {
		settings[s.Name] = s.Value
	}
	return settings, nil
}

// endsInTime checks that a process has enough time to stop: an attempt and 2 s, requests in
// flight, and the steps before.
func endsInTime(
	t *testing.T, where string, settings map[string]string, given, before time.Duration,
) {
	t.Helper()
	attempt, err := time.ParseDuration(settings["attempt-timeout"])
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	if needed := before + attempt + 2*time.Second + 5*time.Second; given < needed {
		t.Errorf("%s: killed after %v, and may need %v", where, given, needed)
	}
}

// secret writes a secret of the kind that its name requires.
func secret(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	switch {
	case name == "master-key":
		if _, stderr, err := (place{}).run("secrets", "create", "--master-key-file", path); err != nil {
			t.Fatalf("%v\n%s", err, stderr)
		}
		return
	case strings.HasSuffix(name, "-ca"):
		write(t, path, authority(t))
		return
	}
	write(t, path, "a secret of "+name+"\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func authority(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		IsCA:                  true,
		BasicConstraintsValid: true,
		NotAfter:              time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func roles(t *testing.T) []string {
	t.Helper()
	out, _, err := (place{}).run("serve", "--help")
	words := strings.Join(strings.Fields(out), " ") // the help is wrapped
	_, after, found := strings.Cut(words, "roles of this process: some of ")
	if err != nil || !found {
		t.Fatalf("%v\n%s", err, out)
	}
	names := strings.Split(strings.Fields(after)[0], ",")
	slices.Sort(names)
	return names
}

// Without this test, accepts could accept everything.
func TestTheProgramRefuses(t *testing.T) {
	misspelt := place{env: map[string]string{"LUMENHOOK_KAFKA_BROKER": "kafka:9092"}}
	for _, c := range []struct {
		place
		args []string
	}{
		{place{}, []string{"topics", "create", "--kafka-broker=kafka:9092"}},
		{place{}, []string{"topics", "creat"}},
		{place{}, []string{"topics", "create", "--partitions=many"}},
		{place{}, []string{"serve", "--roles=engine"}},
		{misspelt, []string{"topics", "create"}},
		{
			misspelt,
			[]string{
				"serve", "--roles=projector", "--kafka-brokers=kafka:9092",
				"--clickhouse-dsn=clickhouse://c:9000",
			},
		},
	} {
		if _, err := c.accepts(c.args); err == nil {
			t.Errorf("%v with %v is accepted", c.args, c.env)
		}
	}
	if _, err := (place{}).accepts([]string{"topics", "create", "--partitions=48"}); err != nil {
		t.Error(err)
	}
}
