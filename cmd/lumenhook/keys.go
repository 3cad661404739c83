package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func newKeys() *cobra.Command {
	var r reach
	c := &cobra.Command{Use: "keys", Short: "Make, list, roll and revoke API keys"}
	r.register(c)
	r.registerBrokers(c)
	c.AddCommand(newKeysCreate(&r), newKeysList(&r), newKeysRoll(&r), newKeysRevoke(&r))
	return c
}

// accountOr gives the account that a flag names, or the data folder's.
func (r *reach) accountOr(id string) (string, error) {
	if id == "" {
		run, err := runfile.Read(r.dataDir)
		if err != nil {
			return "", fmt.Errorf("%w; or give --account", err)
		}
		return run.AccountID, nil
	}
	if !domain.IsID(domain.AccountPrefix, id) {
		return "", cli.Usage(fmt.Errorf("--account %q: must be acc_ and 26 characters", id))
	}
	return id, nil
}

func newKeysCreate(r *reach) *cobra.Command {
	var account string
	var k keyFlags
	c := &cobra.Command{
		Use:   "create --permissions read,write",
		Short: "Make an API key for an account, without the API",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			id, err := r.accountOr(account)
			if err != nil {
				return err
			}
			key, text, err := k.make(r.live())
			if err != nil {
				return err
			}
			if _, err := r.submit(cmd.Context(), domain.CreateKey{AccountID: id, Key: key}, id); err != nil {
				return fmt.Errorf("making the key: %w", err)
			}
			r.admitted(cmd.Context(), text)
			made := madeKey{id, key.ID, text}
			return r.Print(cmd.OutOrStdout(), made, made.show)
		},
	}
	c.Flags().StringVar(&account, "account", "", "the account; the data folder's when not given")
	k.register(c)
	return c
}

func newKeysList(r *reach) *cobra.Command {
	var p cli.PageFlags
	c := asking(r, "list", "List the account's API keys", cli.NoArguments,
		func(ctx context.Context, c *client.Client, _ []string) (client.List[client.Key], error) {
			return c.ListKeys(ctx, p.Page)
		}, func(w io.Writer, l client.List[client.Key]) {
			cli.Row(w, "ID", "NAME", "PERMISSIONS", "FROM", "LAST USED", "EXPIRES", "ROLLED TO")
			for _, k := range l.Data {
				cli.Row(w, k.ID, k.Name, k.Permissions, k.AllowedCIDRs, k.LastUsedAt, k.ExpiresAt, k.RolledTo)
			}
			cli.More(w, l.NextCursor)
		})
	p.Register(c)
	return c
}

func newKeysRoll(r *reach) *cobra.Command {
	var grace time.Duration
	c := asking(r, "roll KEY_ID", "Put a new key in the place of another, which goes on working for a while", cli.OneArgument,
		func(ctx context.Context, c *client.Client, args []string) (client.Key, error) {
			seconds := int(grace.Seconds())
			return c.RollKey(ctx, args[0], client.KeyRoll{GraceSeconds: &seconds})
		}, func(w io.Writer, k client.Key) {
			cli.Row(w, "key id", k.ID)
			cli.Row(w, "key", k.Key)
			_, _ = io.WriteString(w, "\nThe key is shown this once: keep it.\n")
		})
	c.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the former key goes on working")
	return c
}

func newKeysRevoke(r *reach) *cobra.Command {
	var account string
	c := &cobra.Command{
		Use: "revoke KEY_ID", Short: "End an API key", Args: cli.OneArgument,
		RunE: func(cmd *cobra.Command, args []string) error {
			if account == "" {
				c, err := r.client()
				if err != nil {
					return err
				}
				if err := c.RevokeKey(cmd.Context(), args[0]); err != nil {
					return err
				}
			} else {
				id, err := r.accountOr(account)
				if err != nil {
					return err
				}
				if _, err := r.submit(cmd.Context(), domain.RevokeKey{AccountID: id, KeyID: args[0]}, id); err != nil {
					return fmt.Errorf("revoking the key: %w", err)
				}
			}
			return r.Print(cmd.OutOrStdout(), struct{}{}, func(w io.Writer) { cli.Row(w, "revoked "+args[0]) })
		},
	}
	c.Flags().StringVar(&account, "account", "", "an account's key, without the API")
	return c
}
