package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/sealing"
)

// masterKeyVariable holds a master key where there is no file for it.
const masterKeyVariable = "LUMENHOOK_MASTER_KEY"

func masterKeyPath(dir string) string { return filepath.Join(dir, "secrets", "master-key.json") }

// masterKeyPlace says where the subcommands find the master key.
type masterKeyPlace struct{ dataDir, file string }

func (p *masterKeyPlace) path() string {
	if p.file != "" {
		return p.file
	}
	return masterKeyPath(p.dataDir)
}

// variable is the master key's text when it is not in a file.
func (p *masterKeyPlace) variable() (text string, set bool) {
	text, set = os.LookupEnv(masterKeyVariable)
	return text, set && p.file == ""
}

func newSecrets() *cobra.Command {
	var place masterKeyPlace
	c := &cobra.Command{
		Use:   "secrets",
		Short: "Look after the master key, which seals endpoint secrets",
		Long: `Endpoint secrets are sealed before they enter any topic or table. The master key
that seals them is a file of one or more keys: the newest seals, all open.

The key is looked for in --master-key-file, then in the variable
LUMENHOOK_MASTER_KEY, then in the folder of a run (--data-dir).`,
	}
	c.PersistentFlags().StringVar(&place.dataDir, "data-dir", ".lumenhook", "data folder of a run")
	c.PersistentFlags().StringVar(&place.file, "master-key-file", "", "the master key's file, where it is not a run's")
	c.AddCommand(newSecretsList(&place), newSecretsRewrap(&place))
	return c
}

func newSecretsList(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the keys of the master key, by their ids alone",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, set := place.variable()
			data := []byte(text)
			if !set {
				if _, err := sealing.Load(place.path()); err != nil { // checks the mode too
					return err
				}
				var err error
				if data, err = os.ReadFile(place.path()); err != nil {
					return err
				}
			}
			keys, err := sealing.Keys(data)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), keys)
		},
	}
}

func newSecretsRewrap(place *masterKeyPlace) *cobra.Command {
	var stage bool
	c := &cobra.Command{
		Use:   "rewrap",
		Short: "Rotate the master key: from now on a new key seals",
		Long: `Adds a new key to the master key's file, and makes it the one that seals. The
older keys stay: what they sealed still opens. Running processes notice within a
second; nothing is restarted.

Where each process has a copy of the file, bring the new key to all of them first
with --stage, distribute the file, and then run the command again without it: the
staged key becomes the one that seals.

With the key in LUMENHOOK_MASTER_KEY, the new value is printed, to be put where
the old one came from.

If a key may have been copied by someone who can also read the topics, rotate the
endpoint secrets too (POST /v1/endpoints/:id/rotate-secret): what was sealed with
the old key before opens with the copy.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text, set := place.variable(); set {
				rotated, keys, err := sealing.Rotate([]byte(text), stage)
				if err != nil {
					return err
				}
				if err := printKeys(cmd.ErrOrStderr(), keys); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", rotated)
				return err
			}
			keys, err := sealing.RotateFile(place.path(), stage)
			if err != nil {
				return err
			}
			return printKeys(cmd.OutOrStdout(), keys)
		},
	}
	c.Flags().BoolVar(&stage, "stage", false, "add a key that opens and does not seal yet")
	return c
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
