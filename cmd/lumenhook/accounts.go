package main

import (
	"fmt"
	"math"
	"net/mail"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
)

func newAccounts() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "accounts", Short: "Open, list and update accounts of a running service"}
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newAccountsCreate(&r), newAccountsList(&r), newAccountsUpdate(&r))
	c.Example = examplesOf(c, "create", "list")
	return c
}

func newAccountsCreate(r *apiFlags) *cobra.Command {
	var emails []string
	var k config.Key
	c := &cobra.Command{
		Use:   "create --email you@example.com",
		Short: "Open an account with a first API key",
		Example: `  # An account for a shop, with a key that may do everything, shown once
  lumenhook accounts create --email ops@shop.example --json`,
		Args: cli.NoArguments,
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
		"email address for notices of disabled endpoints; may be repeated, 10 times at most")
	k.Register(c.Flags(), "read", "write", "operate")
	r.Changes(c)
	_ = c.MarkFlagRequired("email")
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
		Short: "List the accounts of a service, oldest first",
		Long: `Lists the accounts of a service, oldest first, with the addresses for notices of disabled
endpoints. It reads them from the brokers: no API key sees another account.`,
		Example: `  # All accounts, with their addresses for notices
  lumenhook accounts list`,
		Args: cli.NoArguments,
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

func newAccountsUpdate(r *apiFlags) *cobra.Command {
	var account string
	var emails []string
	var quotas map[string]int
	c := &cobra.Command{
		Use:   "update",
		Short: "Change an account's addresses and quotas",
		Long: `Changes the addresses for notices of disabled endpoints, and quotas. The given addresses,
up to 10, replace the present ones; each gets its own mail. Notices that were not sent yet are
sent to the new addresses.

A quota is how much the account may have: endpoints, watches, senders (of all its watches
together) and backfills (in progress). A request beyond it gets 403 QUOTA_EXCEEDED.
Fulfilled and expired watches count until you delete them.`,
		Example: `  # Notices go to another address from now on
  lumenhook accounts update --account acc_… --email ops@shop.example

  # To two, each with a mail of its own
  lumenhook accounts update --email ops@shop.example --email owner@shop.example

  # The account may have 500 watches with 20,000 senders in all
  lumenhook accounts update --account acc_… --quota watches=500,senders=20000`,
		Args: cli.NoArguments,
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
	c.Flags().StringVar(&account, "account", "", "the account; the data folder's when not given")
	c.Flags().StringArrayVar(&emails, "email", nil,
		"an address from now on; may be repeated, 10 times at most")
	c.Flags().StringToIntVar(&quotas, "quota", nil,
		"how much the account may have, such as watches=500,senders=20000")
	r.Changes(c)
	c.MarkFlagsOneRequired("email", "quota")
	return c
}

// readQuotas reads quotas by their names.
func readQuotas(given map[string]int) (c domain.Counts, err error) {
	known := domain.QuotaList()
	for name, value := range given {
		i := slices.IndexFunc(known, func(q domain.Quota) bool { return q.Name == name })
		if i < 0 {
			return c, cli.Usage(fmt.Errorf("unknown quota %q for --quota: use endpoints, watches, senders "+
				"or backfills", name))
		}
		if value < 1 || value > math.MaxInt32 {
			return c, cli.Usage(fmt.Errorf("invalid value %d for --quota %s: use 1 to %d", value, name,
				math.MaxInt32))
		}
		*known[i].Of(&c) = uint32(value)
	}
	return c, nil
}
