//go:build shells

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/api/client"
)

// TestShellsCompleteInZsh presses TAB in a real zsh that was set up as the help says. It reads the
// completed lines from zsh's history.
func TestShellsCompleteInZsh(t *testing.T) {
	home, endpoint := shellsHome(t)
	installsAsHelpSays(t, home, "zsh")
	zsh := openTerminal(t, home, "zsh", "--no-globalrcs", "-i")
	zsh.types("echo rea''dy\n", "ready")
	for _, c := range []struct{ keys, line string }{
		{"lumenhook endpoi\tge\t\t--fie\turl\n", "lumenhook endpoints get " + endpoint + " --field url"},
		{
			"lumenhook events list --state CA\t--typ\tpayment.rej\t--json\n",
			"lumenhook events list --state CANCELLED --type payment.rejected --json",
		},
		{
			"lumenhook events list --type=endpoint.f\t--json\n",
			"lumenhook events list --type=endpoint.failing --json",
		},
		{
			"lumenhook watches create --amount ex\t12.5 --memo tex\tx --help\n",
			"lumenhook watches create --amount exact:12.5 --memo text:x --help",
		},
		{"lumenhook serve --roles api,eng\t--help\n", "lumenhook serve --roles api,engine --help"},
		{"lumenhook verify --secret-file sec\t--help\n", "lumenhook verify --secret-file secret --help"},
	} {
		zsh.types(c.keys+"fc -ln -1\n", "\n"+c.line+"\r\n")
	}
}

// TestShellsCompleteInFish asks fish for the completions of a line, in a new shell that was set up
// as the help says.
func TestShellsCompleteInFish(t *testing.T) {
	home, endpoint := shellsHome(t)
	installsAsHelpSays(t, home, "fish")
	for _, c := range []struct{ line, want string }{
		{"lumenhook endpoi", "endpoints\tCreate and manage endpoints\n"},
		{"lumenhook endpoints get ", endpoint + "\tactive " + nobodysURL + "\n"},
		{"lumenhook events list --state CA", "CANCELLED\tthe endpoint was deleted\n"},
		{
			"lumenhook events list --type=endpoint.f",
			"--type=endpoint.failing\tanother endpoint is failing\n",
		},
		{"lumenhook watches create --amount ex", "exact:\tthis amount\n"},
		{"lumenhook serve --roles api,eng", "api,engine\n"},
		{"lumenhook verify --secret-file sec", "secret\n"},
		{"lumenhook backup --to b", "bin/\n"},
		{"lumenhook endpoints create --url s", ""}, // no file names
	} {
		got, err := inShell(home, "fish", "-c", "complete -C '"+c.line+"'")
		if err != nil || got != c.want {
			t.Errorf("%q is completed by %q (%v), and not by %q", c.line, got, err, c.want)
		}
	}
}

// shellsHome creates a home folder with the program, a file named secret, and a service with one
// endpoint.
func shellsHome(t *testing.T) (home, endpoint string) {
	t.Helper()
	home = t.TempDir()
	installProgram(t, filepath.Join(home, "bin"))
	if err := os.WriteFile(filepath.Join(home, "secret"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	t.Cleanup(s.interrupt)
	var e client.Endpoint
	s.cli(&e, "endpoints", "create", "--url", nobodysURL)
	return home, e.ID
}

// installsAsHelpSays runs the lines that the help shows for a shell.
func installsAsHelpSays(t *testing.T, home, shell string) {
	t.Helper()
	help, err := program("completion", "--help").Output()
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(help), "  # For every new "+shell+" shell")
	example, _, _ = strings.Cut(example, "\n\n")
	ran := 0
	for line := range strings.Lines(example) {
		if !strings.Contains(line, "~/") {
			continue
		}
		if said, err := inShell(home, shell, "-c", line); err != nil {
			t.Fatalf("%s: %v: %s", line, err, said)
		}
		ran++
	}
	if ran < 2 {
		t.Fatalf("the help has nothing to run:\n%s", help)
	}
}

func inShell(home string, args ...string) (string, error) {
	shell := exec.Command(args[0], args[1:]...)
	shell.Dir = home
	shell.Env = append(os.Environ(), "HOME="+home, "TERM=dumb",
		"PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	out, err := shell.Output()
	return string(out), err
}
