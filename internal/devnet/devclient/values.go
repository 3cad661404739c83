package devclient

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/stellar/go-stellar-sdk/keypair"
	"github.com/stellar/go-stellar-sdk/strkey"
	"github.com/stellar/go-stellar-sdk/txnbuild"
	"github.com/stellar/go-stellar-sdk/xdr"

	"github.com/lumenhook/lumenhook/domain"
)

func parseSeed(seed string) (*keypair.Full, error) {
	pair, err := keypair.ParseFull(seed)
	if err != nil {
		return nil, errors.New("the payer's key is not a Stellar secret key: S and 55 more characters")
	}
	return pair, nil
}

func parseWallet(to string, muxedID *uint64) (string, error) {
	switch {
	case strkey.IsValidEd25519PublicKey(to) && muxedID != nil:
		muxed, err := xdr.MuxedAccountFromAccountId(to, *muxedID)
		return muxed.Address(), err
	case strkey.IsValidEd25519PublicKey(to):
		return to, nil
	case strkey.IsValidMuxedAccountEd25519PublicKey(to) && muxedID != nil:
		return "", errors.New("--muxed-id: --to is a muxed address (M…), which already has an id: " +
			"omit --muxed-id, or use the G… address")
	case strkey.IsValidMuxedAccountEd25519PublicKey(to):
		return to, nil
	case strings.HasPrefix(to, "S"):
		return "", errors.New("--to: is a secret key: use the public address, " +
			"which starts with G, and treat the key as leaked")
	}
	return "", fmt.Errorf("--to %q: must be a Stellar address: 56 characters that start with G, "+
		"or 69 that start with M", to)
}

// ParseAsset parses CODE:ISSUER. "", "XLM" and "native" are the native asset.
func ParseAsset(text string) (txnbuild.Asset, error) {
	code, issuer, _ := strings.Cut(text, ":")
	switch {
	case text == "", text == "XLM", text == "native":
		return txnbuild.NativeAsset{}, nil
	case strings.HasPrefix(issuer, "S"), strings.HasPrefix(code, "S") && CheckCode(code) != nil:
		return nil, errors.New("--asset: names a secret key: use the issuer's public address, " +
			"which starts with G, and treat the key as leaked")
	case !strkey.IsValidEd25519PublicKey(issuer), CheckCode(code) != nil:
		return nil, fmt.Errorf("--asset %q: must be CODE:ISSUER, with a code of 1 to 12 letters "+
			"and digits and the issuer's G… address; or XLM", text)
	}
	return txnbuild.CreditAsset{Code: code, Issuer: issuer}, nil
}

var assetCode = regexp.MustCompile(`^[A-Za-z0-9]{1,12}$`)

// CheckCode checks an asset code.
func CheckCode(code string) error {
	if !assetCode.MatchString(code) {
		return fmt.Errorf("--code %q: must be 1 to 12 letters and digits", code)
	}
	return nil
}

// CheckAmount checks the amount of a payment.
func CheckAmount(amount string) error {
	stroops, err := domain.ParseAmount(amount)
	if err == nil && stroops == 0 {
		err = errors.New("must be greater than 0")
	}
	if err != nil {
		return fmt.Errorf("--amount %q: %w", amount, err)
	}
	return nil
}
