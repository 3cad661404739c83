//go:build unix

package orphans

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// Group is processes that end together with all that they start, at the latest with the process
// that made the group, however that ends: of a process that is started by [Killed], what it has
// started itself stays.
type Group struct {
	guard *exec.Cmd // leads the group, so that nothing else can have its id
	lives *os.File  // the guard reads its other end
	kill  sync.Once
}

// NewGroup makes a group without processes. Whoever makes it calls Kill.
func NewGroup() (*Group, error) {
	ends, lives, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	defer ends.Close()
	// Nothing is written: the pipe ends with the process that has the other end.
	guard := exec.Command("sh", "-c", "read -r nothing; kill -KILL 0")
	guard.Stdin, guard.SysProcAttr = ends, &syscall.SysProcAttr{Setpgid: true}
	if err := guard.Start(); err != nil {
		_ = lives.Close()
		return nil, fmt.Errorf("orphans: starting what ends others: %w", err)
	}
	return &Group{guard: guard, lives: lives}, nil
}

// Member has a process start in the group.
func (g *Group) Member() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: g.guard.Process.Pid}
}

// Kill kills all processes of the group, as a crash does. Called again, it does nothing.
func (g *Group) Kill() {
	g.kill.Do(func() {
		_ = syscall.Kill(-g.guard.Process.Pid, syscall.SIGKILL) // they may have ended
		_ = g.guard.Wait()                                      // it was killed
		_ = g.lives.Close()
	})
}
