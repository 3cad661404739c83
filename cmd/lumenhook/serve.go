package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/startstop"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func newServe() *cobra.Command {
	var s serveSettings
	c := &cobra.Command{
		Use:   "serve --roles ROLE,… --kafka-brokers HOST:PORT,…",
		Short: "Run some roles of the service on a Kafka cluster, a ClickHouse and a network of yours",
		Long: `Runs any set of the roles in this process: any number of processes share the work.

  api         answers requests
  engine      decides and makes the attempts; engines divide the partitions
  follower    reads ledgers; one is active, the others stand by
  projector   writes the history to ClickHouse
  mailer      emails holders of disabled endpoints

Settings come from flags, from variables, from a folder of secrets (--secrets-dir) and
from a YAML file (--config), in this order of precedence. ` + "`lumenhook config check`" + ` prints
what counts, and where it came from. /healthz and /readyz are served beside /metrics,
with a reason for each part. SIGTERM ends it: attempts under way are finished first.`,
		Example: `  lumenhook serve --config /etc/lumenhook.yaml
  lumenhook serve --roles engine --kafka-brokers kafka:9092 --master-key-file key.json`,
		Args:    cli.NoArguments,
		PreRunE: func(*cobra.Command, []string) error { return s.check() },
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
			return serveRoles(cmd.Context(), &s)
		},
	}
	s.register(c.Flags())
	return c
}

// server is a process of `serve`: a node with addresses.
type server struct {
	*startstop.Stack
	s       *serveSettings
	dir     *runfile.Folder
	cluster streams.Cluster
	node    *node.Node
}

func serveRoles(ctx context.Context, s *serveSettings) error {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: s.node.LogLevel()}))
	say := func(format string, args ...any) { logger.Info(fmt.Sprintf(format, args...)) }
	return startstop.Run(ctx, logger, say, func(ctx context.Context, stack *startstop.Stack) error {
		v := &server{Stack: stack, s: s}
		if err := v.assemble(ctx, say); err != nil {
			return err
		}
		return v.start(ctx, say)
	})
}

// assemble makes the node. It asks nobody anything yet.
func (v *server) assemble(ctx context.Context, say func(string, ...any)) (err error) {
	if v.dir, err = runfile.Open(v.s.dataDir); err != nil {
		return err
	}
	v.OnStop(func() { _ = v.dir.Close() })
	disk := node.NewDiskGuard(v.dir.Path(), v.s.node.LeastFreeBytes(), say, v.Logger)
	v.Go("the watch over the disk", disk.Run)
	if v.cluster, err = v.s.cluster(v.Logger); err != nil {
		return err
	}
	tracing, err := v.s.node.StartTracing(ctx, v.Stack, v.s.nodeName)
	if err != nil {
		return err
	}
	cfg := v.s.node.Config(true)
	cfg.Cluster, cfg.StateDir, cfg.Roles, cfg.Disk = v.cluster, v.dir.Join("state"), v.s.roles, disk
	cfg.Tracing, cfg.Logger, cfg.Say = tracing, v.Logger, say
	cfg.Passphrase, cfg.History.DSN = v.s.source.Passphrase, v.s.clickhouse.address
	for _, role := range v.s.roles {
		if err := v.equip(&cfg, role); err != nil {
			return err
		}
	}
	v.node = node.New(cfg, v.Stack)
	return nil
}

// equip gives a node what a role needs.
func (v *server) equip(cfg *node.Config, role node.Role) (err error) {
	switch role {
	case node.RoleAPI:
		if cfg.API.Wallets, err = v.s.source.Lookup(v.Logger); err != nil {
			return err
		}
		cfg.Sealer, cfg.MasterKey, err = v.s.masterKey().OpenExisting()
	case node.RoleEngine:
		cfg.Sealer, cfg.MasterKey, err = v.s.masterKey().OpenExisting()
	case node.RoleFollower:
		cfg.Follower.Start = v.s.source.StartAt
		cfg.Follower.Live, cfg.Follower.Past, err = v.s.source.OpenBoth(v.Logger)
	case node.RoleMailer:
		cfg.Sender, err = v.s.node.MailSender()
	}
	return err
}

// start starts the roles once the cluster was found fit. Operators are answered from
// the beginning.
func (v *server) start(ctx context.Context, say func(string, ...any)) error {
	if v.s.node.MetricsListen != "" {
		address, err := v.node.ServeOperations(v.s.node.MetricsListen)
		if err != nil {
			return err
		}
		say("metrics and readiness at http://%s", address)
	}
	faults, err := topology.Check(ctx, v.cluster, topology.CheckOptions{
		Partitions: v.s.partitions, Accept: v.s.accept, Now: time.Now,
	})
	if err != nil {
		return err
	}
	if err := topology.Refusal(faults); err != nil {
		return err
	}
	if err := v.node.Start(ctx, v.s.roles...); err != nil {
		return err
	}
	if url := v.node.APIURL(); url != "" {
		say("the API at %s", url)
	}
	say("ready")
	return nil
}
