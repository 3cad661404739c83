package apicli

import (
	"errors"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/internal/cli"
)

// CheckWallet refuses what can be no wallet's address, as the value of --wallet: of one that is
// only mistyped the service says that nobody watches it. The value is not repeated: it may be a
// secret key.
func CheckWallet(address string) error {
	if strkey.IsValidEd25519PublicKey(address) {
		return nil
	}
	return cli.Usage(errors.New("--wallet: must be an account's address: 56 characters that start " +
		"with G, with a valid checksum"))
}
