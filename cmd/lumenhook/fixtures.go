package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/forward"
)

func newFixtures() *cobra.Command {
	c := &cobra.Command{
		Use:   "fixtures",
		Short: "Record real deliveries for a receiver's own tests, and post them",
	}
	c.AddCommand(newFixturesRecord(), newFixturesReplay(), newFixturesSchema())
	c.Example = examplesOf(c, "record", "replay")
	return c
}

// fixturesRecord is `lumenhook fixtures record`.
type fixturesRecord struct {
	apiFlags
	filter client.EventFilter
	dir    string
	last   int
	redact bool
}

// recorded are the files that were written.
type recorded struct {
	Files []string `json:"files"`
}

func newFixturesRecord() *cobra.Command {
	var r fixturesRecord
	c := &cobra.Command{
		Use:   "record --endpoint ENDPOINT_ID --to FOLDER",
		Short: "Write an endpoint's last events into files that tests verify offline",
		Long: `Writes a file of JSON for each of the last events of an endpoint that the filters take:
the raw body, the headers, and the secret with which they verify. That is one made for
fixtures, never the endpoint's, and the signature is for the time at which the event was
created. You can keep the files in a repository: they verify with a clock that is set to
their "now". The same event always gives the same file.

--redact replaces wallets, memos, hashes, labels and the ids of payments and events by others
of their form, the same ones everywhere: a receiver that has an event takes its fixture for
another.`,
		Example: `  # The last 20, for the tests of a receiver
  lumenhook fixtures record --endpoint ep_… --to testdata/webhooks --redact

  # The last five of a day
  lumenhook fixtures record --endpoint ep_… --since 24h --last 5 --to testdata/webhooks`,
		Args: cli.NoArguments,
		RunE: r.run,
	}
	r.register(c)
	r.Changes(c)
	f := c.Flags()
	cli.AddFields(f, &r.filter)
	f.StringVar(&r.dir, "to", "", "folder for the files; it is made if it is missing")
	f.IntVar(&r.last, "last", 20, "how many events, 1 to 1000")
	f.BoolVar(&r.redact, "redact", false, "replace what names people and their payments")
	_ = c.MarkFlagRequired("to")
	return c
}

func (r *fixturesRecord) run(cmd *cobra.Command, _ []string) error {
	switch {
	case r.last < 1 || r.last > 1000:
		return cli.Usage(fmt.Errorf("--last %d: must be from 1 to 1000", r.last))
	case r.dir == "":
		return cli.Usage(errors.New(`--to "": must name a folder`))
	}
	if info, err := os.Stat(r.dir); err == nil && !info.IsDir() {
		return cli.Usage(fmt.Errorf("--to %q: is a file: name a folder", r.dir))
	}
	c, err := r.API()
	if err != nil {
		return err
	}
	endpoint, err := theEndpoint(cmd.Context(), c, r.filter.EndpointID)
	if err != nil {
		return err
	}
	r.filter.EndpointID = endpoint.ID
	recorder := forward.Recorder{
		Client: c,
		Filter: r.filter,
		Last:   r.last,
		Dir:    r.dir,
		Redact: r.redact,
		Tell:   cmd.ErrOrStderr(),
	}
	paths, err := recorder.Run(cmd.Context())
	if err != nil {
		return err
	}
	return r.Print(cmd.OutOrStdout(), recorded{nonNil(paths)}, func(w io.Writer) {
		for _, path := range paths {
			cli.Row(w, path)
		}
	})
}

// fixturesReplay is `lumenhook fixtures replay`.
type fixturesReplay struct {
	cli.Output
	secrets  config.Secrets
	dir, url string
}

func newFixturesReplay() *cobra.Command {
	var r fixturesReplay
	c := &cobra.Command{
		Use:   "replay --from FOLDER --to URL",
		Short: "Post recorded deliveries to a receiver, with signatures of this moment",
		Long: `Posts the fixtures of a folder to a receiver, one after another in the order of their
names, signed for this moment: with the secret of fixtures, or with the one that you give.
No service is needed. It ends with 0 when the receiver took each, and with 1 when it did not.`,
		Example: `  # To a receiver that you are writing
  lumenhook fixtures replay --from testdata/webhooks --to http://127.0.0.1:3000/webhooks \
    --secret-file hook.secret`,
		Args: cli.NoArguments,
		RunE: r.run,
	}
	f := c.Flags()
	r.Output.Register(f)
	r.secrets.Register(f)
	f.StringVar(&r.dir, "from", "", "folder of fixtures")
	f.StringVar(&r.url, "to", "", "address of the receiver")
	_ = c.MarkFlagRequired("from")
	_ = c.MarkFlagRequired("to")
	return c
}

func (r *fixturesReplay) run(cmd *cobra.Command, _ []string) error {
	if err := forward.CheckURL(r.url); err != nil {
		return cli.Usage(fmt.Errorf("--to %w", err))
	}
	if r.Field != "" {
		return cli.Usage(errors.New("--field: posts are shown as whole lines: leave it out"))
	}
	var secrets []domain.Secret
	if r.secrets.Given() {
		var err error
		if secrets, err = r.secrets.Read(cmd.InOrStdin()); err != nil {
			return cli.Usage(err)
		}
	}
	all, err := forward.ReadAll(r.dir)
	if err != nil {
		return fmt.Errorf("--from %q: %w", r.dir, err)
	}
	report := &forward.Report{
		Out:  cmd.OutOrStdout(),
		Tell: cmd.ErrOrStderr(),
		JSON: r.JSON,
		Now:  time.Now,
	}
	forwarder := forward.New(r.url, report)
	forwarder.AtOnce = true
	for _, one := range all {
		event, err := one.Signed(secrets, time.Now())
		if err == nil {
			err = forwarder.Handle(cmd.Context(), event)
		}
		if err != nil {
			return err
		}
	}
	if fault := report.Fault(); fault != nil && secrets == nil {
		return fmt.Errorf("%w; they are signed with the secret of fixtures: if it expects another, name "+
			"yours with --secret-file", fault)
	}
	return report.Fault()
}

func newFixturesSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the form of a fixture's file as a JSON Schema",
		Example: `  # For an editor, or a test that checks the files
  lumenhook fixtures schema > fixture.schema.json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(forward.Schema)
			return err
		},
	}
}
