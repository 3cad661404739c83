package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
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
