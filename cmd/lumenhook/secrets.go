package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/ops"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// masterKeyPlace says where the subcommands find the master key, and the service
// whose endpoints it seals for.
type masterKeyPlace struct {
	config.Service
	file   string
	asJSON bool
	// signingFile is empty for the file next to the master key
	signingFile string
}

// key is where the master key is.
func (p *masterKeyPlace) key() keys.MasterKeyPlace {
	return keys.MasterKeyPlace{File: p.file, DataDir: p.DataDir}
}

// signingKeys is where the signing keys are.
func (p *masterKeyPlace) signingKeys() string {
	return cmp.Or(p.signingFile, keys.SigningBeside(p.key().Path()))
}

// walk says what a walk over all endpoints needs. It tells on out how far it is, until
// the bar ends.
func (p *masterKeyPlace) walk(out io.Writer) (ops.RewrapConfig, *cli.Progress) {
	bar := cli.NewProgress(out)
	return ops.RewrapConfig{
		Key:      p.key(),
		Signing:  p.signingKeys(),
		Progress: bar.Show,
		Cluster:  func() (kafka.Cluster, error) { return p.Cluster(stderrLog()) },
		Logger:   slog.New(slog.NewTextHandler(out, nil)),
	}, bar
}

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
	place.Register(c.PersistentFlags())
	place.RegisterKafka(c.PersistentFlags())
	c.PersistentFlags().StringVar(&place.file, "master-key-file", "",
		"the master key's file, where it is not a run's")
	c.PersistentFlags().StringVar(&place.signingFile, "signing-keys-file", "",
		"file of the keys of signatures by Ed25519; default: "+keys.SigningFileName+
			" next to the master key")
	c.AddCommand(newSecretsCreate(&place), newSecretsList(&place),
		newSecretsRewrap(&place), newSecretsDrop(&place), newSigningKeys(&place))
	c.Example = examplesOf(c, "create", "rewrap")
	return c
}

func newSecretsCreate(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "create --master-key-file FILE",
		Short: "Make a master key, for all processes of a service",
		Example: `  # Once, before the first process serves
  lumenhook secrets create --master-key-file /etc/lumenhook/master-key.json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if place.file == "" {
				return cli.Usage(errors.New("--master-key-file must be given: the file to make"))
			}
			if _, err := os.Stat(place.file); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("--master-key-file %q: it exists, and what was sealed with it "+
					"opens with no other (%w)", place.file, cmp.Or(err, os.ErrExist))
			}
			if _, err := keys.LoadOrCreateSealer(place.file); err != nil {
				return err
			}
			text, err := os.ReadFile(place.file)
			if err != nil {
				return err
			}
			list, err := keys.MasterKeys(text)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), list)
		},
	}
}

func newSecretsList(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys of the master key, by their ids alone",
		Example: `  # Which keys there are, and which of them seals
  lumenhook secrets list`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := place.key().Text()
			if err != nil {
				return err
			}
			list, err := keys.MasterKeys(text)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), list)
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
		Example: `  # A new key, and everything under it
  lumenhook secrets rewrap

  # Go on with what was cut short
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
				list, err := keys.RotateMasterFile(place.key().Path(), stage)
				if err != nil {
					return err
				}
				return printKeys(cmd.OutOrStdout(), list)
			}
			return runRewrap(cmd, place, resume)
		},
	}
	f := c.Flags()
	f.BoolVar(&stage, "stage", false, "add a key that opens and does not seal yet, and nothing else")
	f.BoolVar(&keyOnly, "key-only", false,
		"rotate the key and reseal nothing, as when no service runs")
	f.BoolVar(&resume, "resume", false, "add no key: reseal what still lies under an older one")
	f.BoolVar(&place.asJSON, "json", false, "print what was done as JSON")
	return c
}

func rotateVariable(cmd *cobra.Command, place *masterKeyPlace, stage bool) error {
	text, err := place.key().Text()
	if err != nil {
		return err
	}
	rotated, list, err := keys.RotateMaster(text, stage)
	if err != nil {
		return err
	}
	if err := printKeys(cmd.ErrOrStderr(), list); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", rotated)
	if err == nil && !stage {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "give the new value of %s to every process, "+
			"then run `lumenhook secrets rewrap --resume` with it\n", keys.MasterKeyVariable)
	}
	return err
}

func runRewrap(cmd *cobra.Command, place *masterKeyPlace, resume bool) error {
	cfg, bar := place.walk(cmd.ErrOrStderr())
	report, err := ops.Rewrap(cmd.Context(), cfg, resume)
	bar.End()
	if err != nil {
		return err
	}
	out := cli.Output{JSON: place.asJSON}
	if err := out.Print(cmd.OutOrStdout(), report, report.Show); err != nil {
		return err
	}
	return report.Err()
}

func newSecretsDrop(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "drop KEY_ID",
		Short: "Take a key out of the master key that nothing needs any more",
		Long: `Takes an older key out of the master key's file, once no endpoint of the running
service keeps anything that only it opens; else it refuses and changes nothing. Run
` + "`lumenhook secrets rewrap`" + ` first. With the key in LUMENHOOK_MASTER_KEY, the new value
is printed.

` + ops.WhatDroppingMeans,
		Example: `  # Take a key away that "secrets list" shows, and rewrap has left behind
  lumenhook secrets drop 1483920075`,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := strconv.ParseUint(args[0], 10, 32)
			if err != nil {
				return cli.Usage(fmt.Errorf("KEY_ID %q: must be a number that "+
					"`lumenhook secrets list` shows", args[0]))
			}
			return runDrop(cmd, place, uint32(id))
		},
	}
}

func runDrop(cmd *cobra.Command, place *masterKeyPlace, id uint32) error {
	cfg, bar := place.walk(cmd.ErrOrStderr())
	left, list, err := ops.DropKey(cmd.Context(), cfg, id)
	bar.End()
	switch {
	case err != nil:
		return err
	case left == nil:
		return printKeys(cmd.OutOrStdout(), list)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", left)
	return errors.Join(err, printKeys(cmd.ErrOrStderr(), list))
}

func printKeys(w io.Writer, list []keys.MasterKey) error {
	for _, k := range list {
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
