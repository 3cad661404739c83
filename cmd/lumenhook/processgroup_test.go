//go:build unix

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
)

// processGroup is processes that end together with everything they start. They end at the latest
// with the process that created the group, however that ends. A process started with
// [subprocess.Killed], in contrast, leaves behind what it has started itself.
type processGroup struct {
	guard *exec.Cmd // leads the group, so that nothing else can have its id
	lives *os.File  // the guard reads its other end
	kill  sync.Once
}

// newProcessGroup returns a group without processes. The caller must call Kill.
func newProcessGroup() (*processGroup, error) {
	ends, lives, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("%w", err)
	}
	defer ends.Close()
	// Nothing is ever written: the pipe closes when the process that has its other end exits.
	guard := exec.Command("sh", "-c", "read -r nothing; kill -KILL 0")
	guard.Stdin, guard.SysProcAttr = ends, &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		_ = lives.Close()
		return nil, fmt.Errorf("starting what ends others: %w", err)
	}
	return &processGroup{guard: guard, lives: lives}, nil
}

// Member returns the attributes that start a process in the group.
func (g *processGroup) Member() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard.Process.Pid}
}

// Kill kills all processes of the group, as a crash does. Further calls do nothing.
func (g *processGroup) Kill() {
	g.kill.Do(func() {
		_ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGKILL) // they may have exited
		_ = g.guard.Wait()                                      // it was killed
		_ = g.lives.Close()
	})
}

// grandchild starts another process, which holds standard output open until it is killed, because
// its input never ends.
const grandchild = "exec 3<&0; (echo started; exec cat <&3) & wait"

// TestAGroupEndsWithItsMaker kills the process that created a group. Everything that the group's
// member has started must end, too, as it does when the group itself is killed.
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

func startsAGrandchild(t *testing.T, in, out *os.File) (kill func()) {
	group, err := newProcessGroup()
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
