package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

func exitCode(t *testing.T, environment []string, args ...string) (code int, output string) {
	t.Helper()
	c := program(args...)
	c.Env = append(c.Env, environment...)
	out, err := c.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode(), string(out)
}

func TestTheProgramSaysHowACommandLineIsWrong(t *testing.T) {
	for _, c := range []struct {
		says        string
		code        int
		environment []string
		args        []string
	}{
		{
			`unknown command "foo" for "lumenhook endpoints" (known: create,`, cli.ExitUsage,
			nil, []string{"endpoints", "foo"},
		},
		{
			`unknown command "foo" for "lumenhook topics" (known: acls, cat,`, cli.ExitUsage,
			nil, []string{"topics", "foo"},
		},
		{"LUMENHOOK_RETRY_SHEDULE sets nothing; did you mean LUMENHOOK_RETRY_SCHEDULE?", cli.ExitUsage,
			[]string{"LUMENHOOK_RETRY_SHEDULE=1s", "LUMENHOOK_MASTER_KEY=x", "LUMENHOOK_CACHE_DIR=x"},
			[]string{"run", "--data-dir", t.TempDir()}},
		{
			`LUMENHOOK_ATTEMPT_TIMEOUT="soon": must be a duration such as`, cli.ExitUsage,
			[]string{"LUMENHOOK_ATTEMPT_TIMEOUT=soon"},
			[]string{"run", "--data-dir", t.TempDir()},
		},
		{
			"", 0,
			[]string{"LUMENHOOK_API_KEY=of another command", "LUMENHOOK_PORT=tcp://10.0.0.1:80"},
			[]string{"version"},
		},
		{`"go": "go1.`, 0, nil, []string{"version", "--json"}},
	} {
		code, out := exitCode(t, c.environment, c.args...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v ended with %d, and should end with %d and say %q:\n%s",
				c.args, code, c.code, c.says, out)
		}
	}
}

