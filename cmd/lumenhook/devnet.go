package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/txnbuild"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet/devclient"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/standalone"
	"github.com/lumenhook/lumenhook/streams/ledger/rpc"
)

func newDevnet() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "devnet",
		Short: "Make wallets and payments on the development network of a running service",
	}
	c.PersistentFlags().StringVar(&dir, "data-dir", ".lumenhook", "data folder of the running service")
	c.AddCommand(newDevnetPay(&dir), newDevnetAccount(&dir), newDevnetAsset(&dir), newDevnetCert(&dir), newDevnetReceiver(&dir))
	return c
}

// memoFlags are the three forms of a memo, of which one may be given.
type memoFlags struct{ text, id, hash string }

func (m memoFlags) memo(changed func(string) bool) (txnbuild.Memo, error) {
	var memos []txnbuild.Memo
	if changed("memo-text") {
		if len(m.text) > 28 {
			return nil, fmt.Errorf("--memo-text: %d bytes, and a memo holds at most 28", len(m.text))
		}
		memos = append(memos, txnbuild.MemoText(m.text))
	}
	if changed("memo-id") {
		id, err := strconv.ParseUint(m.id, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("--memo-id %q: must be a number from 0 to 18446744073709551615", m.id)
		}
		memos = append(memos, txnbuild.MemoID(id))
	}
	if changed("memo-hash") {
		hash, err := hex.DecodeString(m.hash)
		if err != nil || len(hash) != 32 {
			return nil, fmt.Errorf("--memo-hash %q: must be 64 hex digits", m.hash)
		}
		memos = append(memos, txnbuild.MemoHash(hash))
	}
	switch len(memos) {
	case 0:
		return nil, nil
	case 1:
		return memos[0], nil
	}
	return nil, errors.New("--memo-text, --memo-id and --memo-hash: give one of them")
}

// checkWallet checks where to pay. A secret key is never repeated.
func checkWallet(to string, muxed bool) error {
	switch {
	case strkey.IsValidEd25519PublicKey(to), strkey.IsValidMuxedAccountEd25519PublicKey(to) && !muxed:
		return nil
	case strings.HasPrefix(to, "S"):
		return errors.New("--to: is a secret key: give the public address, which starts with G, and treat the key as leaked")
	case strkey.IsValidMuxedAccountEd25519PublicKey(to):
		return errors.New("--muxed-id: --to is a muxed address (M…), which has an id: leave this one out, or give the G… address")
	}
	return fmt.Errorf("--to %q: must be a Stellar address: 56 characters that start with G, or 69 that start with M", to)
}

// checkAsset checks an asset as people write it. An issuer that looks like a
// secret key is never repeated.
func checkAsset(asset string) error {
	code, issuer, _ := strings.Cut(asset, ":")
	switch {
	case asset == "", asset == "XLM", asset == "native":
		return nil
	case strings.HasPrefix(issuer, "S"), strings.HasPrefix(code, "S") && len(code) > maxAssetCodeLength:
		return errors.New("--asset: names a secret key: give the issuer's public address, which starts with G, and treat the key as leaked")
	case !strkey.IsValidEd25519PublicKey(issuer), len(code) > maxAssetCodeLength, !isAlphanumeric(code):
		return fmt.Errorf("--asset %q: must be CODE:ISSUER, with a code of 1 to 12 letters and digits and the issuer's G… address; or XLM", asset)
	}
	return nil
}

const maxAssetCodeLength = 12

func isAlphanumeric(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

func checkPaidAmount(amount string) error {
	stroops, err := domain.ParseAmount(amount)
	if err == nil && stroops == 0 {
		err = errors.New("must be greater than 0")
	}
	if err != nil {
		return fmt.Errorf("--amount %q: %w", amount, err)
	}
	return nil
}

func parseMuxedID(text string) (*uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("--muxed-id %q: must be a number from 0 to 18446744073709551615", text)
	}
	return &id, nil
}

func newDevnetPay(dir *string) *cobra.Command {
	var (
		req     devclient.PayRequest
		memo    memoFlags
		muxedID string
		out     cli.Output
	)
	c := &cobra.Command{
		Use:     "pay --to G… --amount 12.5",
		Short:   "Pay a wallet from the payer's account, and wait for the ledger",
		Example: "  lumenhook devnet pay --to GABC… --amount 12.5 --memo-text order-42",
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var memoErr, muxedErr error
			req.Memo, memoErr = memo.memo(cmd.Flags().Changed)
			muxed := cmd.Flags().Changed("muxed-id")
			if muxed {
				req.MuxedID, muxedErr = parseMuxedID(muxedID)
			}
			if err := errors.Join(checkWallet(req.To, muxed), checkPaidAmount(req.Amount), checkAsset(req.Asset), memoErr, muxedErr); err != nil {
				return cli.Usage(err)
			}
			client, err := devnetClient(*dir)
			if err != nil {
				return err
			}
			defer client.Close()
			ids, err := devnet.LoadOrCreateIdentities(standalone.IdentitiesFile(*dir))
			if err != nil {
				return err
			}
			req.From = ids.PayerSeed
			paid, err := client.Pay(cmd.Context(), req)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), paid, func(w io.Writer) {
				fmt.Fprintf(w, "paid %s in ledger %d\n  payment %s\n  transaction %s\n", req.Amount, paid.Ledger, paid.ID, paid.TxHash)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&req.To, "to", "", "wallet to pay: a G or M address")
	f.StringVar(&req.Amount, "amount", "", "amount, with up to 7 digits after the point")
	f.StringVar(&req.Asset, "asset", "", "CODE:ISSUER; lumens when not given")
	f.StringVar(&memo.text, "memo-text", "", "text memo, up to 28 bytes")
	f.StringVar(&memo.id, "memo-id", "", "id memo")
	f.StringVar(&memo.hash, "memo-hash", "", "hash memo, 64 hex digits")
	f.StringVar(&muxedID, "muxed-id", "", "pay the muxed address of this id")
	out.Register(f)
	_ = c.MarkFlagRequired("to")
	_ = c.MarkFlagRequired("amount")
	return c
}

