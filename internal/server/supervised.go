package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	supervisedFlag = "supervised"
	// Unsupervised must be the last argument of a child, to override the flag in all its forms.
	Unsupervised = "--" + supervisedFlag + "=false"
	// removalMax limits the time for removing a dead child. Its session expires soon anyway.
	removalMax = 5 * time.Second
)

// Supervised reports whether the roles should run in a child process.
func (s *Flags) Supervised() bool { return s.supervised }

// Supervise runs the roles in a child process and exits like it. If the child dies, it is removed
// from its groups, so that others take over immediately. args are the child's arguments, the last
// of which is [Unsupervised]. The flags must have been checked.
func Supervise(ctx context.Context, flags *Flags, args []string) error {
	logger := flags.logger()
	end, err := RunChild(ctx, args, func(pid int) {
		logger.Info("supervising a child process that runs the roles", "pid", pid,
			"version", cli.ThisBuild().Version)
		debug.FreeOSMemory() // frees the memory used for the settings; nothing else is done here
	})
	if err != nil && ctx.Err() != nil {
		return nil // cancelled before the child started
	}
	if err != nil {
		return err
	}
	if !end.Clean() {
		logger.Error("the child process died", "ended", end.String())
		flags.removeDead(context.WithoutCancel(ctx), logger)
	}
	if code := exitCode(end.Code()); code != 0 {
		return cli.EndsWith(code)
	}
	return nil
}

// exitCode returns the child's exit code, except for 2, with which Go exits after a panic: here it
// means an invalid command line and prevents a restart, and the command line has been checked.
func exitCode(child int) int {
	if child == cli.ExitUsage {
		return cli.ExitFailure
	}
	return child
}

// removeDead removes a dead child from its groups. This is as safe as an expired session, because
// the process that takes over a partition fences open transactions (docs/decisions/fencing.md).
func (s *Flags) removeDead(ctx context.Context, logger *slog.Logger) {
	var roles []string
	for _, role := range s.roles {
		roles = append(roles, string(role))
	}
	groups := topology.Groups(roles...)
	if len(groups) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, removalMax)
	defer cancel()
	cluster, err := s.cluster(logger)
	if err != nil {
		logger.Error("its groups wait for the end of its session", "groups", groups, "error", err)
		return
	}
	from, err := cluster.RemoveMember(ctx, groups...)
	if err != nil {
		logger.Error("its groups wait for the end of its session", "groups", groups, "error", err)
	}
	for _, group := range from {
		logger.Info("it was removed from its group, before its session ended", "group", group)
	}
}

// ChildEnd describes how a child exited.
type ChildEnd struct {
	state   *os.ProcessState
	ordered bool // it was asked to exit
}

// RunChild runs this program in a child process with the given arguments, and with the same
// environment and standard streams. It returns when the child has exited. When ctx ends, the child
// gets a SIGTERM. RunChild calls started once the child runs.
func RunChild(ctx context.Context, args []string, started func(pid int)) (ChildEnd, error) {
	program, err := os.Executable()
	if err != nil {
		return ChildEnd{}, fmt.Errorf("finding this program to start it again: %w", err)
	}
	// The kernel kills the child when the thread that started it exits.
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

// attributes returns the attributes of a process that gets signals only from its parent.
func attributes() *syscall.SysProcAttr {
	attr := subprocess.Killed()
	if attr == nil {
		attr = new(syscall.SysProcAttr)
	}
	attr.Setpgid = true
	return attr
}

// Clean reports whether the child exited successfully, or because of a SIGTERM sent to it.
func (e ChildEnd) Clean() bool {
	return e.state.Success() || e.ordered && e.signal() == syscall.SIGTERM
}

// signal returns the signal that killed the child, or 0 if it exited.
func (e ChildEnd) signal() syscall.Signal {
	status, ok := e.state.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() {
		return 0
	}
	return status.Signal()
}

// Code returns the child's exit code. If a signal killed the child, it is 128 plus the signal's
// number, as in shells: 137 for SIGKILL.
func (e ChildEnd) Code() int {
	if signal := e.signal(); signal != 0 {
		return 128 + int(signal)
	}
	return e.state.ExitCode()
}

// String describes how the child exited.
func (e ChildEnd) String() string { return e.state.String() }
