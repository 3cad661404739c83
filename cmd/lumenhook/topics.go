package main

import (
	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/ops"
)

func newTopics() *cobra.Command {
	var t config.Service
	c := &cobra.Command{Use: "topics", Short: "Make, check and read the topics"}
	t.Register(c.PersistentFlags())
	t.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newTopicsCat(&t), newTopicsTail(&t), newTopicsPlan(&t),
		newTopicsCreate(&t), newTopicsCheck(&t), newTopicsACLs(&t), newTopicsCopy(&t))
	c.Example = examplesOf(c, "cat", "plan", "check")
	return c
}

func newTopicsCat(t *config.Service) *cobra.Command {
	var r ops.TopicReading
	c := &cobra.Command{
		Use:   "cat NAME",
		Short: "Print a topic's records up to its end",
		Example: `  # What became of an endpoint's attempts
  lumenhook topics cat journal --key ep_… --type AttemptMade

  # The payments of the last ten minutes
  lumenhook topics cat payments --from 10m`,
		Args:    cli.OneArgument,
		PreRunE: func(*cobra.Command, []string) error { return r.Check() },
		RunE: func(cmd *cobra.Command, args []string) error {
			return printTopic(cmd, t, &r, args[0], false)
		},
	}
	r.Register(c.Flags(), "start")
	return c
}

func newTopicsTail(t *config.Service) *cobra.Command {
	var r ops.TopicReading
	c := &cobra.Command{
		Use:   "tail NAME",
		Short: "Print a topic's records as they come, until Ctrl-C",
		Example: `  # Every change of state, as it happens, and those of the last minute
  lumenhook topics tail journal --from 1m`,
		Args:    cli.OneArgument,
		PreRunE: func(*cobra.Command, []string) error { return r.Check() },
		RunE: func(cmd *cobra.Command, args []string) error {
			return printTopic(cmd, t, &r, args[0], true)
		},
	}
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
