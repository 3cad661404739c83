package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/internal/standalone"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

func newTopics() *cobra.Command {
	var t config.Service
	c := group("topics", newTopicsCat(&t), newTopicsTail(&t), newTopicsPlan(&t),
		newTopicsCreate(&t), newTopicsCheck(&t), newTopicsACLs(&t), newTopicsCopy(&t))
	t.Register(c.PersistentFlags())
	t.RegisterKafka(c.PersistentFlags())
	return c
}

func newTopicsCat(t *config.Service) *cobra.Command {
	var r ops.TopicReading
	c := newCommand("topics cat", func(cmd *cobra.Command, args []string) error {
		return printTopic(cmd, t, &r, args[0], false)
	})
	c.PreRunE = func(*cobra.Command, []string) error { return r.Check() }
	r.Register(c.Flags(), "start")
	return c
}

func newTopicsTail(t *config.Service) *cobra.Command {
	var r ops.TopicReading
	c := newCommand("topics tail", func(cmd *cobra.Command, args []string) error {
		return printTopic(cmd, t, &r, args[0], true)
	})
	c.PreRunE = func(*cobra.Command, []string) error { return r.Check() }
	r.Register(c.Flags(), "end")
	return c
}

func printTopic(
	cmd *cobra.Command, t *config.Service, r *ops.TopicReading, name string, follow bool,
) error {
	topic, err := ops.FindTopic(t.Kafka.Prefix, name)
	if err != nil {
		return err
	}
	cluster, err := t.Cluster(stderrLog())
	if err != nil {
		return err
	}
	return r.Print(cmd.Context(), cluster, topic, follow, cmd.OutOrStdout())
}

// topologyFlags are those of the commands that hold a cluster against what is wanted.
type topologyFlags struct {
	*config.Service
	cli.Output
	shape  topology.Shape
	accept []string
	ofRun  bool // it is held to what `lumenhook run` promises of its broker
	copies *pflag.Flag
	tiered bool
	local  string // how long tiered topics are kept on the brokers, too
	// What the engine keeps of what nobody needs.
	keep      string
	keepSized int64 // MiB
}

func (t *topologyFlags) registerRetention(f *pflag.FlagSet) {
	f.StringVar(&t.keep, "topic-retention", "0", "same value as for serve; if set, the journal, "+
		"matches, payments and commands topics use files of 16 MiB, because brokers only "+
		"delete complete files")
	f.Int64Var(&t.keepSized, "topic-retention-mib", 0,
		"same value as for serve; if set, files are also small, and each partition keeps up to one "+
			"extra file")
	f.BoolVar(&t.tiered, "topic-tiered", false, "use tiered storage for journal, matches, "+
		"payments and commands; brokers then move older files to remote storage")
	f.StringVar(&t.local, "topic-local-retention", "7d",
		"how long brokers also keep files of tiered topics on local disks")
}

// retain applies the flags for topics that are shortened or tiered.
func (t *topologyFlags) retain() error {
	keep, err := cli.ParseDays(t.keep)
	if err != nil {
		return cli.Usage(fmt.Errorf("--topic-retention %q: %w", t.keep, err))
	}
	t.shape.Shortened = keep > 0 || t.keepSized > 0
	local, err := cli.ParseDays(t.local)
	if err == nil && local <= 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return cli.Usage(fmt.Errorf("--topic-local-retention %q: %w", t.local, err))
	}
	if t.tiered {
		t.shape.LocalMillis = local.Milliseconds()
	}
	return nil
}

func (t *topologyFlags) registerShape(f *pflag.FlagSet) {
	t.Output.Register(f)
	f.Int32Var(&t.shape.Partitions, "partitions", 0,
		"number of partitions per keyed topic, which can't be changed later; 0: the current number")
	f.Int16Var(&t.shape.Replicas, "replication", topology.LeastReplicas,
		"number of copies of each record; defaults to 1 for a data folder's broker")
	t.copies = f.Lookup("replication")
	t.registerRetention(f)
}

func (t *topologyFlags) registerAccept(f *pflag.FlagSet) {
	f.StringSliceVar(&t.accept, "accept-loss", nil,
		"names of the risks that you accept: "+strings.Join(topology.Names(), ", "))
	cli.Offer(f, "accept-loss", topology.Names()...)
}

