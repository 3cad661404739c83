package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/pages"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestTheREADMEsFirstWebhook follows the README's first webhook as written, block by block, while
// the demo runs. The environment has a PORT that belongs to something else, and the shell has only
// these tools.
func TestTheREADMEsFirstWebhook(t *testing.T) {
	blocks := firstWebhook(t)
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	tools := toolsOnly(t, "mktemp", "sed", "curl")
	alone := openShell(t, home, tools)
	alone.follow(blocks[0], "no service has run in")
	alone.follow(blocks[1], "")
	if err := alone.end(); err == nil || strings.Contains(alone.output.String(), "ep_") {
		t.Errorf("without a service it ended with %v:\n%s", err, alone.output)
	}

	s.start("--egress-ports", "1024-65535", "--ledger-interval", "500ms")
	sh := openShell(t, home, tools)
	sh.follow(blocks[0], "listening at")
	sh.follow(blocks[1], "status code  200")
	sh.follow(blocks[2], ": payment.received, ")
	s.eventually("the history has the payment", func() bool {
		var list struct {
			Data []struct {
				Data struct{ Payment struct{ Memo string } }
			}
		}
		path := "/v1/events?state=DELIVERED&type=payment.received"
		return s.call("GET", path, nil, &list) == 200 && slices.ContainsFunc(list.Data,
			func(e struct {
				Data struct{ Payment struct{ Memo string } }
			}) bool {
				return e.Data.Payment.Memo == "order-42"
			})
	})
	sh.follow(blocks[3], "ATTEMPT  RUN")
	sh.follow(blocks[4], `"nextCursor":`)
	if err := sh.end(); err != nil {
		t.Fatalf("it ended with %v:\n%s", err, sh.output)
	}
	for _, want := range []string{
		`"secret":"whsec_`, `"memo":"order-42"`, "DELIVERED", `"amount":"12.5000000"`,
		"valid signature",
	} {
		if !strings.Contains(sh.output.String(), want) {
			t.Errorf("the output lacks %s:\n%s", want, sh.output)
		}
	}
	s.interrupt()
}

// Without a history, the README's first webhook still arrives, and reads of the history explain why
// it is missing.
func TestTheREADMEsFirstWebhookWithoutAHistory(t *testing.T) {
	blocks := firstWebhook(t)
	home := t.TempDir()
	hangingNPM(t, home)
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "500ms")
	sh := openShell(t, home, os.Getenv("PATH"))
	sh.follow(blocks[0], "listening at")
	sh.follow(blocks[1], "status code  200")
	sh.follow(blocks[2], ": payment.received, ")
	sh.follow(blocks[3], "still being fetched through npm")
	if err := sh.end(); err == nil ||
		!strings.Contains(sh.output.String(), "valid signature") {
		t.Errorf("without a history it ended with %v:\n%s", err, sh.output)
	}
	s.interrupt()
}

func firstWebhook(t *testing.T) []string {
	t.Helper()
	blocks := scriptsOf(t, "README.md", "A first webhook in five minutes")
	script := strings.Join(blocks, "")
	if len(blocks) != 5 || strings.Count(script, "lumenhook ") < 8 ||
		strings.Count(script, "curl ") != 2 || strings.Contains(script, "node ") {
		t.Fatalf("the README holds %d such blocks", len(blocks))
	}
	return blocks
}

