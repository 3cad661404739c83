package devclient

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/stellar/go-stellar-sdk/amount"
	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/toid"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"
)

// PayRequest says who pays what to whom.
type PayRequest struct {
	From    string        // secret key of the payer
	To      string        // G… or M… address
	Amount  string        // decimal, up to seven fractional digits, above zero
	Asset   string        // CODE:ISSUER; "", "XLM" or "native" for lumens
	Memo    txnbuild.Memo // nil for none
	MuxedID *uint64       // makes an M… address of a G… one
}

// Payment is a payment in a closed ledger.
type Payment struct {
	TxHash string `json:"txHash"` // 64 lowercase hex characters
	Ledger uint32 `json:"ledger"`
	ID     string `json:"id"` // of the payment operation, decimal
}

// Pay makes one payment and returns after its ledger is closed. Faults of the request are all
// reported at once, by the names of its fields in lower case, which are those of the flags.
func (c *Client) Pay(ctx context.Context, req PayRequest) (Payment, error) {
	from, op, err := req.operation()
	if err != nil {
		return Payment{}, err
	}
	answer, err := c.execute(ctx, from, req.Memo, op)
	if err != nil {
		return Payment{}, fmt.Errorf("pay %s to %s: %w", req.Amount, req.To, err)
	}
	id := toid.New(int32(answer.Ledger), answer.ApplicationOrder, 1).ToInt64()
	return Payment{
		TxHash: answer.TransactionHash,
		Ledger: answer.Ledger,
		ID:     strconv.FormatInt(id, 10),
	}, nil
}

// paymentsMax is how many operations a transaction may have (the protocol's MAX_OPS_PER_TX).
const paymentsMax = 100

// PayMany makes payments of one payer in one transaction, and returns after its ledger is closed:
// all are made, or none. The memo is that of the first.
func (c *Client) PayMany(ctx context.Context, requests []PayRequest) (ledger uint32, err error) {
	if len(requests) == 0 || len(requests) > paymentsMax {
		return 0, fmt.Errorf("%d payments: a transaction has 1 to %d", len(requests), paymentsMax)
	}
	var from *keypair.Full
	ops := make([]txnbuild.Operation, len(requests))
	for i, r := range requests {
		payer, op, err := r.operation()
		if err != nil {
			return 0, fmt.Errorf("payment %d: %w", i, err)
		}
		if from != nil && from.Address() != payer.Address() {
			return 0, fmt.Errorf("payment %d: its payer is not that of the first", i)
		}
		from, ops[i] = payer, op
	}
	answer, err := c.execute(ctx, from, requests[0].Memo, ops...)
	if err != nil {
		return 0, fmt.Errorf("make %d payments: %w", len(requests), err)
	}
	return answer.Ledger, nil
}

func (r PayRequest) operation() (*keypair.Full, txnbuild.Operation, error) {
	from, fromErr := parseSeed("from", r.From)
	to, toErr := destination(r.To, r.MuxedID)
	asset, assetErr := parseAsset(r.Asset)
	err := errors.Join(fromErr, toErr, checkAmount(r.Amount), assetErr, checkMemo(r.Memo))
	if err != nil {
		return nil, nil, err
	}
	return from, &txnbuild.Payment{Destination: to, Amount: r.Amount, Asset: asset}, nil
}

func destination(to string, muxedID *uint64) (string, error) {
	switch {
	case strkey.IsValidEd25519PublicKey(to) && muxedID == nil:
		return to, nil
	case strkey.IsValidEd25519PublicKey(to):
		muxed, err := xdr.MuxedAccountFromAccountId(to, *muxedID)
		if err != nil {
			return "", fmt.Errorf("to and muxed id do not make a muxed address: %w", err)
		}
		return muxed.Address(), nil
	case !strkey.IsValidMuxedAccountEd25519PublicKey(to):
		if strkey.IsValidEd25519SecretSeed(to) {
			return "", errors.New("to is a secret key: give the public address, and treat the key as leaked")
		}
		return "", fmt.Errorf("to %q is not a Stellar address: G or M and more characters", to)
	case muxedID != nil:
		return "", errors.New("to is a muxed address (M…) and has its id: leave the muxed id out, or " +
			"give the G… address")
	default:
		return to, nil
	}
}

func checkAmount(text string) error {
	stroops, err := amount.Parse(text)
	if err != nil || stroops <= 0 {
		return fmt.Errorf("amount %q is not a decimal above zero with at most seven fractional digits, "+
			"such as 12.5", text)
	}
	return nil
}

func checkMemo(memo txnbuild.Memo) error {
	if text, ok := memo.(txnbuild.MemoText); ok && len(text) > txnbuild.MemoTextMaxLength {
		return fmt.Errorf("memo text has %d bytes, more than the %d a memo holds", len(text),
			txnbuild.MemoTextMaxLength)
	}
	return nil
}

var assetCode = regexp.MustCompile(`^[A-Za-z0-9]{1,12}$`)

func parseAsset(text string) (txnbuild.Asset, error) {
	if text == "" || text == "XLM" || text == "native" {
		return txnbuild.NativeAsset{}, nil
	}
	code, issuer, ok := strings.Cut(text, ":")
	if !ok || !strkey.IsValidEd25519PublicKey(issuer) {
		return nil, fmt.Errorf("asset %q is not CODE:ISSUER with the issuer's G… address, and not XLM",
			text)
	}
	if err := checkCode(code); err != nil {
		return nil, err
	}
	return txnbuild.CreditAsset{Code: code, Issuer: issuer}, nil
}

func checkCode(code string) error {
	if !assetCode.MatchString(code) {
		return fmt.Errorf("asset code %q is not one to twelve letters and digits", code)
	}
	return nil
}
