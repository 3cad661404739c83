package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/projections"
)

func newMigrate() *cobra.Command {
	var (
		t         config.Service
		retention string
	)
	c := &cobra.Command{
		Use:   "migrate",
		Short: "Make the tables of the history, or bring them to this program's form",
		Example: `  # The history of the service of this machine
  lumenhook migrate

  # And have rows of 90 days ago deleted from now on
  lumenhook migrate --history-retention 90d`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keep, err := cli.ParseDays(retention)
			if err != nil {
				return cli.Usage(fmt.Errorf("--history-retention %q: %w", retention, err))
			}
			db, err := t.Database()
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
	t.RegisterClickHouse(c.Flags())
	c.Flags().StringVar(&retention, "history-retention", "0", "after how many days "+
		"rows are deleted, such as 90d; 0 keeps everything. Not given, it stays as it is")
	return c
}