func (t *topologyFlags) reach() (kafka.Cluster, error) {
	if err := topology.CheckNames(t.accept); err != nil {
		return kafka.Cluster{}, cli.Usage(fmt.Errorf("--accept-loss: %w", err))
	}
	if t.shape.Partitions < 0 || t.shape.Partitions > 10_000 || t.shape.Replicas < 0 {
		return kafka.Cluster{}, cli.Usage(fmt.Errorf("--partitions %d --replication %d: "+
			"must be from 0 to 10000, and at least 1", t.shape.Partitions, t.shape.Replicas))
	}
	if err := t.retain(); err != nil {
		return kafka.Cluster{}, err
	}
	cluster, err := t.Cluster(stderrLog())
	asked := t.copies != nil && t.copies.Changed
	if t.ofRun = err == nil && len(t.Kafka.Brokers) == 0 && !asked; t.ofRun {
		// It is one broker, and makes its topics so.
		t.shape.Replicas = 1
		t.accept = append(t.accept, topology.Replication, topology.MinInSync)
	}
	return cluster, err
}

// well says that nothing is wrong, by what the topics were held to.
func (t *topologyFlags) well(w io.Writer, said string) {
	if t.ofRun {
		said += ", as `lumenhook run` promises: one copy of each record, on this machine " +
			"(what `lumenhook serve` wants of a cluster is asked with --kafka-brokers)"
	}
	cli.Row(w, said)
}

func newTopicsPlan(at *config.Service) *cobra.Command {
	t := topologyFlags{Service: at}
	c := newCommand("topics plan", func(cmd *cobra.Command, _ []string) error {
		cluster, err := t.reach()
		if err != nil {
			return err
		}
		differences, err := topology.Plan(cmd.Context(), cluster, t.shape)
		if err != nil {
			return err
		}
		show := func(w io.Writer) { t.show(w, differences) }
		err = t.Print(cmd.OutOrStdout(), listOf("differences", differences), show)
		if err == nil && len(differences) > 0 {
			err = cli.Differs(fmt.Errorf("%d differences; "+
				"lumenhook topics create brings about what a program may", len(differences)))
		}
		return err
	})
	t.registerShape(c.Flags())
	return c
}

// listOf is an answer with one list, which is printed as [] when it is empty.
func listOf[T any](name string, list []T) map[string][]T {
	return map[string][]T{name: append([]T{}, list...)}
}

func (t *topologyFlags) show(w io.Writer, list []topology.Difference) {
	if len(list) == 0 {
		t.well(w, "all topics have the required settings")
		return
	}
	cli.Row(w, "TOPIC", "SETTING", "HAVE", "WANT", "BY", "OTHERWISE")
	for _, d := range list {
		cli.Row(w, d.Topic, d.Setting, d.Have, d.Want, d.Remedy, d.Harm)
	}
}

func newTopicsCreate(at *config.Service) *cobra.Command {
	t := topologyFlags{Service: at}
	c := newCommand("topics create", func(cmd *cobra.Command, _ []string) error {
		return t.create(cmd.Context(), cmd.OutOrStdout())
	})
	t.registerShape(c.Flags())
	t.registerAccept(c.Flags())
	t.Changes(c)
	return c
}

func (t *topologyFlags) create(ctx context.Context, out io.Writer) error {
	cluster, err := t.reach()
	if err != nil {
		return err
	}
	if err := topology.CheckShape(t.shape, t.accept); err != nil {
		return cli.Usage(fmt.Errorf("--replication %d: %w", t.shape.Replicas, err))
	}
	created, err := topology.Create(ctx, cluster, t.shape)
	if err != nil {
		return err
	}
	created.Done = append([]topology.Difference{}, created.Done...) // printed as [] when empty
	created.Left = append([]topology.Difference{}, created.Left...)
	err = t.Print(out, created, func(w io.Writer) {
		cli.Row(w, fmt.Sprintf("topics created or changed: %d", len(created.Done)))
		t.show(w, created.Left)
	})
	if err == nil && len(created.Left) > 0 {
		err = cli.Differs(fmt.Errorf("%d differences remain; change them yourself", len(created.Left)))
	}
	return err
}

func newTopicsCheck(at *config.Service) *cobra.Command {
	t := topologyFlags{Service: at}
	c := newCommand("topics check", func(cmd *cobra.Command, _ []string) error {
		cluster, err := t.reach()
		if err != nil {
			return err
		}
		faults, err := topology.Check(cmd.Context(), cluster, topology.CheckOptions{
			Partitions:  t.shape.Partitions,
			Replicas:    t.shape.Replicas,
			LocalMillis: t.shape.LocalMillis,
			Shortened:   t.shape.Shortened,
			Accept:      t.accept,
			Now:         time.Now,
		})
		if err != nil {
			return err
		}
		err = t.Print(cmd.OutOrStdout(), listOf("faults", faults), func(w io.Writer) {
			if len(faults) == 0 {
				t.well(w, "the cluster has the required settings")
			}
		})
		if err != nil {
			return err
		}
		return topology.Refusal(faults)
	})
	f := c.Flags()
	t.Output.Register(f)
	f.Int32Var(&t.shape.Partitions, "partitions", 0,
		"required number of partitions per keyed topic; 0: any number")
	t.registerRetention(f)
	t.registerAccept(f)
	return c
}

