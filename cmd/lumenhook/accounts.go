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
	c := &cobra.Command{Use: "accounts", Short: "Create, list and update accounts"}
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newAccountsCreate(&r), newAccountsList(&r), newAccountsGet(&r), newAccountsUpdate(&r))
	c.Example = examplesOf(c, "create", "list")
	return c
}

func newAccountsCreate(r *apiFlags) *cobra.Command {
	var emails []string
	var k config.Key
	c := &cobra.Command{
		Use:   "create --email you@example.com",
		Short: "Create an account and its first API key",
		Example: `  # Create an account for a shop. Its key has all permissions and is shown only once
  lumenhook accounts create --email ops@shop.example --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
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
	c := &cobra.Command{
		Use:   "list",
		Short: "List a service's accounts, oldest first",
		Long: `List a service's accounts, oldest first, and the email addresses to notify when an
endpoint is disabled. The command reads them from the Kafka brokers because an API
key can't see other accounts.`,
		Example: `  # List all accounts and their notification addresses
  lumenhook accounts list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := r.Accounts(cmd.Context())
			if err != nil {
				return err
			}
			list := apicli.ViewAccounts(all)
			return r.Print(cmd.OutOrStdout(), list, list.Show)
		},
	}
	return c
}

func newAccountsGet(r *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get",
		Short: "Show an API key's account and quotas",
		Example: `  # Show each quota and how much of it is used
  lumenhook accounts get`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := r.API()
			if err != nil {
				return err
			}
			account, err := c.GetAccount(cmd.Context())
			if err != nil {
				return err
			}
			return r.Print(cmd.OutOrStdout(), account, func(w io.Writer) {
				apicli.ShowAccount(w, account)
			})
		},
	}
}

func newAccountsUpdate(r *apiFlags) *cobra.Command {
	var account string
	var emails []string
	var quotas map[string]int64
	c := &cobra.Command{
		Use:   "update",
		Short: "Change an account's addresses and quotas",
		Long: `Change an account's quotas and the email addresses to notify when an endpoint is
disabled. You can set up to 10 addresses, which replace the current ones. Each
address receives a separate email. Pending notifications go to the new addresses.

You can set quotas for endpoints, watches, senders, keys, reads, backfills and
storedBytes. The senders quota applies to all watches combined. The reads quota
limits concurrent reads and bulk operations on each node. The storedBytes quota
covers endpoints and watches. Writes that exceed a quota fail with 403 QUOTA_EXCEEDED
or TOO_MANY_KEYS. Reads that exceed the quota wait at first, then fail with 429.
Fulfilled and expired watches count toward the quota until you delete them. To see
current usage, run "lumenhook accounts get".`,
		Example: `  # Send notifications to a different address
  lumenhook accounts update --account acc_… --email ops@shop.example

  # Send a separate email to each of two addresses
  lumenhook accounts update --email ops@shop.example --email owner@shop.example

  # Allow 500 watches and 20,000 senders across all of them
  lumenhook accounts update --account acc_… --quota watches=500,senders=20000`,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
		},
	}
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
	c := &cobra.Command{Use: "keys", Short: "Create, list, roll and revoke API keys"}
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
		Use:   "create --permission read,write",
		Short: "Create an API key for an account",
		Long: `Create an API key through the service's Kafka brokers, which doesn't require an API
key. With --api-url, the API creates the key instead. The new key belongs to the same
account as your own key and can't have more permissions.`,
		Example: `  # Create a read-only key for a dashboard
  lumenhook keys create --permission read

  # Create a key for a specific account through the brokers
  lumenhook keys create --account acc_… --permission read,write --json`,
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
	c.Flags().StringVar(&account, "account", "", "account ID (default: the data folder's account)")
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
	c := listing(a, apicli.Keys, "List an account's API keys")
	c.Example = `  # List keys with their permissions and when they were last used
  lumenhook keys list`
	return c
}

func newKeysRoll(a *apiFlags) *cobra.Command {
	var grace time.Duration
	c := changing(a, "roll KEY_ID",
		"Replace a key with a new one; the old key stays valid for a grace period",
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
	c.Long = `Replace a key with a new one. If you roll the data folder's own key, the command
saves the new key there as well. Commands that use the folder and later starts then
continue to work.`
	c.Example = `  # Create a new key and keep the old one valid for an hour while you install it
  lumenhook keys roll key_… --grace 1h`
	c.Flags().DurationVar(&grace, "grace", 24*time.Hour, "how long the old key stays valid")
	return c
}

func newKeysRevoke(r *apiFlags) *cobra.Command {
	var account string
	c := &cobra.Command{
		Use:   "revoke KEY_ID",
		Short: "Revoke an API key",
		Example: `  # Revoke a key that may have leaked
  lumenhook keys revoke key_…`,
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
	c.Flags().StringVar(&account, "account", "",
		"account that owns the key, to revoke it without the API")
	r.Changes(c)
	return c
}

func newPortal() *cobra.Command {
	var a apiFlags
	c := &cobra.Command{
		Use:   "portal",
		Short: "Give a merchant temporary access to part of the console",
	}
	a.register(c)
	c.AddCommand(newPortalLink(&a))
	c.Example = examplesOf(c, "link")
	return c
}

func newPortalLink(a *apiFlags) *cobra.Command {
	var permissions []string
	var endpoint string
	var lasts time.Duration
	c := &cobra.Command{
		Use:   "link --permission read",
		Short: "Create a temporary link to the account's pages",
		Long: `Create a link that opens the account's pages in a browser without an API key. If the
service runs with --portal-frame-ancestors, merchants can embed the pages in their
own site.

You can open the link for ten minutes. The pages stay available until --expires-in
has passed or the key that created the link expires. With --endpoint, they only show
that endpoint and its events and watches.

Anyone who has the link has its permissions. Create a separate link for each person,
and treat it like a password.`,
		Example: `  # Give read-only access to endpoints, watches and events for an hour
  lumenhook portal link --permission read

  # Give a merchant who shares the account access to a single endpoint
  lumenhook portal link --permission read,operate --endpoint ep_…

  # Allow resending for a working day, and print only the URL for use in a script
  lumenhook portal link --permission read,operate --expires-in 8h --field url`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.API()
			if err != nil {
				return err
			}
			seconds := int(lasts.Seconds())
			wanted := client.PortalLinkCreate{Permissions: permissions, ExpiresInSeconds: &seconds}
			if cmd.Flags().Changed("endpoint") { // an empty one is refused, and gives not the whole account
				wanted.EndpointID = &endpoint
			}
			made, err := c.CreatePortalLink(cmd.Context(), wanted)
			if err != nil {
				return err
			}
			shown := apicli.PortalLink{URL: made.URL, PortalLink: made}
			return a.Print(cmd.OutOrStdout(), shown, func(w io.Writer) { shown.Show(w) })
		},
	}
	c.Flags().StringSliceVar(&permissions, "permission", nil,
		"permission of the link: read, write or operate; can be repeated, but can't exceed the API "+
			"key's own")
	cli.Offer(c.Flags(), "permission", "read", "write", "operate")
	c.Flags().StringVar(&endpoint, "endpoint", "",
		"limit the link to this endpoint (ep_…) (default: all endpoints in the account)")
	cli.DurationWithin(c.Flags(), &lasts, "expires-in", time.Hour, time.Minute, 24*time.Hour,
		"how long the pages stay available")
	cli.Require(c, "permission")
	a.Changes(c)
	return c
}
