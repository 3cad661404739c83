package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api/client"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func newAccounts() *cobra.Command {
	var r apiFlags
	c := group("accounts", newAccountsCreate(&r), newAccountsList(&r), newAccountsUpdate(&r),
		asking(&r, "accounts get",
			func(ctx context.Context, c *client.Client, _ []string) (client.Account, error) {
				return c.GetAccount(ctx)
			}, apicli.ShowAccount))
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	return c
}

func newAccountsCreate(r *apiFlags) *cobra.Command {
	var emails []string
	var k config.Key
	c := newCommand("accounts create", func(cmd *cobra.Command, _ []string) error {
		if err := checkEmails(emails); err != nil {
			return err
		}
		key, text, err := k.Draw(r.IsLive())
		if err != nil {
			return cli.Usage(err)
		}
		id := config.NewID(domain.AccountPrefix)
		open := domain.CreateAccount{
			AccountID:  id,
			Email:      emails[0],
			MoreEmails: emails[1:],
			Key:        key,
		}
		if _, err := r.Submit(cmd.Context(), open, id); err != nil {
			return fmt.Errorf("opening the account: %w", err)
		}
		r.AwaitKey(cmd.Context(), text)
		made := apicli.MadeKey{AccountID: id, KeyID: key.ID, Key: text}
		return r.Print(cmd.OutOrStdout(), made, made.Show)
	})
	c.Flags().StringArrayVar(&emails, "email", nil,
		"email address to notify when an endpoint is disabled; can be repeated up to 10 times")
	k.Register(c.Flags(), "read", "write", "operate")
	r.Changes(c)
	cli.Require(c, "email")
	return c
}

// checkEmails refuses what no mail can be sent to, and an address that would be told twice.
func checkEmails(emails []string) error {
	if len(emails) > domain.MaxEmails {
		return cli.Usage(fmt.Errorf("--email: %d addresses, and an account has at most %d: name a list "+
			"that the others are on", len(emails), domain.MaxEmails))
	}
	for i, email := range emails {
		address, err := mail.ParseAddress(email)
		if err != nil || address.Address != email {
			return cli.Usage(fmt.Errorf("--email %q: must be an address such as you@example.com", email))
		}
		if slices.Contains(emails[:i], email) {
			return cli.Usage(fmt.Errorf("--email %q: is given twice; give each address once", email))
		}
	}
	return nil
}

func newAccountsList(r *apiFlags) *cobra.Command {
	c := newCommand("accounts list", func(cmd *cobra.Command, _ []string) error {
		all, err := r.Accounts(cmd.Context())
		if err != nil {
			return err
		}
		list := apicli.ViewAccounts(all)
		return r.Print(cmd.OutOrStdout(), list, list.Show)
	})
	return c
}

func newAccountsUpdate(r *apiFlags) *cobra.Command {
	var account string
	var emails []string
	var quotas map[string]int64
	c := newCommand("accounts update", func(cmd *cobra.Command, _ []string) error {
		id, err := r.Account(account)
		if err != nil {
			return err
		}
		update := domain.UpdateAccount{AccountID: id}
		if update.Quotas, err = readQuotas(quotas); err != nil {
			return err
		}
		if len(emails) > 0 {
			update.Email, update.MoreEmails = emails[0], emails[1:]
		}
		if err := checkEmails(emails); err != nil {
			return err
		}
		answer, err := r.Submit(cmd.Context(), update, id)
		if err != nil {
			return fmt.Errorf("updating the account: %w", err)
		}
		shown := apicli.ViewAccount(*answer.Account)
		return r.Print(cmd.OutOrStdout(), shown, shown.Show)
	})
	c.Flags().StringVar(&account, "account", "", "account ID (default: the data folder's account)")
	c.Flags().StringArrayVar(&emails, "email", nil,
		"new email address; can be repeated up to 10 times")
	c.Flags().StringToInt64Var(&quotas, "quota", nil,
		"new quotas for the account, such as watches=500,senders=20000")
	r.Changes(c)
	c.MarkFlagsOneRequired("email", "quota")
	return c
}

