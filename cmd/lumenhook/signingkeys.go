package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/keys"
)

func newSigningKeys(place *masterKeyPlace) *cobra.Command {
	c := &cobra.Command{
		Use:   "signing",
		Short: "Look after the keys of signatures by Ed25519",
		Long: `These keys sign receipts, which anyone can check with the public keys at
/.well-known/jwks.json. From each of them, every endpoint has a key of its own:
if its signatures contain standard-webhooks-ed25519, this key signs its deliveries,
and /.well-known/endpoints/ENDPOINT_ID/jwks.json publishes it. A rotation here rotates
the keys of all endpoints. The private keys are in the file signing-keys next to
the master key's, sealed with it. API and engines need it, the same on each
machine, and follow it within a second.`,
	}
	c.AddCommand(newSigningCreate(place), newSigningList(place), newSigningRotate(place),
		newSigningDrop(place))
	c.Example = examplesOf(c, "create", "rotate")
	return c
}

func newSigningCreate(place *masterKeyPlace) *cobra.Command {
	var after time.Duration
	c := &cobra.Command{
		Use:   "create",
		Short: "Make the file of signing keys, with a first key",
		Long: `Makes the file with a first key. It signs at once: services that run read it within
seconds, and until then say that they have none. Where several machines have a copy of
the file, let it sign --after the time that you need to bring it to all of them. What
is due to an endpoint that asks for its signature waits until then.`,
		Example: `  # For the service of this machine
  lumenhook secrets signing create

  # In an hour, until which every machine has the file
  lumenhook secrets signing create --after 1h --master-key-file secrets/engine/master-key`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if after < 0 || after > maxSigningLead {
				return cli.Usage(fmt.Errorf("--after %s: must be from 0s to %s", after, maxSigningLead))
			}
			return place.changeSigning(cmd, func(s *keys.Sealer) ([]keys.SigningKey, error) {
				now := time.Now()
				return keys.CreateSigning(place.signingKeys(), s, now, now.Add(after))
			})
		},
	}
	c.Flags().DurationVar(&after, "after", 0, "how long until it signs")
	return c
}

// maxSigningLead bounds how long a key may wait before it signs.
const maxSigningLead = 90 * 24 * time.Hour

func newSigningList(place *masterKeyPlace) *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the signing keys, with their public halves alone",
		Example: `  # Their ids and public halves
  lumenhook secrets signing list --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := keys.ReadSigning(place.signingKeys())
			if err != nil {
				return err
			}
			return place.printSigning(cmd, list)
		},
	}
	c.Flags().BoolVar(&place.asJSON, "json", false, "print the keys as JSON")
	return c
}

func newSigningRotate(place *masterKeyPlace) *cobra.Command {
	var after time.Duration
	var stolen bool
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Add a signing key, which signs later",
		Long: `Adds a key that is published at once and signs --after a while, in which every
machine and every receiver gets it. From then on both it and the key before sign,
for 24 hours; then it alone. The key before stays published until it is dropped.

With --stolen a new key takes the place of all others, and signs at once. Nothing
that they signed is verified any more, and receivers that keep the published keys
for up to an hour refuse what comes until they look again.`,
		Example: `  # A key that signs from tomorrow on
  lumenhook secrets signing rotate

  # Or in three days, where receivers keep the published keys for long
  lumenhook secrets signing rotate --after 72h`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
	c.Flags().DurationVar(&after, "after", 24*time.Hour, "how long until it signs, 2h at least")
	c.Flags().BoolVar(&stolen, "stolen", false, "take all earlier keys away, and sign at once")
	return c
}

func newSigningDrop(place *masterKeyPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "drop KEY_ID",
		Short: "Take a signing key away that signed last 30 days ago or before",
		Example: `  # A key of "secrets signing list" that signed last a month ago is published no more
  lumenhook secrets signing drop kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k`,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := keys.DropSigning(place.signingKeys(), args[0], time.Now())
			if err != nil {
				return err
			}
			return place.printSigning(cmd, list)
		},
	}
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
