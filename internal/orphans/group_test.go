//go:build unix

package orphans_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/lumenhook/lumenhook/internal/orphans"
)

// grandchild has a shell start another process, which holds standard output open until it is
// killed: its input does not end.
const grandchild = "exec 3<&0; (echo started; exec cat <&3) & wait"

// TestAGroupEndsWithItsMaker kills the process that made a group: what its member has started ends,
// too, as it does when the group is killed.
func TestAGroupEndsWithItsMaker(t *testing.T) {
	if os.Getenv("ORPHANS_MAKER") != "" {
		_ = startsAGrandchild(t, os.Stdin, os.Stdout)
		select {} // until it is killed
	}
	for name, start := range map[string]func(t *testing.T, in, out *os.File) (kill func()){
		"killed": startsAGrandchild,
		"its maker is killed": func(t *testing.T, in, out *os.File) (kill func()) {
			maker := exec.Command(os.Args[0], "-test.run", "^TestAGroupEndsWithItsMaker$")
			maker.Env = append(os.Environ(), "ORPHANS_MAKER=1")
			maker.Stdin, maker.Stdout = in, out
			if err := maker.Start(); err != nil {
				t.Fatal(err)
			}
			return func() {
				_ = maker.Process.Kill() // it lives until then
				_ = maker.Wait()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, stays := pipe(t)
			defer stays.Close()
			said, says := pipe(t)
			kill := start(t, in, says)
			_, _ = in.Close(), says.Close()
			out := bufio.NewReader(said)
			if line, err := out.ReadString('\n'); line != "started\n" {
				t.Fatalf("it said %q (%v)", line, err)
			}
			kill()
			if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
				t.Errorf("then it said %q (%v)", rest, err)
			}
		})
	}
}

// startsAGrandchild makes a group with a member that starts another process.
func startsAGrandchild(t *testing.T, in, out *os.File) (kill func()) {
	group, err := orphans.NewGroup()
	if err != nil {
		t.Fatal(err)
	}
	member := exec.Command("sh", "-c", grandchild)
	member.Stdin, member.Stdout, member.SysProcAttr = in, out, group.Member()
	if err := member.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		group.Kill()
		_ = member.Wait() // it was killed
	}
}

func pipe(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = read.Close(), write.Close() })
	return read, write
}
