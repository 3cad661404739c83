package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// TestBashCompletesValuesAndIDs presses TAB in a real bash on a terminal, with a real service, and
// runs the lines that readline completes. The package bash-completion is missing here, so bash
// splits words at colons.
func TestBashCompletesValuesAndIDs(t *testing.T) {
	home := t.TempDir()
	installProgram(t, filepath.Join(home, "bin"))
	s := &testService{t: t, dir: filepath.Join(home, ".lumenhook")}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	var endpoint client.Endpoint
	s.cli(&endpoint, "endpoints", "create", "--url", nobodysURL, "--description", "\x1b[2Jshop")
	bash := openTerminal(t, home, "bash", "--norc", "--noprofile", "-i")
	bash.types("source <(lumenhook completion bash); echo loa''ded\n", "loaded")
	bash.types("lumenhook endpoi\tge\t\t", endpoint.ID)
	bash.types("--fie\turl\n", nobodysURL)
	bash.types("lumenhook events list --state CA\t--typ\tpayment.rej\t--json; echo en''ded\n", "ended")
	bash.types("lumenhook watches create --amount ex\t12.5 --memo tex\tx --help; echo he''lped\n", "helped")
	for _, want := range []string{
		"lumenhook events list --state CANCELLED --type payment.rejected --json",
		"--amount exact:12.5 --memo text:x --help",
	} {
		if said := bash.output.String(); !strings.Contains(said, want) {
			t.Errorf("the terminal does not show %q:\n%q", want, said)
		}
	}

	// Without a service, completion neither waits nor prints anything.
	s.interrupt()
	bash.types("lumenhook endpoints get ep\t; echo st''ill\n", "still")
	if said := bash.output.String(); strings.Count(said, endpoint.ID) != 1 {
		t.Errorf("the terminal shows %q", said)
	}
}

// TestWhatIsCompletedIsDescribed checks which values a shell is offered, and when it may offer
// files. Descriptions must not contain control characters.
func TestWhatIsCompletedIsDescribed(t *testing.T) {
	s := &testService{t: t, dir: t.TempDir()}
	s.start("--no-demo", "--egress-ports", "1024-65535")
	var endpoint client.Endpoint
	s.cli(&endpoint, "endpoints", "create", "--url", nobodysURL, "--description", "\x1b[2Jthe\nshop")
	for _, c := range []struct{ words, want string }{
		{"endpoints get ", endpoint.ID + "\tactive " + nobodysURL},
		{"watches create --endpoint ", endpoint.ID + "\tactive"},
		{"keys revoke ", "\tread,write,operate run\n:36"},
		{"events list --state ", "WAITING\twaiting for another attempt\n"},
		{"events list --since ", "24h\n"},
		{"serve --roles api,", "api,engine\n"},
		{"run --network ", "testnet\t"},
		{"topics cat ", "journal\n"},
		{"endpoints create --url ", ":4\n"},        // no file names
		{"serve --kafka-password ", ":4\n"},        // its usage ends with "or a file instead"
		{"backup --to ", ":16\n"},                  // folders
		{"install-clickhouse --cache-dir ", ":16"}, // folders
		{"verify --secret-file ", ":0\n"},          // files
		{"events receipt --out ", ":0\n"},          // files
		{"verify-receipt --earlier ", ":0\n"},      // files
		{"endpoints create --secret-out ", ":0\n"},
	} {
		t.Setenv("LUMENHOOK_DATA_DIR", s.dir)
		words := strings.Split(c.words, " ")
		out, err := program(append([]string{"__complete"}, words...)...).Output()
		if err != nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "\x1b") {
			t.Errorf("%s: %v: it is completed by %q", c.words, err, out)
		}
	}
	s.interrupt()
}

type typist struct {
	t      *testing.T
	master *os.File
	output *testkit.Buffer
}

// openTerminal starts a shell on its own terminal, with the program in home/bin.
func openTerminal(t *testing.T, home string, args ...string) *typist {
	t.Helper()
	master, slave := openPTY(t)
	shell := exec.CommandContext(t.Context(), args[0], args[1:]...)
	shell.Dir = home
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"),
		"HOME="+home, "INPUTRC=/dev/null", "TERM=dumb", "COLUMNS=200", "PS1=$ ", "HISTFILE=")
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	output, over := &testkit.Buffer{}, make(chan struct{})
	go func() {
		defer close(over)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			_, _ = output.Write(buf[:n])
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = master.Close()
		<-over
	})
	return &typist{t: t, master: master, output: output}
}

func openPTY(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 400})
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// types enters keys and waits until the terminal shows text that it has not shown before.
func (b *typist) types(keys, shown string) {
	b.t.Helper()
	before := len(b.output.String())
	if _, err := b.master.WriteString(keys); err != nil {
		b.t.Fatal(err)
	}
	testkit.EventuallyNil(b.t, "the terminal shows "+shown, func() error {
		if said := b.output.String()[before:]; !strings.Contains(said, shown) {
			return fmt.Errorf("after %q it shows %q", keys, said)
		}
		return nil
	})
}
