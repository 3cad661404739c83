package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

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
	return cmp.Or(p.signingFile, keys.SigningKeyPath(p.key().Path()))
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
	c := group("secrets", newSecretsCreate(&place), newSecretsList(&place),
		newSecretsRewrap(&place), newSecretsDrop(&place), newSigningKeys(&place))
	place.Register(c.PersistentFlags())
	place.RegisterKafka(c.PersistentFlags())
	c.PersistentFlags().StringVar(&place.file, "master-key-file", "",
		"file that contains the master key (default the data folder's)")
	c.PersistentFlags().StringVar(&place.signingFile, "signing-keys-file", "",
		"file that contains the Ed25519 signing keys; default: "+keys.SigningFileName+
			" next to the master key")
	return c
}

func newSecretsCreate(place *masterKeyPlace) *cobra.Command {
	return newCommand("secrets create", func(cmd *cobra.Command, _ []string) error {
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
		return place.list(cmd)
	})
}

func newSecretsList(place *masterKeyPlace) *cobra.Command {
	return newCommand("secrets list", func(cmd *cobra.Command, _ []string) error {
		return place.list(cmd)
	})
}

func (p *masterKeyPlace) list(cmd *cobra.Command) error {
	list, err := p.key().Keys()
	if err != nil {
		return err
	}
	return printKeys(cmd.OutOrStdout(), list)
}

func newSecretsRewrap(place *masterKeyPlace) *cobra.Command {
	var stage, keyOnly, resume bool
	c := newCommand("secrets rewrap", func(cmd *cobra.Command, _ []string) error {
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
	})
	c.PreRunE = func(*cobra.Command, []string) error {
		if stage && keyOnly || stage && resume || keyOnly && resume {
			return errors.New("--stage, --key-only and --resume: give one of them")
		}
		return nil
	}
	f := c.Flags()
	f.BoolVar(&stage, "stage", false,
		"only add a key, which can open values but isn't used for sealing yet")
	f.BoolVar(&keyOnly, "key-only", false,
		"only rotate the key, for example while the service is stopped")
	f.BoolVar(&resume, "resume", false,
		"don't add a key; only reseal values that were sealed with an older key")
	f.BoolVar(&place.asJSON, "json", false, "print the result as JSON")
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
	c := newCommand("secrets drop", func(cmd *cobra.Command, args []string) error {
		id, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil {
			return cli.Usage(fmt.Errorf("KEY_ID %q: must be a number that "+
				"`lumenhook secrets list` shows", args[0]))
		}
		return runDrop(cmd, place, uint32(id))
	})
	c.Long += "\n\n" + ops.WhatDroppingMeans
	return c
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
		what := "decrypts"
		switch {
		case k.Seals:
			what = "active: encrypts and decrypts"
		case k.Staged:
			what = "staged: decrypts; active after the next rewrap"
		}
		if _, err := fmt.Fprintf(w, "key %010d  %s\n", k.ID, what); err != nil {
			return err
		}
	}
	return nil
}

func newSigningKeys(place *masterKeyPlace) *cobra.Command {
	return group("secrets signing", newSigningCreate(place), newSigningList(place),
		newSigningRotate(place), newSigningDrop(place))
}

func newSigningCreate(place *masterKeyPlace) *cobra.Command {
	var after time.Duration
	c := newCommand("secrets signing create", func(cmd *cobra.Command, _ []string) error {
		if after < 0 || after > maxSigningLead {
			return cli.Usage(fmt.Errorf("--after %s: must be from 0s to %s", after, maxSigningLead))
		}
		return place.changeSigning(cmd, func(s *keys.Sealer) ([]keys.SigningKey, error) {
			now := time.Now()
			return keys.CreateSigning(place.signingKeys(), s, now, now.Add(after))
		})
	})
	c.Flags().DurationVar(&after, "after", 0, "how long to wait before the key is used")
	return c
}

// maxSigningLead bounds how long a key may wait before it signs.
const maxSigningLead = 90 * 24 * time.Hour

func newSigningList(place *masterKeyPlace) *cobra.Command {
	c := newCommand("secrets signing list", func(cmd *cobra.Command, _ []string) error {
		list, err := keys.ReadSigning(place.signingKeys())
		if err != nil {
			return err
		}
		return place.printSigning(cmd, list)
	})
	c.Flags().BoolVar(&place.asJSON, "json", false, "print the keys as JSON")
	return c
}

func newSigningRotate(place *masterKeyPlace) *cobra.Command {
	var after time.Duration
	var stolen bool
	c := newCommand("secrets signing rotate", func(cmd *cobra.Command, _ []string) error {
		if after < keys.LeastLead || after > maxSigningLead {
			return cli.Usage(fmt.Errorf("--after %s: must be from %s to %s; --stolen replaces all keys "+
				"at once", after, keys.LeastLead, maxSigningLead))
		}
		return place.changeSigning(cmd, func(s *keys.Sealer) ([]keys.SigningKey, error) {
			now := time.Now()
			if stolen {
				return keys.ReplaceSigning(place.signingKeys(), s, now)
			}
			return keys.RotateSigning(place.signingKeys(), s, now, now.Add(after))
		})
	})
	c.Flags().DurationVar(&after, "after", 24*time.Hour,
		"how long to wait before the key is used, at least 2h")
	c.Flags().BoolVar(&stolen, "stolen", false,
		"remove all earlier keys and use the new key immediately")
	return c
}

func newSigningDrop(place *masterKeyPlace) *cobra.Command {
	return newCommand("secrets signing drop", func(cmd *cobra.Command, args []string) error {
		list, err := keys.DropSigning(place.signingKeys(), args[0], time.Now())
		if err != nil {
			return err
		}
		return place.printSigning(cmd, list)
	})
}

// changeSigning changes the signing keys with the master key, and prints them.
func (p *masterKeyPlace) changeSigning(
	cmd *cobra.Command, by func(*keys.Sealer) ([]keys.SigningKey, error),
) error {
	text, err := p.key().Text()
	if err != nil {
		return err
	}
	sealer, err := keys.ParseSealer(text)
	if err != nil {
		return err
	}
	list, err := by(sealer)
	if err != nil {
		return err
	}
	return p.printSigning(cmd, list)
}

// signingKeyView is a signing key without its private half. The public key is as Standard
// Webhooks writes it.
type signingKeyView struct {
	ID         string     `json:"kid"`
	PublicKey  string     `json:"publicKey"`
	SignsFrom  time.Time  `json:"signsFrom"`
	SignsUntil *time.Time `json:"signsUntil"` // null: no key follows it
}

func (p *masterKeyPlace) printSigning(cmd *cobra.Command, list []keys.SigningKey) error {
	var views []signingKeyView
	for i, k := range list {
		view := signingKeyView{
			ID:        k.ID,
			PublicKey: "whpk_" + base64.StdEncoding.EncodeToString(k.Public),
			SignsFrom: k.SignsFrom,
		}
		if until := keys.SignsUntil(list, i); !until.IsZero() {
			view.SignsUntil = &until
		}
		views = append(views, view)
	}
	out := cli.Output{JSON: p.asJSON}
	err := out.Print(cmd.OutOrStdout(), views, func(w io.Writer) {
		cli.Row(w, "KEY", "PUBLIC KEY", "SIGNS FROM", "UNTIL")
		for _, v := range views {
			cli.Row(w, v.ID, v.PublicKey, v.SignsFrom, v.SignsUntil)
		}
	})
	return err
}
