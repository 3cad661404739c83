package ops

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// FindTopic returns one of our topics by its name, with the prefix or without.
func FindTopic(prefix, name string) (schemas.Topic, error) {
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

// DescribeTopics prints a line for each topic.
func DescribeTopics(ctx context.Context, cluster kafka.Cluster, out io.Writer) error {
	asking, err := cluster.NewEnds()
	if err != nil {
		return err
	}
	defer asking.Close()
	var rows [][]string
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
		rows = append(rows, []string{
			topic.Name, strconv.Itoa(len(ends)), strconv.FormatInt(span, 10), string(topic.Cleanup),
		})
	}
	return cli.WriteTable(out, []cli.Column{
		{Name: "topic"},
		{Name: "partitions", Numbers: true},
		{Name: "offsets", Numbers: true},
		{Name: "cleanup"},
	}, rows)
}

// DescribeTopic prints partitions, offsets and settings of a topic.
func DescribeTopic(
	ctx context.Context, cluster kafka.Cluster, topic schemas.Topic, out io.Writer,
) error {
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
	var rows [][]string
	for _, p := range kafka.Partitions(ends) {
		rows = append(rows, []string{
			strconv.Itoa(int(p)), strconv.FormatInt(starts[p], 10), strconv.FormatInt(ends[p], 10),
		})
	}
	fmt.Fprintln(out, cluster.Prefix+topic.Name)
	if err := cli.WriteTable(out, []cli.Column{
		{Name: "partition", Numbers: true},
		{Name: "first", Numbers: true},
		{Name: "end", Numbers: true},
	}, rows); err != nil {
		return err
	}
	return describeTopicSettings(ctx, cluster, topic, out)
}

var describedSettings = []string{"cleanup.policy", "retention.bytes", "retention.ms"}

func describeTopicSettings(
	ctx context.Context, cluster kafka.Cluster, topic schemas.Topic, out io.Writer,
) error {
	return cluster.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		configs, err := admin.DescribeTopicConfigs(ctx, cluster.Prefix+topic.Name)
		if err != nil {
			return fmt.Errorf("asking for the settings of %s: %w", topic.Name, err)
		}
		for _, c := range configs {
			byKey := func(a, b kadm.Config) int { return cmp.Compare(a.Key, b.Key) }
			slices.SortFunc(c.Configs, byKey)
			for _, setting := range c.Configs {
				if slices.Contains(describedSettings, setting.Key) {
					fmt.Fprintf(out, "%s = %s\n", setting.Key, setting.MaybeValue())
				}
			}
		}
		return nil
	})
}
