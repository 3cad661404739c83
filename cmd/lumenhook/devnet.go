package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/config"
	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/forward"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/runfile"
)

func newDevnet() *cobra.Command {
	var dir string
	c := group("devnet", newDevnetPay(&dir), newDevnetAccount(&dir), newDevnetAsset(&dir),
		newDevnetCert(&dir), newDevnetReceiver(&dir), newDevnetLoad(&dir))
	c.PersistentFlags().StringVar(&dir, "data-dir", ".lumenhook", "data folder of the running service")
	return c
}

// openDevnet returns a client of the development network of a data folder's service, and the secret
// key of its payer. The caller closes the client.
func openDevnet(dir string) (c *devclient.Client, payer string, err error) {
	run, err := runfile.Read(dir)
	if err != nil {
		return nil, "", err
	}
	if run.Stellar.FriendbotURL == "" {
		return nil, "", fmt.Errorf("the service of %s follows %q, and has no development network: "+
			"pay with a wallet of yours", dir, run.Stellar.NetworkPassphrase)
	}
	ids, idsErr := devnet.LoadOrCreateIdentities(runfile.IdentitiesFile(dir))
	c, err = devclient.New(run.Stellar.RPCURL, run.Stellar.FriendbotURL)
	return c, ids.PayerSeed, errors.Join(idsErr, err)
}

// paymentFlags are the flags of a payment.
type paymentFlags struct {
	devclient.PayRequest
	text, hash  string
	id, muxedID uint64
}

func (p *paymentFlags) register(f *pflag.FlagSet) {
	f.StringVar(&p.To, "to", "", "wallet to pay: a G or M address")
	f.StringVar(&p.Amount, "amount", "", "amount to pay, with up to 7 decimal places")
	f.StringVar(&p.Asset, "asset", "", "asset to pay in, as CODE:ISSUER (default lumens)")
	f.StringVar(&p.text, "memo-text", "", "text memo, up to 28 bytes")
	f.Uint64Var(&p.id, "memo-id", 0, "id memo")
	f.StringVar(&p.hash, "memo-hash", "", "hash memo, 64 hex digits")
	f.Uint64Var(&p.muxedID, "muxed-id", 0, "pay the wallet's muxed address with this id")
}

// check completes the request by the flags that were given, and reports every fault.
func (p *paymentFlags) check(given func(flag string) bool) error {
	var faults []error
	text, id, hashed := given("memo-text"), given("memo-id"), given("memo-hash")
	hash, err := hex.DecodeString(p.hash)
	switch {
	case text && id, text && hashed, id && hashed:
		faults = append(faults, errors.New("--memo-text, --memo-id and --memo-hash: give one of them"))
	case text && len(p.text) > txnbuild.MemoTextMaxLength:
		faults = append(faults, fmt.Errorf("--memo-text: must have at most %d bytes, has %d",
			txnbuild.MemoTextMaxLength, len(p.text)))
	case text:
		p.Memo = txnbuild.MemoText(p.text)
	case id:
		p.Memo = txnbuild.MemoID(p.id)
	case hashed && (err != nil || len(hash) != len(txnbuild.MemoHash{})):
		faults = append(faults, fmt.Errorf("--memo-hash %q: must be 64 hex digits", p.hash))
	case hashed:
		p.Memo = txnbuild.MemoHash(hash)
	}
	if given("muxed-id") {
		p.MuxedID = &p.muxedID
	}
	return cli.Usage(errors.Join(append(faults, p.PayRequest.Check())...))
}

func newDevnetPay(dir *string) *cobra.Command {
	var payment paymentFlags
	var out cli.Output
	c := newCommand("devnet pay", func(cmd *cobra.Command, _ []string) error {
		err := payment.check(cmd.Flags().Changed)
		if err != nil {
			return err
		}
		n, payer, err := openDevnet(*dir)
		if err != nil {
			return err
		}
		defer n.Close()
		payment.From = payer
		paid, err := n.Pay(cmd.Context(), payment.PayRequest)
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), paid, func(w io.Writer) {
			fmt.Fprintf(w, "paid %s in ledger %d\n  payment %s\n  transaction %s\n",
				payment.Amount, paid.Ledger, paid.ID, paid.TxHash)
		})
	})
	payment.register(c.Flags())
	out.Register(c.Flags())
	out.Changes(c)
	cli.Require(c, "to", "amount")
	return c
}

func newDevnetAsset(dir *string) *cobra.Command {
	var code, amount string
	var out cli.Output
	c := newCommand("devnet asset", func(cmd *cobra.Command, _ []string) error {
		err := errors.Join(devclient.CheckCode(code), devclient.CheckAmount(amount))
		if err != nil {
			return cli.Usage(err)
		}
		n, payer, err := openDevnet(*dir)
		if err != nil {
			return err
		}
		defer n.Close()
		issued, err := n.IssueAsset(cmd.Context(), payer, code, amount)
		if err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), issued, func(w io.Writer) {
			fmt.Fprintf(w, "asset   %s\nissuer  %s\nsecret  %s\n"+
				"the payer holds %s; a wallet that trusts it: lumenhook devnet account --asset %s\n",
				issued.Asset, issued.Issuer, issued.IssuerSecret, amount, issued.Asset)
		})
	})
	f := c.Flags()
	f.StringVar(&code, "code", "", "asset code: 1 to 12 letters and digits")
	f.StringVar(&amount, "amount", "1000000000", "amount to issue to the payer")
	out.Register(f)
	out.Changes(c)
	cli.Require(c, "code")
	return c
}