// readQuotas reads quotas by their names.
func readQuotas(given map[string]int64) (c domain.Counts, err error) {
	known := domain.QuotaList()
	for name, value := range given {
		i := slices.IndexFunc(known, func(q domain.Quota) bool { return q.Name == name })
		if i < 0 {
			return c, cli.Usage(fmt.Errorf("unknown quota %q for --quota: use endpoints, watches, senders, "+
				"keys, reads, backfills or storedBytes", name))
		}
		if value < 1 || uint64(value) > known[i].Most {
			return c, cli.Usage(fmt.Errorf("invalid value %d for --quota %s: use 1 to %d", value, name,
				known[i].Most))
		}
		*known[i].Of(&c) = uint64(value)
	}
	return c, nil
}

func newKeys() *cobra.Command {
	var r apiFlags
	c := group("keys", reading(&r, apicli.Keys)...)
	c.AddCommand(newKeysCreate(&r), newKeysRoll(&r), newKeysRevoke(&r))
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	return c
}

func newKeysCreate(r *apiFlags) *cobra.Command {
	var account string
	var k config.Key
	c := newCommand("keys create", func(cmd *cobra.Command, _ []string) error {
		key, text, err := k.Draw(r.IsLive())
		if err != nil {
			return cli.Usage(err)
		}
		if account == "" && r.NamesAPI() {
			made, err := createKey(cmd.Context(), r, key)
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
	})
	c.Flags().StringVar(&account, "account", "", "account ID (default: the data folder's account)")
	k.Register(c.Flags())
	r.Changes(c)
	return c
}

// createKey has the API make a key as the flags describe it.
func createKey(ctx context.Context, r *apiFlags, k domain.Key) (apicli.MadeKey, error) {
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

func newKeysRoll(a *apiFlags) *cobra.Command {
	var grace time.Duration
	var saved bool
	c := changing(a, "keys roll",
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
			saved = true
			return rolled, nil
		}, func(w io.Writer, k client.Key) {
			apicli.ShowRolledKey(w, k)
			if saved {
				_, _ = io.WriteString(w, "The data folder already has it.\n")
			}
		})
	c.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the old key stays valid")
	return c
}

func newKeysRevoke(r *apiFlags) *cobra.Command {
	var account string
	c := newCommand("keys revoke", func(cmd *cobra.Command, args []string) error {
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
	})
	c.Flags().StringVar(&account, "account", "",
		"account that owns the key, to revoke it without the API")
	r.Changes(c)
	return c
}

func newPortal() *cobra.Command {
	var a apiFlags
	c := group("portal", newPortalLink(&a))
	a.register(c)
	return c
}

func newPortalLink(a *apiFlags) *cobra.Command {
	var permissions []string
	var endpoint string
	var lasts time.Duration
	var c *cobra.Command
	c = changing(a, "portal link",
		func(ctx context.Context, api *client.Client, _ []string) (apicli.PortalLink, error) {
			seconds := int(lasts.Seconds())
			link := client.PortalLinkCreate{Permissions: permissions, ExpiresInSeconds: &seconds}
			if c.Flags().Changed("endpoint") { // the API rejects "", which is not the whole account
				link.EndpointID = &endpoint
			}
			made, err := api.CreatePortalLink(ctx, link)
			return apicli.PortalLink{URL: made.URL, PortalLink: made}, err
		}, func(w io.Writer, l apicli.PortalLink) { l.Show(w) })
	c.Flags().StringSliceVar(&permissions, "permission", nil,
		"permission of the link: read, write or operate; can be repeated, but can't exceed the API "+
			"key's own")
	cli.Offer(c.Flags(), "permission", "read", "write", "operate")
	c.Flags().StringVar(&endpoint, "endpoint", "",
		"limit the link to this endpoint (ep_…) (default: all endpoints in the account)")
	cli.DurationWithin(c.Flags(), &lasts, "expires-in", time.Hour, time.Minute, 24*time.Hour,
		"how long the pages stay available")
	cli.Require(c, "permission")
	return c
}
