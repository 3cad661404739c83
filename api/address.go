package api

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stellar/go-stellar-sdk/strkey"
)

// looksLikeSecretKey takes the first letter for the whole, as the specification
// does, so that a mistyped secret key is a secret too; and any spelling of one
// that leads a careless program to it.
func looksLikeSecretKey(s string) bool {
	return strings.HasPrefix(strings.TrimSpace(s), "S") || holdsSecret(s)
}

// readAccount reads a G address. No fault repeats the value but for a muxed
// address, whose account is named.
func readAccount(s string, at jsontext.Pointer, f *faults) bool {
	switch {
	case strkey.IsValidEd25519PublicKey(s):
		return true
	case looksLikeSecretKey(s):
		refuseSecretKey(at, f)
	case strkey.IsValidMuxedAccountEd25519PublicKey(s):
		f.add(at, faultMuxedAddress, "is a muxed address: use its account "+accountOfMuxed(s))
	case strkey.IsValidContractAddress(s):
		f.add(at, faultContractAddress,
			"is the address of a contract: use an account's address, which starts with G")
	default:
		f.add(at, faultInvalidAddress,
			"must be an account's address: 56 characters that start with G, with a valid checksum")
	}
	return false
}

// readSender reads a G or C address: whoever can pay.
func readSender(s string, at jsontext.Pointer, f *faults) bool {
	switch {
	case strkey.IsValidEd25519PublicKey(s), strkey.IsValidContractAddress(s):
		return true
	case looksLikeSecretKey(s):
		refuseSecretKey(at, f)
	case strkey.IsValidMuxedAccountEd25519PublicKey(s):
		f.add(at, faultMuxedAddress, "is a muxed address: allow its account "+accountOfMuxed(s))
	default:
		f.add(at, faultInvalidAddress,
			"must be the address of an account or a contract: 56 characters that start with G or C, with "+
				"a valid checksum")
	}
	return false
}

func refuseSecretKey(at jsontext.Pointer, f *faults) {
	f.add(at, codeSecretKeyRefused,
		"holds a secret key, which was not kept. Use the public address, which starts with G, and "+
			"treat the secret key as exposed: move what it controls to a new account")
}

func accountOfMuxed(s string) string {
	muxed, err := strkey.DecodeMuxedAccount(s)
	if err != nil {
		return "(its G address)"
	}
	account, err := muxed.AccountID()
	if err != nil {
		return "(its G address)"
	}
	return account
}