// wallet identifies a new account.
type wallet struct {
	Address string `json:"address"`
	Secret  string `json:"secret"`
}

func newDevnetAccount(dir *string) *cobra.Command {
	var assets []string
	var out cli.Output
	c := newCommand("devnet account", func(cmd *cobra.Command, _ []string) error {
		for _, asset := range assets {
			if _, err := devclient.ParseAsset(asset); err != nil {
				return cli.Usage(err)
			}
		}
		n, _, err := openDevnet(*dir)
		if err != nil {
			return err
		}
		defer n.Close()
		address, secret, err := n.CreateAccount(cmd.Context(), assets...)
		if err != nil {
			return err
		}
		if err := n.NextLedger(cmd.Context()); err != nil {
			return err
		}
		return out.Print(cmd.OutOrStdout(), wallet{address, secret}, func(w io.Writer) {
			cli.Row(w, "address", address)
			cli.Row(w, "secret", secret)
		})
	})
	c.Flags().StringSliceVar(&assets, "asset", nil,
		"asset for the wallet to trust, as CODE:ISSUER; can be repeated")
	out.Register(c.Flags())
	out.Changes(c)
	return c
}

func newDevnetCert(dir *string) *cobra.Command {
	var out string
	c := newCommand("devnet cert", func(cmd *cobra.Command, _ []string) error {
		if out == "" {
			return cli.Usage(fmt.Errorf("--out %q: %w", out, runfile.ErrNoFolder))
		}
		run, err := runfile.Read(*dir)
		if err != nil {
			return err
		}
		ca, err := keys.LoadOrCreateCA(filepath.Join(*dir, "secrets"), run.CAFile, time.Now)
		if err != nil {
			return err
		}
		folder, err := filepath.Abs(out)
		if err != nil {
			return fmt.Errorf("--out %q: %w", out, err)
		}
		cert, key, err := ca.WriteFiles(folder)
		if err != nil {
			return fmt.Errorf("--out %q: %w", out, err)
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "certificate %s\nkey         %s\nauthority   %s\n",
			cert, key, ca.CertFile())
		return err
	})
	c.Flags().StringVar(&out, "out", "", "folder to write cert.pem and key.pem to")
	cli.Require(c, "out")
	return c
}

func newDevnetReceiver(dir *string) *cobra.Command {
	var r forward.Receiver
	c := newCommand("devnet receiver", func(cmd *cobra.Command, _ []string) error {
		r.DataDir = *dir
		return r.Run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
	f := c.Flags()
	f.StringVar(&r.Listen, "listen", "127.0.0.1:8443", "address to listen on")
	f.StringVar(&r.SecretFile, "secret-file", "",
		"file that contains the endpoint's signing secrets, one per line")
	f.BoolVar(&r.JSON, "json", false, "print each webhook as a single line of JSON")
	cli.Require(c, "secret-file")
	return c
}

// loadPaymentsMax is how many payments the accounts of a load can fund.
const loadPaymentsMax = 20_000

func newDevnetLoad(dir *string) *cobra.Command {
	var l forward.Load
	c := newCommand("devnet load", func(cmd *cobra.Command, _ []string) (err error) {
		if l.Payments < 1 || l.Payments > loadPaymentsMax || l.PerSecond < 1 || l.PerSecond > 500 ||
			l.Watches < 1 || l.Watches > 100 ||
			l.FailRatio < 0 || l.FailRatio > 1 || math.IsNaN(l.FailRatio) {
			return cli.Usage(fmt.Errorf("must be --payments from 1 to %d, --rate from 1 to 500, "+
				"--watches from 1 to 100, and --fail-ratio from 0 to 1", loadPaymentsMax))
		}
		l.DataDir = *dir
		if l.API, err = (&config.Service{DataDir: *dir}).API(); err != nil {
			return err
		}
		if l.Network, l.Payer, err = openDevnet(*dir); err != nil {
			return err
		}
		defer l.Network.Close()
		bar := cli.NewProgress(cmd.ErrOrStderr())
		bar.Unit, l.Progress = "payments", bar.Show
		err = l.Run(cmd.Context())
		bar.End()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "made %d payments, received %d webhooks and refused "+
			"%d of them\n", l.Payments, l.Requests.Load(), l.Refused.Load())
		return err
	})
	f := c.Flags()
	f.IntVar(&l.Payments, "payments", 500, "number of payments, 1 to 20000")
	f.IntVar(&l.PerSecond, "rate", 50, "payments per second, 1 to 500")
	f.IntVar(&l.Watches, "watches", 10, "number of wallets and watches, 1 to 100")
	f.Float64Var(&l.FailRatio, "fail-ratio", 0, "share of webhooks to refuse, 0 to 1")
	return c
}
