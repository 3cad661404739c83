package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/freeport"
)

// The README's first webhook is run as it stands there, beside the demo, and with a
// PORT in the environment that belongs to something else.
func TestTheREADMEsFirstWebhook(t *testing.T) {
	blocks := scriptsOf(t, "A first webhook in five minutes")
	script := strings.Join(blocks, "")
	if len(blocks) != 2 || strings.Count(script, "lumenhook ") < 8 ||
		strings.Count(script, "curl ") != 2 {
		t.Fatalf("the README holds %d such scripts", len(blocks))
	}
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	out, err := inHome(t, home, script)
	if err == nil || !strings.Contains(out, "no service has run in") || strings.Contains(out, "ep_") {
		t.Errorf("without a service it said %v:\n%s", err, out)
	}
	s.start("--egress-ports", "1024-65535", "--ledger-interval", "500ms")
	if out, err = inHome(t, home, script); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		`"secret":"whsec_`, "status code  200", `"memo":"order-42"`, "DELIVERED",
		`"amount":"12.5000000"`, "its signature is right", `"nextCursor":`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %s:\n%s", want, out)
		}
	}
	s.interrupt()
}

// Where there is no history yet, the README's first webhook ends and says so. By its clock
// half a minute passes between two looks.
func TestTheREADMEsFirstWebhookWithoutAHistory(t *testing.T) {
	home := t.TempDir()
	hangingNPM(t, home)
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	clock := "#!/bin/sh\necho >> $0.looks\necho $((30 * $(wc -l < $0.looks)))\n"
	if err := os.WriteFile(filepath.Join(home, "bin", "date"), []byte(clock), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535", "--ledger-interval", "500ms")
	out, err := inHome(t, home, scriptsOf(t, "A first webhook in five minutes")[0])
	if err == nil || !strings.Contains(out, "still being fetched through npm") ||
		!strings.Contains(out, "its signature is right") {
		t.Errorf("without a history it ended with %v:\n%s", err, out)
	}
	s.interrupt()
}

// The README's receiver is written, started and asked as it stands there, but for its port.
func TestTheREADMEsReceiver(t *testing.T) {
	scripts := scriptsOf(t, "A receiver of your own")
	if len(scripts) != 2 || strings.Count(strings.Join(scripts, ""), "lumenhook ") < 6 {
		t.Fatalf("the README holds %d such scripts", len(scripts))
	}
	free, err := freeport.Listen("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(free.Addr().String())
	if err := errors.Join(err, free.Close()); err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	script := "export LUMENHOOK_LISTEN=127.0.0.1:" + port + "\n" + strings.Join(scripts, "")
	out, err := inHome(t, home, strings.ReplaceAll(script, "8443", port))
	if err != nil || !strings.Contains(out, `received {"id":"evt_`) ||
		strings.Count(out, "status code  200") != 2 ||
		!strings.HasSuffix(out, "the signature is right\n") {
		t.Errorf("it ended with %v:\n%s", err, out)
	}
	s.interrupt()
}

// scriptsOf are the shell scripts of a section of the README.
func scriptsOf(t *testing.T, title string) (scripts []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## "+title+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(section,
		-1) {
		scripts = append(scripts, block[1])
	}
	return scripts
}

// inHome runs a script where bin/lumenhook is the program.
func inHome(t *testing.T, home, script string) (string, error) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	wrapper := fmt.Sprintf("#!/bin/sh\n%s=1 exec %q \"$@\"\n", asProgram, os.Args[0])
	if err := os.WriteFile(filepath.Join(home, "bin", "lumenhook"), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	c.Dir = home
	c.WaitDelay = time.Second
	// A free port instead of 8443, which may be somebody's here.
	c.Env = append(os.Environ(), "PORT=3000", "LUMENHOOK_LISTEN=127.0.0.1:0", "TMPDIR="+home)
	out, err := c.CombinedOutput()
	return string(out), err
}

// ofOtherPrograms are lines of a block that run another program.
var ofOtherPrograms = regexp.MustCompile(`^ {4,}(docker|helm|kubectl|systemctl|--build-arg) `)

// Every flag that the page for operators names is one of a command. The flags of
// Kafka's own scripts stand in lines that name them.
func TestOperationsNamesFlagsThatExist(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := make(map[string]bool)
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
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
	if named < 40 {
		t.Errorf("only %d flags were found on the page: is it still read rightly?", named)
	}
}
