package main

import (
	"fmt"
	"io"
	"net/mail"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/domain"
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

// madeKey is what is printed of a new key.
type madeKey struct {
	AccountID string `json:"accountId"`
	KeyID     string `json:"keyId"`
	Key       string `json:"key"`
}

func (m madeKey) show(w io.Writer) {
	cli.Row(w, "account", m.AccountID)
	cli.Row(w, "key id", m.KeyID)
	cli.Row(w, "key", m.Key)
	_, _ = io.WriteString(w, "\nThe key is shown this once: keep it.\n")
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
			made := madeKey{id, key.ID, text}
			return r.Print(cmd.OutOrStdout(), made, made.show)
		},
	}
	c.Flags().StringVar(&email, "email", "",
		"where the account's holder is told of a disabled endpoint")
	k.Register(c.Flags(), "read", "write", "operate")
	_ = c.MarkFlagRequired("email")
	return c
}
