package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func newKeys() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "keys", Short: "Make, list, roll and revoke API keys"}
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newKeysCreate(&r), newKeysList(&r), newKeysRoll(&r), newKeysRevoke(&r))
	c.Example = examplesOf(c, "create", "roll")
	return c
}

func newKeysCreate(r *apiFlags) *cobra.Command {
	var account string
	var k config.Key
	c := &cobra.Command{
		Use:   "create --permissions read,write",
		Short: "Make an API key for an account",
		Long: `Makes a key by the service's brokers, which takes no key. With --api-url the API makes it,
of the account whose key asks, and with the permissions that this key has at most.`,
		Example: `  # A key for a dashboard, which may look and change nothing
  lumenhook keys create --permissions read

  # An account's, by the brokers
  lumenhook keys create --account acc_… --permissions read,write --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, text, err := k.Draw(r.IsLive())
			if err != nil {
				return cli.Usage(err)
			}
			if account == "" && r.NamesAPI() {
				made, err := askForKey(cmd.Context(), r, key)
				if err != nil {
					return err
				}
				return r.Print(cmd.OutOrStdout(), made, made.Show)
			}
			id, err := r.Account(account)
			if err != nil {
				return err
			}
			create := domain.CreateKey{AccountID: id, Key: key}
			if _, err := r.Submit(cmd.Context(), create, id); err != nil {
				return fmt.Errorf("making the key: %w", err)
			}
			r.AwaitKey(cmd.Context(), text)
			made := apicli.MadeKey{AccountID: id, KeyID: key.ID, Key: text}
			return r.Print(cmd.OutOrStdout(), made, made.Show)
		},
	}
	c.Flags().StringVar(&account, "account", "", "the account; the data folder's when not given")
	k.Register(c.Flags())
	r.Changes(c)
	return c
}

// askForKey has the API make a key as the flags describe it.
func askForKey(ctx context.Context, r *apiFlags, k domain.Key) (apicli.MadeKey, error) {
	c, err := r.API()
	if err != nil {
		return apicli.MadeKey{}, err
	}
	create := client.KeyCreate{Name: k.Name, AllowedCIDRs: k.AllowedCIDRs}
	for _, p := range k.Permissions {
		create.Permissions = append(create.Permissions, string(p))
	}
	if k.ExpiresAtMillis > 0 {
		create.ExpiresAt = new(time.UnixMilli(k.ExpiresAtMillis).UTC())
	}
	made, err := c.CreateKey(ctx, create)
	if err != nil {
		return apicli.MadeKey{}, err
	}
	if made.Key == nil {
		return apicli.MadeKey{}, errors.New("the API's answer has no key")
	}
	return apicli.MadeKey{KeyID: made.ID, Key: *made.Key}, nil
}

func newKeysList(a *apiFlags) *cobra.Command {
	c := listing(a, apicli.Keys, "List the account's API keys")
	c.Example = `  # The keys, what each may do, and when it was last used
  lumenhook keys list`
	return c
}

func newKeysRoll(a *apiFlags) *cobra.Command {
	var grace time.Duration
	c := changing(a, "roll KEY_ID",
		"Replace a key by a new one; the former key stays valid for a while", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.Key, error) {
			isFolders := a.IsFoldersKey(args[0])
			if isFolders { // a read-only folder would lose the new key
				if err := runfile.RewriteAPIKey(a.DataDir); err != nil {
					return client.Key{}, err
				}
			}
			seconds := int(grace.Seconds())
			rolled, err := c.RollKey(ctx, args[0], client.KeyRoll{GraceSeconds: &seconds})
			if err != nil || rolled.Key == nil || !isFolders {
				return rolled, err
			}
			if err := runfile.ReplaceAPIKey(a.DataDir, rolled.ID, *rolled.Key); err != nil {
				return rolled, fmt.Errorf("%w; write the new key to secrets/api-key: %s", err,
					*rolled.Key)
			}
			return rolled, nil
		}, apicli.ShowRolledKey)
	c.Long = `Replaces a key by a new one. If it is the key of the data folder, the new key is also
written there, for the commands on the folder and for the next start.`
	c.Example = `  # A new key; the former one works for an hour, in which you put it in place
  lumenhook keys roll key_… --grace 1h`
	c.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the former key stays valid")
	return c
}

func newKeysRevoke(r *apiFlags) *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "End an API key",
		Example: `  # A key that may have been seen ends at once
  lumenhook keys revoke key_…`,
		Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.IsFoldersKey(args[0]) {
				return cli.Usage(fmt.Errorf("%s is the key of the data folder, which its commands and its "+
					"next start need: replace it with `lumenhook keys roll %s --grace 0s`", args[0], args[0]))
			}
			if account == "" {
				c, err := r.API()
				if err != nil {
					return err
				}
				if err := c.RevokeKey(cmd.Context(), args[0]); err != nil {
					return err
				}
			} else {
				id, err := r.Account(account)
				if err != nil {
					return err
				}
				revoke := domain.RevokeKey{AccountID: id, KeyID: args[0]}
				if _, err := r.Submit(cmd.Context(), revoke, id); err != nil {
					return fmt.Errorf("revoking the key: %w", err)
				}
			}
			show := func(w io.Writer) { cli.Row(w, "revoked "+args[0]) }
			return r.Print(cmd.OutOrStdout(), struct{}{}, show)
		},
	}
	c.Flags().StringVar(&account, "account", "", "an account's key, without the API")
	r.Changes(c)
	return c
}
