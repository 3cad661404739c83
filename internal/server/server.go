package server

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

type server struct {
	*node.Stack
	flags   *Flags
	say     func(format string, args ...any)
	dir     *runfile.Folder
	cluster kafka.Cluster
	node    *node.Node
}

// Run runs the roles until ctx ends or a part fails. The flags must have been checked.
func Run(ctx context.Context, flags *Flags) error {
	node.Tune(4)
	logger := flags.logger()
	build := cli.ThisBuild()
	logger.Info("lumenhook is starting", "version", build.Version, "commit", build.Commit,
		"roles", flags.roles)
	say := func(format string, args ...any) { logger.Info(fmt.Sprintf(format, args...)) }
	return node.Run(ctx, logger, say, func(ctx context.Context, stack *node.Stack) error {
		v := &server{Stack: stack, flags: flags, say: say}
		if err := v.assemble(ctx); err != nil {
			return err
		}
		return v.start(ctx)
	})
}

func (s *Flags) logger() *slog.Logger {
	options := slog.HandlerOptions{Level: s.node.LogLevel}
	return slog.New(slog.NewJSONHandler(cli.Plain(os.Stderr), &options))
}

func (v *server) assemble(ctx context.Context) (err error) {
	if v.dir, err = runfile.Open(v.flags.dataDir); err != nil {
		return err
	}
	v.OnStop(func() { _ = v.dir.Close() })
	disk := node.NewDiskGuard(v.dir.Path(), node.LeastFreeBytes, v.say, v.Logger)
	v.Go("disk", disk.Run)
	if v.cluster, err = v.flags.cluster(v.Logger); err != nil {
		return err
	}
	tracing, err := v.flags.node.StartTracing(ctx, v.Stack, v.flags.nodeName)
	if err != nil {
		return err
	}
	cfg := v.flags.node.Config()
	cfg.Cluster, cfg.StateDir, cfg.Disk = v.cluster, v.dir.Join("state"), disk
	cfg.Roles = v.flags.roles
	cfg.Engine.StandbyReplicas, cfg.Engine.Rack = v.flags.replicas, v.flags.rack
	cfg.Tracing, cfg.Logger, cfg.Say = tracing, v.Logger, v.say
	cfg.Passphrase = v.flags.source.Passphrase
	for _, role := range v.flags.roles {
		if err := v.configureRole(&cfg, role); err != nil {
			return err
		}
	}
	v.node = node.New(cfg, v.Stack)
	return nil
}

func (v *server) configureRole(cfg *node.Config, role node.Role) (err error) {
	switch role {
	case node.RoleAPI:
		if cfg.API.Wallets, err = v.flags.source.Lookup(v.Logger); err != nil {
			return err
		}
		if cfg.API.Transactions, err = v.flags.source.Transactions(); err != nil {
			return err
		}
		err = v.flags.openKeys(cfg, v.Logger)
	case node.RoleEngine:
		err = v.flags.openKeys(cfg, v.Logger)
	case node.RoleFollower:
		cfg.Follower.Start = v.flags.source.StartAt
		cfg.Follower.Trusted = v.flags.source.Trusted()
		v.flags.source.OnRefused = cfg.Metrics.LedgerRefused
		v.flags.source.OnSource, v.flags.source.OnLeft = cfg.Metrics.KnowSource, cfg.Metrics.SourceLeft
		var both config.Readers
		both, err = v.flags.source.OpenBoth(v.Logger)
		cfg.Follower.Live, cfg.Follower.Past = both.Live, both.Past
		cfg.Follower.Probe = both.Probe
		cfg.Follower.Standings = both.Standings
	case node.RoleMailer:
		cfg.Sender, err = v.flags.node.Mail.Sender()
	case node.RoleProjector: // needs nothing else
	}
	return err
}

// start checks the cluster and starts the roles. The operators' address is available before.
func (v *server) start(ctx context.Context) error {
	if v.flags.node.MetricsListen != "" {
		address, err := v.node.ServeOperations(v.flags.node.MetricsListen)
		if err != nil {
			return err
		}
		v.say("metrics and readiness at http://%s", address)
	}
	faults, err := topology.Check(ctx, v.cluster, topology.CheckOptions{
		Partitions: v.flags.partitions,
		Roles:      roleNames(v.flags.roles),
		Accept:     v.flags.accept,
		Now:        time.Now,
	})
	if err != nil {
		return err
	}
	if err := topology.Refusal(faults); err != nil {
		return err
	}
	if err := v.node.Start(ctx, v.flags.roles...); err != nil {
		return err
	}
	if url := v.node.APIURL(); url != "" {
		v.say("the API at %s", url)
	}
	if v.node.AwaitReady(ctx) {
		v.say("ready")
	}
	return nil
}

func roleNames(roles []node.Role) (names []string) {
	for _, r := range roles {
		names = append(names, string(r))
	}
	return names
}
