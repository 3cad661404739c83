package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func newAccounts() *cobra.Command {
	var r reach
	c := &cobra.Command{Use: "accounts", Short: "Open accounts on a running service"}
	r.register(c)
	r.registerBrokers(c)
	c.AddCommand(newAccountsCreate(&r))
	return c
}

// keyFlags are what a key is made of.
type keyFlags struct {
	name        string
	permissions []string
	cidrs       []string
	expiresIn   time.Duration
	live        bool
}

// register adds the flags, with what a key may do when nothing is said.
func (k *keyFlags) register(c *cobra.Command, permissions ...string) {
	f := c.Flags()
	f.StringVar(&k.name, "name", "", "name of the key, for people")
	f.StringSliceVar(&k.permissions, "permissions", permissions, "read, write, operate")
	f.StringSliceVar(&k.cidrs, "allow-cidr", nil, "networks that the key may be used from; anywhere when not given")
	f.DurationVar(&k.expiresIn, "expires-in", 0, "when the key ends, such as 720h; never when not given")
	f.BoolVar(&k.live, "live", false, "a key for the public network (whk_live_)")
}

// make draws a key. All faults of the flags are told at once.
func (k *keyFlags) make(live bool) (domain.Key, string, error) {
	var faults []error
	key := domain.Key{ID: domain.NewID(domain.KeyPrefix, randomID()), Name: k.name}
	for _, p := range k.permissions {
		p := domain.Permission(p)
		if !slices.Contains(domain.Permissions(), p) {
			faults = append(faults, fmt.Errorf("--permissions %q: must be read, write or operate", p))
		}
		if !slices.Contains(key.Permissions, p) {
			key.Permissions = append(key.Permissions, p)
		}
	}
	if len(key.Permissions) == 0 {
		faults = append(faults, errors.New("--permissions: name one or more of read, write and operate"))
	}
	for _, text := range k.cidrs {
		if !strings.Contains(text, "/") {
			if address, err := netip.ParseAddr(text); err == nil {
				text = netip.PrefixFrom(address, address.BitLen()).String()
			}
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			faults = append(faults, fmt.Errorf("--allow-cidr %q: must be a network such as 192.0.2.0/24, or one address", text))
			continue
		}
		key.AllowedCIDRs = append(key.AllowedCIDRs, prefix.Masked().String())
	}
	if k.expiresIn < 0 {
		faults = append(faults, fmt.Errorf("--expires-in %s: must be in the future", k.expiresIn))
	}
	if k.expiresIn > 0 {
		key.ExpiresAtMillis = time.Now().Add(k.expiresIn).UnixMilli()
	}
	var entropy [32]byte
	rand.Read(entropy[:])
	text := domain.NewAPIKey(live || k.live, entropy)
	key.Hash = domain.APIKeyHash(text)
	return key, text, cli.Usage(errors.Join(faults...))
}

func randomID() (entropy [16]byte) {
	rand.Read(entropy[:])
	return entropy
}

// live tells whether the service is on the public network, as far as its data
// folder says.
func (r *reach) live() bool {
	run, err := runfile.Read(r.dataDir)
	return err == nil && run.Stellar.NetworkPassphrase == network.PublicNetworkPassphrase
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

func newAccountsCreate(r *reach) *cobra.Command {
	var email string
	var k keyFlags
	c := &cobra.Command{
		Use:     "create --email you@example.com",
		Short:   "Open an account with a first API key",
		Example: "  lumenhook accounts create --email ops@shop.example --json",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := mail.ParseAddress(email)
			if err != nil || address.Address != email {
				return cli.Usage(fmt.Errorf("--email %q: must be an address such as you@example.com", email))
			}
			key, text, err := k.make(r.live())
			if err != nil {
				return err
			}
			id := domain.NewID(domain.AccountPrefix, randomID())
			if _, err := r.submit(cmd.Context(), domain.CreateAccount{AccountID: id, Email: email, Key: key}, id); err != nil {
				return fmt.Errorf("opening the account: %w", err)
			}
			r.admitted(cmd.Context(), text)
			made := madeKey{id, key.ID, text}
			return r.Print(cmd.OutOrStdout(), made, made.show)
		},
	}
	c.Flags().StringVar(&email, "email", "", "where the account's holder is told of a disabled endpoint")
	k.register(c, "read", "write", "operate")
	_ = c.MarkFlagRequired("email")
	return c
}
