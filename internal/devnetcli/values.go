package devnetcli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/domain"
)

// checkWallet checks where to pay. A secret key is never repeated.
func checkWallet(to string, muxed bool) error {
	switch {
	case strkey.IsValidEd25519PublicKey(to), strkey.IsValidMuxedAccountEd25519PublicKey(to) && !muxed:
		return nil
	case strings.HasPrefix(to, "S"):
		return errors.New("--to: is a secret key: give the public address, " +
			"which starts with G, and treat the key as leaked")
	case strkey.IsValidMuxedAccountEd25519PublicKey(to):
		return errors.New("--muxed-id: --to is a muxed address (M…), which has an id: " +
			"leave this one out, or give the G… address")
	}
	return fmt.Errorf("--to %q: must be a Stellar address: 56 characters that start with G, "+
		"or 69 that start with M", to)
}

// CheckAsset checks an asset as people write it. An issuer that looks like a
// secret key is never repeated.
func CheckAsset(asset string) error {
	code, issuer, _ := strings.Cut(asset, ":")
	switch {
	case asset == "", asset == "XLM", asset == "native":
		return nil
	case strings.HasPrefix(issuer, "S"),
		strings.HasPrefix(code, "S") && len(code) > maxAssetCodeLength:
		return errors.New("--asset: names a secret key: give the issuer's public address, " +
			"which starts with G, and treat the key as leaked")
	case !strkey.IsValidEd25519PublicKey(issuer), CheckCode(code) != nil:
		return fmt.Errorf("--asset %q: must be CODE:ISSUER, with a code of 1 to 12 letters "+
			"and digits and the issuer's G… address; or XLM", asset)
	}
	return nil
}

const maxAssetCodeLength = 12

// CheckCode checks the code of an asset to be issued.
func CheckCode(code string) error {
	if len(code) > maxAssetCodeLength || !isAlphanumeric(code) {
		return fmt.Errorf("--code %q: must be 1 to %d letters and digits", code, maxAssetCodeLength)
	}
	return nil
}

func isAlphanumeric(s string) bool {
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return s != ""
}

// CheckAmount checks an amount to be paid.
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
