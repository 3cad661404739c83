package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/standalone"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

func newTopicsCopy(at *config.Service) *cobra.Command {
	var output cli.Output
	c := &cobra.Command{
		Use:   "copy --data-dir FOLDER --kafka-brokers HOST:PORT…",
		Short: "Bring the topics of `lumenhook run` to a Kafka cluster, at the same offsets",
		Long: `Copies the records of a data folder's broker to the topics of a cluster, with the positions
of groups. Offsets stay the same, so the service continues where it stopped: no payment is
lost or reported twice.

Create the cluster's topics first, with as many partitions as the folder has (the command
says how many). Copy while the service runs, stop it, and copy again: the second copy adds
the newest records within seconds. An interrupted copy continues. Topics with other records
are refused. No service may run on the cluster's topics in the meantime. The user must be
allowed to write every topic and the positions of every group, like the user who creates
the rights of the roles (lumenhook topics acls --apply).

Then serve with the folder's secrets: its master key, and the API keys of its accounts stay
valid. Rebuild the history there from the topics.`,
		Example: `  # From one machine to a cluster, whose topics were made with as many partitions
  lumenhook topics copy --data-dir .lumenhook --kafka-brokers kafka-1:9092`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
	output.Register(c.Flags())
	output.Changes(c)
	return c
}

// copyTopics copies from the broker of a data folder, that of a running service too.
func copyTopics(
	ctx context.Context, dir string, to kafka.Cluster, tell io.Writer,
	show func(transfer.MirrorReport) error,
) error {
	from, err := standalone.OpenTopics(dir, to.Logger)
	if err != nil {
		return err
	}
	defer from.Close()
	bar := cli.NewProgress(tell)
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
		fmt.Fprintf(tell, "the service of %s runs and goes on writing: "+
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
