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
	// Unsupervised is the last argument of a child: it overrides the flag, its variable and
	// its setting in a file.
	Unsupervised = "--" + supervisedFlag + "=false"
	// removalMax bounds the removal of a dead child from its groups. Its session ends soon
	// after.
	removalMax = 5 * time.Second
)

// Supervised reports whether a child of this process is to run the roles.
func (s *Flags) Supervised() bool { return s.supervised }

// Supervise runs the roles in a child, and ends as it does. A child that died is removed
// from its groups at once, so that others take over. args are the child's, of which the
// last is [Unsupervised]. The flags must have been checked.
func Supervise(ctx context.Context, flags *Flags, args []string) error {
	logger := flags.logger()
	end, err := RunChild(ctx, args, func(pid int) {
		logger.Info("a child process serves, and is supervised", "pid", pid)
		debug.FreeOSMemory() // used by the settings: nothing more is done here
	})
	if err != nil && ctx.Err() != nil {
		return nil // it was cancelled before the child started
	}
	if err != nil {
		return err
	}
	if !end.Clean() {
		logger.Error("the process that served died", "ended", end.String())
		flags.removeDead(context.WithoutCancel(ctx), logger)
	}
	if code := exitCode(end.Code()); code != 0 {
		return cli.EndsWith(code)
	}
	return nil
}

// exitCode returns a child's exit code, except that of a panic: Go exits with 2, which in
// this program means an invalid command line and is not restarted. The child's command line
// was checked before it started.
func exitCode(child int) int {
	if child == cli.ExitUsage {
		return cli.ExitFailure
	}
	return child
}

// removeDead removes a dead child from its groups. That is as safe as the end of its session
// (docs/decisions/fencing.md): the process that takes a partition over fences the dead one's open
// transactions.
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
