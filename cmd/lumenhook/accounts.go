package main

import (
	"fmt"
	"net/mail"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/apicli"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/connect"
	"github.com/lumenhook/lumenhook/internal/keyflags"
)

func newAccounts() *cobra.Command {
	var r apiFlags
	c := &cobra.Command{Use: "accounts", Short: "Open accounts on a running service"}
	r.register(c)
	r.RegisterKafka(c.PersistentFlags())
	c.AddCommand(newAccountsCreate(&r))
	return c
}

func newAccountsCreate(r *apiFlags) *cobra.Command {
	var email string
	var k keyflags.Flags
	c := &cobra.Command{
		Use:     "create --email you@example.com",
		Short:   "Open an account with a first API key",
		Example: "  lumenhook accounts create --email ops@shop.example --json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := mail.ParseAddress(email)
			if err != nil || address.Address != email {
				return cli.Usage(fmt.Errorf("--email %q: must be an address such as "+
					"you@example.com", email))
			}
			key, text, err := k.Draw(r.IsLive())
			if err != nil {
				return cli.Usage(err)
			}
			id := connect.NewID(domain.AccountPrefix)
			open := domain.CreateAccount{AccountID: id, Email: email, Key: key}
			if _, err := r.Submit(cmd.Context(), open, id); err != nil {
				return fmt.Errorf("opening the account: %w", err)
			}
			r.AwaitKey(cmd.Context(), text)
			made := apicli.MadeKey{AccountID: id, KeyID: key.ID, Key: text}
			return r.Print(cmd.OutOrStdout(), made, made.Show)
		},
	}
	c.Flags().StringVar(&email, "email", "",
		"where the account's holder is told of a disabled endpoint")
	k.Register(c.Flags(), "read", "write", "operate")
	_ = c.MarkFlagRequired("email")
	return c
}