func newDevnetAsset(dir *string) *cobra.Command {
	var (
		code, amount string
		out          cli.Output
	)
	c := &cobra.Command{
		Use:   "asset --code USDC",
		Short: "Make an issuer of an asset, which the payer then holds and can pay",
		Long: `Makes an account that issues an asset, has the payer of the development network trust
it, and issues an amount to the payer, so that "devnet pay --asset" can send it. A wallet
must trust an asset before it can receive it: "devnet account --asset" makes one that does.`,
		Example: "  lumenhook devnet asset --code USDC          # prints USDC:G…\n" +
			"  lumenhook devnet account --asset USDC:G…    # a wallet that trusts it\n" +
			"  lumenhook devnet pay --to G… --amount 12.5 --asset USDC:G…",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var codeErr error
			if len(code) > maxAssetCodeLength || !isAlphanumeric(code) {
				codeErr = fmt.Errorf("--code %q: must be 1 to %d letters and digits", code, maxAssetCodeLength)
			}
			if err := errors.Join(codeErr, checkPaidAmount(amount)); err != nil {
				return cli.Usage(err)
			}
			client, err := devnetClient(*dir)
			if err != nil {
				return err
			}
			defer client.Close()
			ids, err := devnet.LoadOrCreateIdentities(standalone.IdentitiesFile(*dir))
			if err != nil {
				return err
			}
			issued, err := client.IssueAsset(cmd.Context(), ids.PayerSeed, code, amount)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), issued, func(w io.Writer) {
				fmt.Fprintf(w, "asset   %s\nissuer  %s\nsecret  %s\nthe payer holds %s; a wallet that trusts it: lumenhook devnet account --asset %s\n",
					issued.Asset, issued.Issuer, issued.IssuerSecret, amount, issued.Asset)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&code, "code", "", "the asset's code: 1 to 12 letters and digits")
	f.StringVar(&amount, "amount", "1000000000", "how much the payer receives")
	out.Register(f)
	_ = c.MarkFlagRequired("code")
	return c
}

func newDevnetAccount(dir *string) *cobra.Command {
	var (
		assets []string
		out    cli.Output
	)
	c := &cobra.Command{
		Use:   "account [--asset CODE:ISSUER]",
		Short: "Make and fund a wallet, and print its address and secret",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, asset := range assets {
				if err := checkAsset(asset); err != nil {
					return cli.Usage(err)
				}
			}
			client, err := devnetClient(*dir)
			if err != nil {
				return err
			}
			defer client.Close()
			address, secret, err := client.CreateAccount(cmd.Context(), assets...)
			if err != nil {
				return err
			}
			if err := nextLedger(cmd.Context(), *dir); err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), map[string]string{"address": address, "secret": secret}, func(w io.Writer) {
				cli.Row(w, "address", address)
				cli.Row(w, "secret", secret)
			})
		},
	}
	c.Flags().StringSliceVar(&assets, "asset", nil, "CODE:ISSUER to trust; may be repeated")
	out.Register(c.Flags())
	return c
}

// nextLedger waits until one more ledger is closed: by then the service has read
// the one that funded the wallet, and a watch that is made now does not report
// the funding.
func nextLedger(ctx context.Context, dir string) error {
	run, err := runfile.Read(dir)
	if err != nil {
		return err
	}
	source, err := rpc.New(rpc.Config{URL: run.Stellar.RPCURL, Passphrase: run.Stellar.NetworkPassphrase, PollInterval: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	latest, err := source.Latest(ctx)
	if err == nil {
		_, err = source.Next(ctx, latest+1)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // ledgers close slowly here: then there is time enough
	}
	return err
}

func newDevnetCert(dir *string) *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "cert --out DIR",
		Short: "Make a certificate for a receiver on this machine, signed by the run's own authority",
		Args:  cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return cli.Usage(fmt.Errorf("--out %q: %w", out, runfile.ErrNoFolder))
			}
			if _, err := runfile.Read(*dir); err != nil {
				return err
			}
			data, err := filepath.Abs(*dir)
			if err != nil {
				return fmt.Errorf("--data-dir %q: %w", *dir, err)
			}
			ca, err := pki.LoadOrCreateCA(filepath.Join(data, "secrets"), filepath.Join(data, "ca.pem"), time.Now)
			if err != nil {
				return err
			}
			cert, key, err := ca.WriteFiles(out, pki.DefaultHosts()...)
			if err != nil {
				return fmt.Errorf("--out %q: %w", out, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "certificate %s\nkey         %s\nauthority   %s\n", cert, key, ca.CertFile())
			return err
		},
	}
	c.Flags().StringVar(&out, "out", ".", "folder for cert.pem and key.pem")
	return c
}

func devnetClient(dir string) (*devclient.Client, error) {
	run, err := runfile.Read(dir)
	if err != nil {
		return nil, err
	}
	if run.Stellar.FriendbotURL == "" {
		return nil, fmt.Errorf("the service of %s follows %q, and has no development network: pay with a wallet of yours", dir, run.Stellar.NetworkPassphrase)
	}
	return devclient.New(run.Stellar.RPCURL, run.Stellar.FriendbotURL)
}
