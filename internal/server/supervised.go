package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/supervise"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	supervisedFlag = "supervised"
	// Unsupervised is the last argument of a child: it wins over the flag, its variable
	// and its setting in a file.
	Unsupervised = "--" + supervisedFlag + "=false"
	// removalMax bounds what is done for a child that died. Its session ends soon after.
	removalMax = 5 * time.Second
)

// Supervised reports whether the roles are to be run by a child of this process.
func (s *Flags) Supervised() bool { return s.supervised }

// Supervise has a child do the roles, and ends as it does. Of one that died the groups
// hear at once, so that others take over. args are the child's, of whom the last is
// [Unsupervised]. The flags must have been checked.
func Supervise(ctx context.Context, flags *Flags, args []string) error {
	logger := flags.logger()
	end, err := supervise.Run(ctx, args, func(pid int) {
		logger.Info("a child process serves, and is supervised", "pid", pid)
		debug.FreeOSMemory() // what the settings took: nothing more is done here
	})
	if err != nil && ctx.Err() != nil {
		return nil // it was ended before the child began
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

// exitCode is that of a child, but for one that panicked: Go ends it with 2, by which
// this program says that its command line was not understood, and is not started again.
// The child's was understood here before it began.
func exitCode(child int) int {
	if child == cli.ExitUsage {
		return cli.ExitFailure
	}
	return child
}

// removeDead takes a child that is no process any more out of its groups. That is safe for
// the reasons for which the end of its session is (docs/decisions/fencing.md): whoever
// takes a partition over fences what the dead one had open.
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
