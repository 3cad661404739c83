package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/internal/terminal"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/commands"
)

// masterKeyPlace says where the subcommands find the master key, and the service
// whose endpoints it seals for.
type masterKeyPlace struct {
	target
	file   string
	asJSON bool
}

// key is where the master key is.
func (p *masterKeyPlace) key() sealing.Place {
	return sealing.Place{File: p.file, DataDir: p.dataDir}
}

// rewrap opens what a walk over all endpoints needs. The caller ends it.
func (p *masterKeyPlace) rewrap(ctx context.Context, out io.Writer, resealing bool) (*rewrap, func(), error) {
	text, err := p.key().Text()
	if err != nil {
		return nil, nil, err
	}
	r := &rewrap{logger: slog.New(slog.NewTextHandler(out, nil))}
	if r.sealer, err = sealing.Parse(text); err != nil {
		return nil, nil, err
	}
	if r.cluster, err = p.cluster(); err != nil {
		return nil, nil, err
	}
	bar := terminal.NewProgress(out)
	r.progress = bar.Show
	if !resealing {
		return r, bar.End, nil
	}
	opening, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if r.commands, err = commands.Open(opening, commands.Config{Cluster: r.cluster, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return nil, nil, fmt.Errorf("reaching the brokers %s: %w", strings.Join(r.cluster.Brokers, ", "), err)
	}
	running := make(chan error, 1)
	go func() { running <- r.commands.Run(ctx) }()
	return r, func() { bar.End(); r.commands.Close(); <-running }, nil
}

// reachTimeout bounds the wait for brokers that do not answer.
const reachTimeout = 15 * time.Second

func newSecrets() *cobra.Command {
	var place masterKeyPlace
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Look after the master key, which seals endpoint secrets and headers",
		Long: `Signing secrets of endpoints, and the values of their own headers, are sealed before
they enter any topic or table. The master key that seals them is a file of one or
more keys: the newest seals, all open.

The key is looked for in --master-key-file, then in the variable
LUMENHOOK_MASTER_KEY, then in the folder of a run (--data-dir).`,
	}
	place.register(c.PersistentFlags())
	place.registerKafka(c.PersistentFlags())
	c.PersistentFlags().StringVar(&place.file, "master-key-file", "", "the master key's file, where it is not a run's")
	c.AddCommand(newSecretsCreate(&place), newSecretsList(&place), newSecretsRewrap(&place), newSecretsDrop(&place))
	return c
}

func newSecretsCreate(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:     "create --master-key-file FILE",
		Short:   "Make a master key, for all processes of a service",
		Example: "  lumenhook secrets create --master-key-file /etc/lumenhook/master-key.json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if place.file == "" {
				return cli.Usage(errors.New("--master-key-file must be given: the file to make"))
			}
			if _, err := os.Stat(place.file); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("--master-key-file %q: it exists, and what was sealed with it opens with no other (%w)", place.file, cmp.Or(err, os.ErrExist))
			}
			if _, err := sealing.LoadOrCreate(place.file); err != nil {
				return err
			}
			text, err := os.ReadFile(place.file)
			if err != nil {
				return err
			}
			keys, err := sealing.Keys(text)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), keys)
		},
	}
}

func newSecretsList(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys of the master key, by their ids alone",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := place.key().Text()
			if err != nil {
				return err
			}
			keys, err := sealing.Keys(text)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), keys)
		},
	}
}

func newSecretsRewrap(place *masterKeyPlace) *cobra.Command {
	var stage, keyOnly, resume bool
	c := &cobra.Command{
		Use:   "rewrap",
		Short: "Rotate the master key, and put all that is sealed under the new one",
		Long: `Adds a new key to the master key's file, makes it the one that seals, and asks the
running service to keep every signing secret and header value under it. Nothing
is restarted, what is signed and sent stays the same, and running processes follow
the file within a second. Then it tells which older keys nothing needs any more.

Cut short, it is taken up by --resume, which adds no key and does what is left; run
again it finds nothing to do.

Where each process has a copy of the file, bring the new key to all of them first
with --stage, distribute the file, and then run the command again without it: the
staged key becomes the one that seals. With the key in LUMENHOOK_MASTER_KEY, the new
value is printed: give it to every process, then run the command with --resume.

If a key may have been copied by someone who can also read the topics, rotate the
endpoint secrets too (POST /v1/endpoints/:id/rotate-secret) and the headers'
values: facts in the journal stay as they were sealed, and open with the copy.`,
		Example: `  lumenhook secrets rewrap
  lumenhook secrets rewrap --resume --json`,
		Args: cli.NoArguments,
		PreRunE: func(*cobra.Command, []string) error {
			if stage && keyOnly || stage && resume || keyOnly && resume {
				return errors.New("--stage, --key-only and --resume: give one of them")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, isVariable := place.key().FromVariable()
			switch {
			case isVariable && !resume:
				return rotateVariable(cmd, place, stage)
			case stage || keyOnly:
				keys, err := sealing.RotateFile(place.key().Path(), stage)
				if err != nil {
					return err
				}
				return printKeys(cmd.OutOrStdout(), keys)
			}
			return runRewrap(cmd, place, resume)
		},
	}
	f := c.Flags()
	f.BoolVar(&stage, "stage", false, "add a key that opens and does not seal yet, and nothing else")
	f.BoolVar(&keyOnly, "key-only", false, "rotate the key and reseal nothing, as when no service runs")
	f.BoolVar(&resume, "resume", false, "add no key: reseal what still lies under an older one")
	f.BoolVar(&place.asJSON, "json", false, "print what was done as JSON")
	return c
}

func rotateVariable(cmd *cobra.Command, place *masterKeyPlace, stage bool) error {
	text, err := place.key().Text()
	if err != nil {
		return err
	}
	rotated, keys, err := sealing.Rotate(text, stage)
	if err != nil {
		return err
	}
	if err := printKeys(cmd.ErrOrStderr(), keys); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", rotated)
	if err == nil && !stage {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "give the new value of %s to every process, then run `lumenhook secrets rewrap --resume` with it\n", sealing.Variable)
	}
	return err
}

