package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

func newTopics() *cobra.Command {
	var t target
	c := &cobra.Command{Use: "topics", Short: "Make, check and read the topics"}
	t.Register(c.PersistentFlags())
	t.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newTopicsCat(&t), newTopicsTail(&t), newTopicsDescribe(&t),
		newTopicsPlan(&t), newTopicsCreate(&t), newTopicsCheck(&t), newTopicsACLs(&t), newTopicsCopy(&t))
	return c
}

// topicReading is what cat and tail have in common.
type topicReading struct {
	from       string
	keys       []string
	types      []string
	partitions []int32
	limit      int
}

func (r *topicReading) register(c *cobra.Command, from string) {
	f := c.Flags()
	f.StringVar(&r.from, "from", from, "start, end, an offset, a time such as 2026-11-21T15:04:05Z, or how long ago, such as 10m")
	f.StringSliceVar(&r.keys, "key", nil, "only records with this key; may be repeated")
	f.StringSliceVar(&r.types, "type", nil, "only records of this type, such as AttemptMade; may be repeated")
	f.Int32SliceVar(&r.partitions, "partition", nil, "only this partition; may be repeated")
	f.IntVar(&r.limit, "limit", 0, "stop after so many records; 0 for no limit")
	c.PreRunE = func(*cobra.Command, []string) error {
		var faults []error
		if r.limit < 0 {
			faults = append(faults, fmt.Errorf("--limit %d: must not be negative", r.limit))
		}
		for _, name := range r.types {
			faults = append(faults, knownType(name))
		}
		return errors.Join(faults...)
	}
}

func newTopicsCat(t *target) *cobra.Command {
	var r topicReading
	c := &cobra.Command{
		Use:   "cat NAME",
		Short: "Print a topic's records up to its end",
		Example: `  lumenhook topics cat journal --key ep_… --type AttemptMade
  lumenhook topics cat payments --from 10m`,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), t, args[0], false, cmd.OutOrStdout())
		},
	}
	r.register(c, "start")
	return c
}

func newTopicsTail(t *target) *cobra.Command {
	var r topicReading
	c := &cobra.Command{
		Use:     "tail NAME",
		Short:   "Print a topic's records as they come, until Ctrl-C",
		Example: `  lumenhook topics tail journal --from 1m`,
		Args:    cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			return r.run(cmd.Context(), t, args[0], true, cmd.OutOrStdout())
		},
	}
	r.register(c, "end")
	return c
}

// knownTopic finds a topic of ours by its name, with the prefix or without.
func knownTopic(prefix, name string) (schemas.Topic, error) {
	var names []string
	for _, t := range schemas.Topics() {
		if strings.TrimPrefix(name, prefix) == t.Name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return schemas.Topic{}, cli.Usage(fmt.Errorf("there is no topic %q: the topics are %s",
		name, strings.Join(names, ", ")))
}

// knownType refuses a type that no record has.
func knownType(name string) error {
	types := recordTypes()
	if slices.Contains(types, name) {
		return nil
	}
	return fmt.Errorf("--type %q: no record is of this type%s; the types are %s",
		name, cli.DidYouMean(name, types, ""), strings.Join(types, ", "))
}

const pollRecords = 1000

func (r *topicReading) run(ctx context.Context, t *target, name string, follow bool, out io.Writer) error {
	topic, err := knownTopic(t.Kafka.Prefix, name)
	if err != nil {
		return err
	}
	cluster, err := t.cluster()
	if err != nil {
		return err
	}
	from, ends, err := r.positions(ctx, cluster, topic.Name)
	if err != nil {
		return err
	}
	reader, err := cluster.NewReader(streams.ReaderConfig{From: streams.Offsets{topic.Name: from}, SkipExpired: true})
	if err != nil {
		return err
	}
	defer reader.Close()
	printed := 0
	show := func(record streams.Record) error {
		if !follow && record.Offset >= ends[record.Partition] || !r.wants(record) {
			return nil
		}
		printed++
		if err := writeRecord(out, record); err != nil {
			return err
		}
		if r.limit > 0 && printed >= r.limit {
			return errEnough
		}
		return nil
	}
	if follow {
		for err == nil {
			err = reader.Poll(ctx, pollRecords, show)
		}
	} else {
		err = reader.ReadTo(ctx, topic.Name, ends, pollRecords, show)
	}
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		return nil
	}
	return err
}

var errEnough = errors.New("enough records")

func (r *topicReading) wants(record streams.Record) bool {
	return (len(r.keys) == 0 || slices.Contains(r.keys, string(record.Key))) &&
		(len(r.types) == 0 || slices.Contains(r.types, record.Header(schemas.HeaderType)))
}

