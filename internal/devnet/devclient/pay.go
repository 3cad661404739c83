package devclient

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/txnbuild"
)

// PayRequest describes a payment.
type PayRequest struct {
	From    string        // payer's secret key
	To      string        // G… or M… address
	Amount  string        // decimal, up to seven fractional digits, greater than zero
	Asset   string        // CODE:ISSUER; "", "XLM" or "native" for lumens
	Memo    txnbuild.Memo // nil for no memo
	MuxedID *uint64       // converts a G… address to an M… address
}

// Payment is a payment in a closed ledger.
type Payment struct {
	TxHash string `json:"txHash"` // 64 lowercase hex characters
	Ledger uint32 `json:"ledger"`
	ID     string `json:"id"` // ID of the payment operation, decimal
}

// Check returns an error that contains all problems with the request except for From. It uses the
// names of the flags of `lumenhook devnet pay`.
func (r PayRequest) Check() error {
	_, err := r.operation()
	return err
}

func (r PayRequest) operation() (*txnbuild.Payment, error) {
	to, toErr := parseWallet(r.To, r.MuxedID)
	asset, assetErr := ParseAsset(r.Asset)
	err := errors.Join(toErr, CheckAmount(r.Amount), assetErr)
	return &txnbuild.Payment{Destination: to, Amount: r.Amount, Asset: asset}, err
}

// Pay makes a payment. It returns after the ledger has closed.
func (c *Client) Pay(ctx context.Context, r PayRequest) (Payment, error) {
	from, fromErr := parseSeed(r.From)
	op, err := r.operation()
	if err := errors.Join(fromErr, err); err != nil {
		return Payment{}, err
	}
	answer, err := c.Execute(ctx, []*keypair.Full{from}, r.Memo, op)
	if err != nil {
		return Payment{}, fmt.Errorf("pay %s to %s: %w", r.Amount, r.To, err)
	}
	id := toid.New(int32(answer.Ledger), answer.ApplicationOrder, 1).ToInt64()
	return Payment{
		TxHash: answer.TransactionHash,
		Ledger: answer.Ledger,
		ID:     strconv.FormatInt(id, 10),
	}, nil
}

// CreateAccount creates an account with a random key, funded by friendbot, and trustlines for the
// assets (CODE:ISSUER). It returns after the ledgers have closed.
func (c *Client) CreateAccount(
	ctx context.Context, assets ...string,
) (address, secret string, err error) {
	var lines []txnbuild.Operation
	for _, text := range assets {
		asset, err := ParseAsset(text)
		if err == nil && asset.IsNative() {
			err = fmt.Errorf("--asset %q needs no trustline: every account holds lumens", text)
		}
		if err != nil {
			return "", "", err
		}
		lines = append(lines, trust("", asset))
	}
	pair, err := keypair.Random()
	if err != nil {
		return "", "", fmt.Errorf("create a key pair: %w", err)
	}
	if err := c.Fund(ctx, pair.Address()); err != nil {
		return "", "", err
	}
	if len(lines) > 0 {
		if _, err := c.Execute(ctx, []*keypair.Full{pair}, nil, lines...); err != nil {
			return "", "", fmt.Errorf("trust the assets of account %s: %w", pair.Address(), err)
		}
	}
	return pair.Address(), pair.Seed(), nil
}

func trust(holder string, asset txnbuild.Asset) txnbuild.Operation {
	return &txnbuild.ChangeTrust{
		SourceAccount: holder,
		Line:          txnbuild.ChangeTrustAssetWrapper{Asset: asset},
		Limit:         txnbuild.MaxTrustlineLimit,
	}
}

// IssuedAsset is an asset with its issuer.
type IssuedAsset struct {
	Asset        string `json:"asset"` // CODE:ISSUER
	Issuer       string `json:"issuer"`
	IssuerSecret string `json:"issuerSecret"`
}

// IssueAsset creates an asset with a new issuer. The account of holderSeed trusts it and receives
// amount. It returns after the ledgers have closed.
func (c *Client) IssueAsset(
	ctx context.Context, holderSeed, code, amount string,
) (IssuedAsset, error) {
	holder, err := parseSeed(holderSeed)
	if err := errors.Join(err, CheckCode(code), CheckAmount(amount)); err != nil {
		return IssuedAsset{}, err
	}
	issuer, secret, err := c.CreateAccount(ctx)
	if err != nil {
		return IssuedAsset{}, err
	}
	asset := txnbuild.CreditAsset{Code: code, Issuer: issuer}
	_, err = c.Execute(ctx, []*keypair.Full{keypair.MustParseFull(secret), holder}, nil,
		trust(holder.Address(), asset),
		&txnbuild.Payment{Destination: holder.Address(), Amount: amount, Asset: asset})
	return IssuedAsset{Asset: code + ":" + issuer, Issuer: issuer, IssuerSecret: secret}, err
}