// aclFlags are those of topics acls.
type aclFlags struct {
	*config.Service
	cli.Output
	userPrefix string
	roles      []string
	apply      bool
}

func newTopicsACLs(at *config.Service) *cobra.Command {
	a := aclFlags{Service: at}
	c := newCommand("topics acls", func(cmd *cobra.Command, _ []string) error {
		return a.run(cmd.Context(), cmd.OutOrStdout())
	})
	f := c.Flags()
	a.Output.Register(f)
	f.StringVar(&a.userPrefix, "user-prefix", "lumenhook-",
		"prefix of the roles' user names")
	f.StringSliceVar(&a.roles, "role", nil,
		"limit to these roles (default: all): "+strings.Join(topology.RoleNames(), ", "))
	cli.Offer(f, "role", topology.RoleNames()...)
	f.BoolVar(&a.apply, "apply", false,
		"create the permissions on --kafka-brokers instead of printing commands")
	a.Changes(c)
	return c
}

func (a *aclFlags) run(ctx context.Context, out io.Writer) error {
	acls, err := topology.Access(kafka.Cluster{Prefix: a.Kafka.Prefix}, a.userPrefix, a.roles...)
	if err != nil {
		return cli.Usage(fmt.Errorf("--role: %w", err))
	}
	if a.apply {
		cluster, err := a.Cluster(stderrLog())
		if err == nil {
			err = topology.Grant(ctx, cluster, acls)
		}
		if err != nil {
			return err
		}
	}
	return a.Print(out, listOf("acls", acls), func(w io.Writer) { a.show(w, acls) })
}

func (a *aclFlags) show(w io.Writer, acls []kafka.ACL) {
	if a.apply {
		showGranted(w, acls)
		return
	}
	for _, acl := range acls {
		fmt.Fprintln(w, `kafka-acls.sh --bootstrap-server "$BOOTSTRAP" `+
			`--command-config admin.properties `+strings.Join(acl.Arguments(), " "))
	}
}

// showGranted prints a line for each user.
func showGranted(w io.Writer, acls []kafka.ACL) {
	granted := make(map[string]int)
	for _, acl := range acls {
		granted[acl.Principal]++
	}
	for _, user := range slices.Sorted(maps.Keys(granted)) {
		fmt.Fprintf(w, "%s has its rights (%d rules)\n", user, granted[user])
	}
}

func newTopicsCopy(at *config.Service) *cobra.Command {
	var output cli.Output
	c := newCommand("topics copy", func(cmd *cobra.Command, _ []string) error {
		to, err := at.NamedCluster(stderrLog())
		if err != nil {
			return err
		}
		if len(to.Brokers) == 0 {
			return cli.Usage(errors.New("--kafka-brokers: must name the brokers of the cluster to copy to"))
		}
		show := func(report transfer.MirrorReport) error {
			return output.Print(cmd.OutOrStdout(), report, func(w io.Writer) { showCopy(w, report) })
		}
		return copyTopics(cmd.Context(), at.DataDir, to, cmd.ErrOrStderr(), show)
	})
	output.Register(c.Flags())
	output.Changes(c)
	return c
}

// copyTopics copies from the broker of a data folder, that of a running service too.
func copyTopics(
	ctx context.Context, dir string, to kafka.Cluster, announce io.Writer,
	show func(transfer.MirrorReport) error,
) error {
	from, err := standalone.OpenTopics(dir, to.Logger)
	if err != nil {
		return err
	}
	defer from.Close()
	bar := cli.NewProgress(announce)
	report, err := transfer.Mirror(ctx,
		transfer.MirrorConfig{From: from.Cluster, To: to, Progress: bar.Show})
	bar.End()
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; repeat the command to continue: %w", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	if from.Running {
		fmt.Fprintf(announce, "the service of %s runs and continues to write: "+
			"stop it and copy again before you serve on the cluster\n", dir)
	}
	return show(report)
}

func showCopy(w io.Writer, report transfer.MirrorReport) {
	cli.Row(w, "TOPIC", "COPIED", "THERE BEFORE", "OFFSETS WITHOUT A RECORD")
	for _, t := range report.Topics {
		cli.Row(w, t.Topic, t.Records, t.Before, t.Fillers)
	}
	cli.Row(w, "positions of groups: "+strings.Join(report.Groups, ", "))
}