// The commands of docs/inspecting.md that need no tools of Kafka or ClickHouse are run as written.
func TestTheDocumentedLooksInside(t *testing.T) {
	text, err := os.ReadFile("../../docs/inspecting.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	query, rest, isQuery := strings.Cut(block, "\n")
	tail, _, _ := strings.Cut(rest, "\n")
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo")
	sh := openShell(t, home, os.Getenv("PATH"))
	sh.follow("PATH=$PWD/bin:$PATH\n"+query+"\n", "success_rate")
	sh.follow(tail+"\n", `"type":"AccountCreated"`)
	if !isQuery || !strings.HasPrefix(tail, "lumenhook topics tail") {
		t.Errorf("the page begins with %q and %q", query, tail)
	}
	s.interrupt()
}

func scriptsOf(t *testing.T, page, title string) (scripts []string) {
	t.Helper()
	read, err := pages.Read(filepath.Join("..", ".."), page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range read.Blocks {
		if block.Section == title && block.Language == "sh" {
			scripts = append(scripts, block.Code)
		}
	}
	return scripts
}

func toolsOnly(t *testing.T, tools ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range tools {
		path, err := exec.LookPath(tool)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, tool))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// shell is a terminal in which a page is followed. bin/lumenhook is the program, and a failing step
// ends the shell.
type shell struct {
	t      *testing.T
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *testkit.Buffer
	port   string   // instead of 8443, which may be in use here
	plain  string   // instead of 8081
	ports  []string // more ports of pages, each followed by its replacement
}

// shellMax is the time limit of a page, on a machine that is shared and busy.
const shellMax = 10 * time.Minute

func openShell(t *testing.T, home, path string) *shell {
	t.Helper()
	installProgram(t, filepath.Join(home, "bin"))
	ctx, cancel := context.WithTimeout(t.Context(), shellMax)
	sh := &shell{
		t:      t,
		cmd:    exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-s"),
		output: &testkit.Buffer{},
		port:   freePort(t),
		plain:  freePort(t),
	}
	sh.cmd.Dir, sh.cmd.WaitDelay = home, time.Second
	sh.cmd.Env = append(os.Environ(), "PATH="+path, "PORT=3000",
		"LUMENHOOK_LISTEN=127.0.0.1:"+sh.port, "TMPDIR="+home)
	sh.cmd.Stdout, sh.cmd.Stderr = sh.output, sh.output
	sh.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if sh.input, err = sh.cmd.StdinPipe(); err == nil {
		err = sh.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // background processes must not outlive the test
		_ = syscall.Kill(-sh.cmd.Process.Pid, syscall.SIGKILL)
		cancel()
	})
	return sh
}

// installProgram writes a script named lumenhook that runs this test binary as the program.
func installProgram(t *testing.T, dir string) {
	t.Helper()
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asProgram, os.Args[0])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	testkit.WriteProgram(t, filepath.Join(dir, "lumenhook"), wrapper)
}

func freePort(t *testing.T) string {
	t.Helper()
	free, err := subprocess.ListenFree("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err := errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	return port
}

func (sh *shell) follow(block, shown string) {
	sh.t.Helper()
	sh.types(block)
	deadline := time.NewTimer(60 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(sh.output.String(), shown) {
		select {
		case <-deadline.C:
			sh.t.Fatalf("%s\nnever showed %q:\n%s", block, shown, sh.output)
		case <-tick.C:
		}
	}
}

func (sh *shell) types(block string) {
	sh.t.Helper()
	block = sh.withPorts(block)
	if _, err := io.WriteString(sh.input, block); err != nil && !errors.Is(err, syscall.EPIPE) {
		sh.t.Fatal(err)
	}
}

// withPorts replaces the ports in a block or its output with ports that are free here.
func (sh *shell) withPorts(text string) string {
	ports := append([]string{"8443", sh.port, "8081", sh.plain}, sh.ports...)
	return strings.NewReplacer(ports...).Replace(text)
}

// end closes the terminal and returns how the shell ended.
func (sh *shell) end() error {
	_ = sh.input.Close()
	err := sh.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) { // a background process holds the output open
		return nil
	}
	return err
}

var ofOtherPrograms = regexp.MustCompile("^ *(docker|helm|kubectl|systemctl|apt-get|nft|--build-arg) |`--allow-downgrades`")

// Every flag on an operator's page must belong to a command. Lines that name one of Kafka's scripts
// or run another program are skipped.
func TestOperationsNamesFlagsThatExist(t *testing.T) {
	names, err := filepath.Glob("../../docs/operate/*.md")
	if err != nil || len(names) < 11 {
		t.Fatalf("%d pages: %v", len(names), err)
	}
	var text []byte
	for _, name := range names {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, page...)
	}
	flags := make(map[string]bool)
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			set.VisitAll(func(f *pflag.Flag) { flags["--"+f.Name] = true })
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(newRoot())
	named := 0
	form := regexp.MustCompile(`(^|[^-\w])(--[a-z][a-z-]*[a-z])`)
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, ".sh") || ofOtherPrograms.MatchString(line) {
			continue
		}
		for _, found := range form.FindAllStringSubmatch(line, -1) {
			if named++; !flags[found[2]] {
				t.Errorf("no command has %s: %s", found[2], line)
			}
		}
	}
	if named < 200 {
		t.Errorf("only %d flags were found on the pages: does the test still read them?", named)
	}
}
