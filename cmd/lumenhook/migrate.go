package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/projections"
)

func newMigrate() *cobra.Command {
	var (
		t         target
		retention string
	)
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables of the history, or bring them to this program's form",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, err := parseDays(retention)
			if err != nil {
				return cli.Usage(fmt.Errorf("--history-retention %q: %w", retention, err))
			}
			db, err := t.database()
			if err != nil {
				return err
			}
			defer db.Close()
			if err := projections.Migrate(cmd.Context(), db); err != nil {
				return err
			}
			if cmd.Flags().Changed("history-retention") {
				if err := projections.SetRetention(cmd.Context(), db, keep); err != nil {
					return fmt.Errorf("--history-retention: %w", err)
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the tables of %s are up to date\n", db.Name())
			return err
		},
	}
	t.Register(c.Flags())
	t.registerClickHouse(c.Flags())
	c.Flags().StringVar(&retention, "history-retention", "0", "after how many days rows are deleted, such as 90d; 0 keeps everything. Not given, it stays as it is")
	return c
}

// parseDays reads a duration that may be in days.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 36_500 {
			return 0, fmt.Errorf("must be days such as 90d, or hours such as 2160h")
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("must be days such as 90d, or hours such as 2160h")
	}
	return d, nil
}
