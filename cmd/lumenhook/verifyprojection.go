package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections"
)

func newVerifyProjection() *cobra.Command {
	var flags refoldFlags
	c := &cobra.Command{
		Use:   "verify-projection --all | --table NAME…",
		Short: "Compare tables of the history with what the topics say",
		Long: `Folds the topics into temporary tables, and compares them with the live tables by the
counts and checksums of each partition and day. It names differences and ends with 3;
rebuild fixes them. Rows that change in the meantime are left out. After a repartition
or a restore, so are rows that are not complete in the new topics: it prints how many.

It also ends with 3 if the topics have an event with two live deliveries, and names it.
No rebuild fixes that.`,
		Example: `  # Does the history say what the topics say?
  lumenhook verify-projection --all

  # One table of it
  lumenhook verify-projection --table attempts`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, end, err := flags.config(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			found, err := projections.Verify(cmd.Context(), cfg)
			end()
			if err != nil {
				return fmt.Errorf("verifying the projection: %w", err)
			}
			return reportVerification(cmd.OutOrStdout(), found)
		},
	}
	flags.register(c.Flags(), "compare")
	return c
}

func reportVerification(w io.Writer, found projections.Verification) error {
	for _, name := range projections.Tables() {
		if rows, compared := found.Rows[name]; compared {
			fmt.Fprintf(w, "%-18s %d rows compared\n", name, rows)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found.Former)) {
		fmt.Fprintf(w, "%-18s %d rows not compared: the history went on with other topics, which do not "+
			"have them whole\n", name, found.Former[name])
	}
	for _, topic := range slices.Sorted(maps.Keys(found.LeftOut)) {
		fmt.Fprintf(w, "%d records of the topic %s do not count and are in no table: "+
			"lumenhook topics cat dead-letters\n", found.LeftOut[topic], topic)
	}
	for _, d := range found.Differences {
		fmt.Fprintf(w, "%s, partition %d, %s: %d rows with checksum %016x, "+
			"and the topic gives %d with %016x; such as %s\n",
			d.Table, d.Partition, d.Day, d.LiveRows, d.LiveSum,
			d.RefoldRows, d.RefoldSum, strings.Join(d.Examples, ", "))
	}
	for _, d := range found.Doubled {
		fmt.Fprintf(w, "%s has %d live deliveries, at %s\n",
			d.EventID, len(d.Endpoints), strings.Join(d.Endpoints, " and "))
	}
	var faults []error
	if n := len(found.Differences); n > 0 {
		faults = append(faults, fmt.Errorf("%d partitions of days differ from their topics: "+
			"`lumenhook rebuild` of these tables mends them", n))
	}
	if n := found.DoubledEvents; n > 0 {
		faults = append(faults, fmt.Errorf("%d events have two live deliveries in the journal itself, "+
			"so that two endpoints may have been told of one payment: "+
			"`lumenhook events get EVENT_ID` shows what each was sent; tell who runs them, and "+
			"report it: no rebuild fixes it, and no list shows such an event twice", n))
	}
	if len(faults) > 0 {
		return cli.Differs(errors.Join(faults...))
	}
	_, err := fmt.Fprintln(w, "everything is as the topics say")
	return err
}