// positions says where reading begins and where the topic ends.
func (r *topicReading) positions(ctx context.Context, cluster streams.Cluster, topic string) (from, ends map[int32]int64, err error) {
	asking, err := cluster.NewEnds()
	if err != nil {
		return nil, nil, err
	}
	defer asking.Close()
	if ends, err = asking.Of(ctx, topic); err != nil {
		return nil, nil, err
	}
	starts, err := asking.Starts(ctx, topic)
	if err != nil {
		return nil, nil, err
	}
	if from, err = r.begin(ctx, cluster, topic, starts, ends); err != nil {
		return nil, nil, err
	}
	for _, p := range r.partitions {
		if _, there := ends[p]; !there {
			return nil, nil, cli.Usage(fmt.Errorf("--partition %d: %s has the partitions 0 to %d",
				p, topic, len(ends)-1))
		}
	}
	for p := range ends {
		if len(r.partitions) > 0 && !slices.Contains(r.partitions, p) {
			delete(from, p)
			delete(ends, p)
		}
	}
	return from, ends, nil
}

func (r *topicReading) begin(ctx context.Context, cluster streams.Cluster, topic string, starts, ends map[int32]int64) (map[int32]int64, error) {
	from := make(map[int32]int64)
	if offset, err := strconv.ParseInt(r.from, 10, 64); err == nil {
		for p := range ends {
			from[p] = min(max(offset, starts[p]), ends[p])
		}
		return from, nil
	}
	switch r.from {
	case "start":
		return starts, nil
	case "end":
		for p, end := range ends {
			from[p] = end
		}
		return from, nil
	}
	at, err := parseFrom(r.from)
	if err != nil {
		return nil, err
	}
	err = cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		listed, err := admin.ListOffsetsAfterMilli(ctx, at.UnixMilli(), cluster.Prefix+topic)
		if err == nil {
			err = listed.Error()
		}
		listed.Each(func(o kadm.ListedOffset) { from[o.Partition] = o.Offset })
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the offsets of %s: %w", r.from, err)
	}
	return from, nil
}

func parseFrom(text string) (time.Time, error) {
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return time.Now().Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, cli.Usage(fmt.Errorf("--from %q: must be start, end, an offset, a time such as "+
			"2026-11-21T15:04:05Z, or how long ago, such as 10m", text))
	}
	return at, nil
}

func newTopicsDescribe(t *target) *cobra.Command {
	return &cobra.Command{
		Use:   "describe [NAME]",
		Short: "Print partitions, offsets and settings of one topic, or of all",
		Args:  cli.OptionalArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := t.cluster()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return describeAll(cmd.Context(), cluster, cmd.OutOrStdout())
			}
			topic, err := knownTopic(t.Kafka.Prefix, args[0])
			if err != nil {
				return err
			}
			return describeOne(cmd.Context(), cluster, topic, cmd.OutOrStdout())
		},
	}
}

func describeAll(ctx context.Context, cluster streams.Cluster, out io.Writer) error {
	asking, err := cluster.NewEnds()
	if err != nil {
		return err
	}
	defer asking.Close()
	fmt.Fprintf(out, "%-10s  %10s  %12s  %s\n", "topic", "partitions", "offsets", "cleanup")
	for _, topic := range schemas.Topics() {
		starts, err := asking.Starts(ctx, topic.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", topic.Name, err)
		}
		ends, err := asking.Of(ctx, topic.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", topic.Name, err)
		}
		var span int64
		for p, end := range ends {
			span += end - starts[p]
		}
		fmt.Fprintf(out, "%-10s  %10d  %12d  %s\n", topic.Name, len(ends), span, topic.Cleanup)
	}
	return nil
}

func describeOne(ctx context.Context, cluster streams.Cluster, topic schemas.Topic, out io.Writer) error {
	asking, err := cluster.NewEnds()
	if err != nil {
		return err
	}
	defer asking.Close()
	starts, err := asking.Starts(ctx, topic.Name)
	if err != nil {
		return err
	}
	ends, err := asking.Of(ctx, topic.Name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s%s\n%9s  %12s  %12s\n", cluster.Prefix, topic.Name, "partition", "first", "end")
	for _, p := range streams.Partitions(ends) {
		fmt.Fprintf(out, "%9d  %12d  %12d\n", p, starts[p], ends[p])
	}
	return cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		configs, err := admin.DescribeTopicConfigs(ctx, cluster.Prefix+topic.Name)
		if err != nil {
			return fmt.Errorf("asking for the settings of %s: %w", topic.Name, err)
		}
		for _, c := range configs {
			sort.Slice(c.Configs, func(i, j int) bool { return c.Configs[i].Key < c.Configs[j].Key })
			for _, setting := range c.Configs {
				if setting.Key == "cleanup.policy" || setting.Key == "retention.ms" || setting.Key == "retention.bytes" {
					fmt.Fprintf(out, "%s = %s\n", setting.Key, setting.MaybeValue())
				}
			}
		}
		return nil
	})
}