// runRewrap rotates the key once the service is known to be there, and reseals.
func runRewrap(cmd *cobra.Command, place *masterKeyPlace, resume bool) error {
	ctx, errOut := cmd.Context(), cmd.ErrOrStderr()
	if !resume {
		if err := rotateReachable(ctx, place, errOut); err != nil {
			return err
		}
	}
	if err := place.awaitFollowed(ctx); err != nil {
		return interrupted(err)
	}
	r, end, err := place.rewrap(ctx, errOut, true)
	if err != nil {
		return err
	}
	pass, err := r.run(ctx)
	end()
	if err != nil {
		return interrupted(err)
	}
	return place.report(cmd.OutOrStdout(), r, pass)
}

// awaitFollowed waits until processes that follow the master key's file have
// noticed its last change, so that none seals with an older key any more.
func (p *masterKeyPlace) awaitFollowed(ctx context.Context) error {
	info, err := os.Stat(p.key().Path())
	if _, isVariable := p.key().FromVariable(); isVariable || err != nil {
		return nil
	}
	select {
	case <-time.After(followTime - time.Since(info.ModTime())):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func interrupted(err error) error {
	return fmt.Errorf("not all is resealed; nothing is lost, and `lumenhook secrets rewrap --resume` goes on: %w", err)
}

func rotateReachable(ctx context.Context, place *masterKeyPlace, errOut io.Writer) error {
	r, end, err := place.rewrap(ctx, errOut, true)
	if err != nil {
		return fmt.Errorf("the key was not rotated, for nothing could be resealed: %w (--key-only rotates it all the same)", err)
	}
	defer end()
	_, _, err = r.extent(ctx, schemas.TopicEndpoints)
	if err == nil {
		_, err = sealing.RotateFile(place.key().Path(), false)
	}
	return err
}

// report tells what a walk found.
func (p *masterKeyPlace) report(out io.Writer, r *rewrap, pass sealedPass) error {
	text, err := p.key().Text()
	if err != nil {
		return err
	}
	keys, err := sealing.Keys(text)
	if err != nil {
		return err
	}
	report := reportOf(pass, r.sealer.Newest(), keys)
	if err := (&cli.Output{JSON: p.asJSON}).Print(out, report, report.show); err != nil {
		return err
	}
	if n := pass.secrets.Unopened + pass.headers.Unopened; n > 0 {
		return fmt.Errorf("%d values open with no key of this master key: nothing is sent to their endpoints until the key that sealed them is put back, or the secret is rotated and the header set again", n)
	}
	return nil
}

func newSecretsDrop(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "drop KEY_ID",
		Short: "Take a key out of the master key that nothing needs any more",
		Long: `Takes an older key out of the master key's file, once no endpoint of the running
service keeps anything that only it opens; else it refuses and changes nothing. Run
` + "`lumenhook secrets rewrap`" + ` first. With the key in LUMENHOOK_MASTER_KEY, the new value
is printed.

` + whatDroppingMeans,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return cli.Usage(fmt.Errorf("KEY_ID %q: must be a number that `lumenhook secrets list` shows", args[0]))
			}
			return runDrop(cmd, place, uint32(id))
		},
	}
}

// runDrop drops a key if nothing is found that it sealed. Commands that wait are
// looked at before the table: what is decided between is in the table.
func runDrop(cmd *cobra.Command, place *masterKeyPlace, id uint32) error {
	ctx := cmd.Context()
	text, err := place.key().Text()
	if err != nil {
		return err
	}
	left, keys, err := sealing.Drop(text, id) // refuses what needs no look at the topics
	if err != nil {
		return err
	}
	r, end, err := place.rewrap(ctx, cmd.ErrOrStderr(), false)
	if err != nil {
		return fmt.Errorf("the key was not dropped, for it is not known whether it is in use: %w", err)
	}
	inUse := 0
	if err = place.awaitFollowed(ctx); err == nil {
		inUse, err = r.inUse(ctx, id)
	}
	end()
	switch {
	case err != nil:
		return fmt.Errorf("the key was not dropped, for it is not known whether it is in use: %w", err)
	case inUse > 0:
		return fmt.Errorf("key %s is in use and was not dropped: %d values of endpoints open with it alone; run `lumenhook secrets rewrap --resume` first", keyName(id), inUse)
	}
	if _, isVariable := place.key().FromVariable(); isVariable {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", left)
		return errors.Join(err, printKeys(cmd.ErrOrStderr(), keys))
	}
	if keys, err = sealing.DropFile(place.key().Path(), id); err != nil {
		return err
	}
	return printKeys(cmd.OutOrStdout(), keys)
}

func printKeys(w io.Writer, keys []sealing.Key) error {
	for _, k := range keys {
		what := "opens"
		switch {
		case k.Seals:
			what = "seals and opens"
		case k.Staged:
			what = "opens; staged: the next rewrap makes it seal"
		}
		if _, err := fmt.Fprintf(w, "key %010d  %s\n", k.ID, what); err != nil {
			return err
		}
	}
	return nil
}