// `make build` must pass the commit to the linker, because the Go command may not find version
// control.
func TestTheMakefileNamesTheBuild(t *testing.T) {
	commit, err := exec.Command("git", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatalf("git: %v", err)
	}
	out, err := exec.Command("make", "-n", "-C", "../..", "build").CombinedOutput()
	if err != nil ||
		!strings.Contains(string(out), "internal/cli.commit="+strings.TrimSpace(string(commit))) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestTheCommandLineBesideAService runs a user's commands while the service is running, serves TLS,
// has been stopped, and has been killed.
func TestTheCommandLineBesideAService(t *testing.T) {
	t.Parallel()
	s := &testService{t: t, dir: filepath.Join(t.TempDir(), "data")}
	s.refused("no service has run in "+s.dir, "endpoints", "list")
	flags := []string{"--no-demo", "--egress-ports", "1024-65535"}
	s.start(flags...)
	for _, local := range []string{"http://127.0.0.1:8443/", "http://localhost:3000/hook"} {
		s.refused("--url: must begin with https://; `lumenhook listen --forward-to URL` posts",
			"endpoints", "create", "--url", local)
	}
	s.refused(`--state "LOST": must be one of QUEUED, WAITING, DELIVERED, FAILED, CANCELLED`, "events", "list",
		"--state", "LOST")
	s.refused("--wallet: ", "watches", "create", "--wallet", "G123", "--endpoint", "ep_1")
	s.tellsOfATwin()
	_, said, _ := s.command("watches", "create", "--wallet", "G123", "--endpoint", "ep_1", "--asset",
		"USD:X")
	if strings.Contains(said, "errors names") || !strings.Contains(said, `--asset "USD:X": `) {
		t.Errorf("the API's words: %s", said)
	}
	s.refused("--api-key is required with --api-url http://127.0.0.1:1", "endpoints", "list",
		"--api-url", "http://127.0.0.1:1")
	for _, end := range []string{"", "/", "/v1", "/v1/"} {
		s.must("endpoints", "list", "--api-url", s.file.APIURL+end)
		s.must("coverage", "--api-url", s.file.APIURL+end, "--api-key", s.file.APIKey)
	}
	for _, asked := range []string{"plan", "check", "create"} {
		if said := s.must("topics", asked); !strings.Contains(said,
			"as `lumenhook run` promises: one copy") {
			t.Errorf("topics %s of its own broker: %s", asked, said)
		}
	}
	if said := s.must("health", "--field", "status"); said != "ready\n" {
		t.Errorf("it is %s", said)
	}
	s.refused("the service only posts to the ports 1024-65535", "devnet", "receiver", "--secret-file",
		"x", "--listen", "127.0.0.1:443")

	file := filepath.Join(t.TempDir(), "secret")
	id := strings.TrimSpace(s.must("endpoints", "create", "--url", "https://127.0.0.1:1025/",
		"--secret-out", file, "--field", "id"))
	out := s.must("endpoints", "rotate-secret", id, "--secret-out", file, "--json")
	if strings.Contains(out, "whsec_") {
		t.Errorf("the secret is shown: %s", out)
	}
	kept, err := os.ReadFile(file)
	if info, statErr := os.Stat(file); err != nil || statErr != nil || info.Mode().Perm() != 0o600 ||
		strings.Count(string(kept), "whsec_") != 2 {
		t.Errorf("the file of secrets: %v, %v, %s", err, statErr, kept)
	}
	s.verifies(strings.Fields(string(kept))[0], file)

	cert := filepath.Join(t.TempDir(), "cert")
	s.must("devnet", "cert", "--out", cert)
	s.interrupt()
	s.refused("has been stopped: start it again with `lumenhook run --data-dir "+s.dir, "endpoints",
		"list")
	s.start(append(flags, "--api-tls-cert", cert+"/cert.pem", "--api-tls-key", cert+"/key.pem")...)
	s.must("endpoints", "list") // run.json names the CA file
	s.must("endpoints", "list", "--api-url", s.file.APIURL, "--api-key", s.file.APIKey, "--ca-file",
		s.file.CAFile)
	s.refused("from an unknown authority; set --ca-file", "endpoints", "list", "--api-url",
		s.file.APIURL, "--api-key", s.file.APIKey)
	s.refused(`--ca-file "/nowhere"`, "endpoints", "list", "--ca-file", "/nowhere")
	s.refused("the server doesn't use TLS", "endpoints", "list", "--api-url",
		"https"+strings.TrimPrefix(s.file.Stellar.RPCURL, "http"), "--api-key", s.file.APIKey)
	s.kill()
	s.refused("has ended without being stopped", "endpoints", "list")
}

// verifies checks a published signature with the secret in a file, on standard input, and in a
// variable.
func (s *testService) verifies(secret, file string) {
	s.t.Helper()
	text, err := os.ReadFile("../../schemas/vectors/signature.json")
	if err != nil {
		s.t.Fatal(err)
	}
	var published struct {
		Vectors []struct {
			Secrets                    []string
			Timestamp, Body, Signature string
		}
	}
	if err := json.Unmarshal(text, &published); err != nil {
		s.t.Fatal(err)
	}
	v := published.Vectors[0]
	body := filepath.Join(s.t.TempDir(), "body")
	for name, content := range map[string]string{
		file: secret + "\n" + v.Secrets[0] + "\n",
		body: v.Body,
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	for way, more := range map[string]struct {
		args               []string
		environment, stdin string
	}{
		"file":  {args: []string{"--secret-file", file, "--body", body}},
		"stdin": {args: []string{"--secret-file", "-", "--body", body}, stdin: v.Secrets[0]},
		"variable": {
			args:        []string{"--body", "-"},
			environment: "LUMENHOOK_SECRET=" + v.Secrets[0],
			stdin:       v.Body,
		},
	} {
		c := program(append([]string{
			"verify", "--any-time", "--timestamp", v.Timestamp, "--signature", v.Signature,
		}, more.args...)...)
		c.Stdin = strings.NewReader(more.stdin)
		if more.environment != "" {
			c.Env = append(c.Env, more.environment)
		}
		if out, err := c.CombinedOutput(); err != nil || string(out) != "the signature is valid\n" {
			s.t.Errorf("%s: %v\n%s", way, err, out)
		}
	}
}

// The service must keep running when the user quits the pager that reads its output.
func TestAClosedTerminalDoesNotStopTheService(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: t.TempDir(), output: &testkit.Buffer{}, exited: make(chan error, 1)}
	s.cmd = program(anyPorts(s.dir, "--demo-interval", "50ms", "--ledger-interval", "50ms")...)
	s.cmd.Stdout, s.cmd.Stderr = write, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	_ = read.Close() // no reader: every write to standard output fails
	cmd, exited := s.cmd, s.exited
	go func() { exited <- cmd.Wait() }()
	s.eventually("run.json of this process", func() bool {
		file, err := runfile.Read(s.dir)
		s.file = file
		return err == nil && file.PID == cmd.Process.Pid
	})
	s.eventually("deliveries without a terminal", func() bool {
		var events struct{ Data []struct{ ID string } }
		return s.call("GET", "/v1/events?state=DELIVERED", nil, &events) == http.StatusOK &&
			len(events.Data) > 1
	})
	s.interrupt()
}

// tellsOfATwin checks that creating a second watch of the same wallet and endpoint prints a note.
func (s *testService) tellsOfATwin() {
	s.t.Helper()
	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", nobodysURL)
	var wallet struct{ Address string }
	s.devnet(&wallet, "account", "--json")
	create := []string{
		"watches", "create", "--wallet", wallet.Address, "--endpoint", e.ID, "--field", "id",
	}
	first, said, err := s.command(create...)
	if err != nil || strings.Contains(said, "two events") {
		s.t.Errorf("the first watch: %v, %s", err, said)
	}
	want := "The watch " + strings.TrimSpace(first) + " has the same wallet and endpoint"
	if _, said, err := s.command(create...); err != nil || !strings.Contains(said, want) {
		s.t.Errorf("the second watch: %v, %s", err, said)
	}
}
