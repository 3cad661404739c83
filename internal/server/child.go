package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"github.com/lumenhook/lumenhook/internal/subprocess"
)

// ChildEnd is how a child ended.
type ChildEnd struct {
	state   *os.ProcessState
	ordered bool // it was told to end before it ended
}

// RunChild starts this program with some arguments, its environment and its standard streams,
// and returns when the child has ended. When ctx ends, the child gets a SIGTERM. started is
// called once it runs.
func RunChild(ctx context.Context, args []string, started func(pid int)) (ChildEnd, error) {
	program, err := os.Executable()
	if err != nil {
		return ChildEnd{}, fmt.Errorf("finding this program to start it again: %w", err)
	}
	// The kernel kills the child when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// #nosec G204 -- this very program, with the arguments that it was given itself.
	child := exec.CommandContext(ctx, program, args...)
	child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
	child.Cancel = func() error { return child.Process.Signal(syscall.SIGTERM) }
	child.SysProcAttr = attributes()
	if err := child.Start(); err != nil {
		return ChildEnd{}, fmt.Errorf("starting this program again: %w", err)
	}
	started(child.Process.Pid)
	err = child.Wait()
	if child.ProcessState == nil {
		return ChildEnd{}, fmt.Errorf("waiting for the child: %w", err)
	}
	return ChildEnd{state: child.ProcessState, ordered: ctx.Err() != nil}, nil
}

// attributes are those of a process that gets signals from its parent only.
func attributes() *syscall.SysProcAttr {
	attr := subprocess.Killed()
	if attr == nil {
		attr = new(syscall.SysProcAttr)
	}
	attr.Setpgid = true
	return attr
}

// Clean reports whether the child exited successfully, or by the SIGTERM that told it to
// end. Otherwise it died.
func (e ChildEnd) Clean() bool {
	return e.state.Success() || e.ordered && e.signal() == syscall.SIGTERM
}

// signal returns the signal that killed the child; 0: it ended by itself.
func (e ChildEnd) signal() syscall.Signal {
	status, ok := e.state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0
	}
	return status.Signal()
}

// Code returns the child's exit code, and for one that a signal killed 128 plus the
// signal's number, as shells do: 137 for SIGKILL.
func (e ChildEnd) Code() int {
	if signal := e.signal(); signal != 0 {
		return 128 + int(signal)
	}
	return e.state.ExitCode()
}

// String describes how it ended.
func (e ChildEnd) String() string { return e.state.String() }
