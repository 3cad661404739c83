package devclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/stellar/go-stellar-sdk/keypair"
	protocol "github.com/stellar/go-stellar-sdk/protocols/rpc"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

const (
	maxAssets         = 100 // operations in a transaction
	maxFriendbotBytes = 256 << 10
)

// CreateAccount makes a key pair, funds it by friendbot and has it trust the assets
// (CODE:ISSUER). It returns after all that is in closed ledgers.
func (c *Client) CreateAccount(
	ctx context.Context, assets ...string,
) (address, secret string, err error) {
	lines, err := parseLines(assets)
	if err != nil {
		return "", "", err
	}
	pair, err := keypair.Random()
	if err != nil {
		return "", "", fmt.Errorf("make a key pair: %w", err)
	}
	if err := c.Fund(ctx, pair.Address()); err != nil {
		return "", "", err
	}
	if len(lines) > 0 {
		if _, err := c.execute(ctx, pair, nil, lines...); err != nil {
			return "", "", fmt.Errorf("trust the assets of account %s: %w", pair.Address(), err)
		}
	}
	return pair.Address(), pair.Seed(), nil
}

// IssuedAsset is an asset with its issuer, whose secret can issue more of it.
type IssuedAsset struct {
	Asset        string `json:"asset"` // CODE:ISSUER
	Issuer       string `json:"issuer"`
	IssuerSecret string `json:"issuerSecret"`
}

// IssueAsset makes an issuer of an asset with this code, and has the account of a secret key
// trust it and receive the amount. It returns after all that is in closed ledgers.
func (c *Client) IssueAsset(
	ctx context.Context, holderSeed, code, amount string,
) (IssuedAsset, error) {
	holder, holderErr := parseSeed("holder", holderSeed)
	if err := errors.Join(holderErr, checkCode(code), checkAmount(amount)); err != nil {
		return IssuedAsset{}, err
	}
	issuer, secret, err := c.CreateAccount(ctx)
	if err != nil {
		return IssuedAsset{}, err
	}
	issued := IssuedAsset{Asset: code + ":" + issuer, Issuer: issuer, IssuerSecret: secret}
	if err := c.EnsureTrustline(ctx, holderSeed, issued.Asset); err != nil {
		return IssuedAsset{}, err
	}
	_, err = c.Pay(ctx,
		PayRequest{From: secret, To: holder.Address(), Amount: amount, Asset: issued.Asset})
	return issued, err
}

// EnsureTrustline has the account of a secret key trust an asset (CODE:ISSUER) without limit,
// unless it does so already.
func (c *Client) EnsureTrustline(ctx context.Context, seed, asset string) error {
	pair, seedErr := parseSeed("seed", seed)
	lines, linesErr := parseLines([]string{asset})
	if err := errors.Join(seedErr, linesErr); err != nil {
		return err
	}
	held, err := c.hasTrustline(ctx, pair.Address(), asset)
	if err != nil || held {
		return err
	}
	if _, err := c.execute(ctx, pair, nil, lines...); err != nil {
		return fmt.Errorf("trust %s: %w", asset, err)
	}
	return nil
}

func parseLines(assets []string) ([]txnbuild.Operation, error) {
	if len(assets) > maxAssets {
		return nil, fmt.Errorf("%d assets are more than the %d one transaction can trust", len(assets),
			maxAssets)
	}
	var faults []error
	var ops []txnbuild.Operation
	for _, text := range assets {
		asset, err := parseAsset(text)
		if err == nil && asset.IsNative() {
			err = fmt.Errorf("asset %q needs no trustline: every account holds lumens", text)
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		ops = append(ops,
			&txnbuild.ChangeTrust{
				Line:  txnbuild.ChangeTrustAssetWrapper{Asset: asset},
				Limit: txnbuild.MaxTrustlineLimit,
			})
	}
	return ops, errors.Join(faults...)
}

func (c *Client) hasTrustline(ctx context.Context, address, asset string) (bool, error) {
	parsed, err := parseAsset(asset)
	if err != nil {
		return false, err
	}
	credit, err := parsed.ToXDR()
	if err != nil {
		return false, fmt.Errorf("asset %q: %w", asset, err)
	}
	var key xdr.LedgerKey
	if err := key.SetTrustline(xdr.MustAddress(address), credit.ToTrustLineAsset()); err != nil {
		return false, fmt.Errorf("name the trustline of %s: %w", address, err)
	}
	text, err := xdr.MarshalBase64(key)
	if err != nil {
		return false, fmt.Errorf("name the trustline of %s: %w", address, err)
	}
	answer, err := c.rpc.GetLedgerEntries(ctx, protocol.GetLedgerEntriesRequest{Keys: []string{text}})
	if err != nil {
		return false, fmt.Errorf("look for the trustline of %s: %w", address, err)
	}
	return len(answer.Entries) > 0, nil
}

// Fund has friendbot create an account with 10,000 XLM, and returns after its ledger is closed.
func (c *Client) Fund(ctx context.Context, address string) error {
	if c.friendbotURL == "" {
		return errors.New("fund an account: the friendbot URL is not known")
	}
	form := url.Values{"addr": {address}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.friendbotURL+"?"+form, nil)
	if err != nil {
		return fmt.Errorf("ask friendbot to fund %s: %w", address, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask friendbot to fund %s (is the development network running?): %w", address,
			err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxFriendbotBytes))
	if err != nil {
		return fmt.Errorf("read friendbot's answer for %s: %w", address, err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var problem struct {
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
		problem.Detail = "no reason given"
	}
	return fmt.Errorf("friendbot did not fund %s (%s): %s", address, resp.Status, problem.Detail)
}
