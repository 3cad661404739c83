package api

import (
	"slices"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"

	"github.com/lumenhook/lumenhook/api/decode"
	"github.com/lumenhook/lumenhook/api/problem"
)

// maxFormCharacters bounds texts with a fixed form, only to keep messages short.
const maxFormCharacters = 128

// freeText returns a decoder for free text of the account's users.
func freeText(maxCharacters int) func(decode.Value) string {
	return func(v decode.Value) string {
		s, ok := v.Text(maxCharacters)
		if ok {
			refuseSecret(v, s)
		}
		return s
	}
}

// refuseSecret adds a fault if a text contains a secret, because texts are shown again and stored
// unencrypted.
func refuseSecret(v decode.Value, text string) bool {
	if !holdsSecret(text) {
		return false
	}
	v.Fault(problem.FaultSecretTextRefused,
		"holds what looks like a secret: leave it out, and treat the secret as exposed")
	return true
}

func refuseSecretKey(v decode.Value) { v.Fault(secretKeyFault()) }

func secretKeyFault() (code, detail string) {
	return problem.CodeSecretKeyRefused,
		"holds a secret key, which was not kept. Use the public address, which starts with G, and " +
			"treat the secret key as exposed: move what it controls to a new account"
}

// looksLikeSecretKey reports whether a text starts with S, as the specification requires, so that a
// mistyped secret key also counts. It also recognizes spellings from which a careless program would
// restore a secret key.
func looksLikeSecretKey(s string) bool {
	return strings.HasPrefix(strings.TrimSpace(s), "S") || holdsSecret(s)
}

// accountFault returns what is wrong with a G address, or no code if it is valid. The detail never
// repeats the value; for a muxed address it names the account.
func accountFault(s string) (code, detail string) {
	switch {
	case strkey.IsValidEd25519PublicKey(s):
		return "", ""
	case looksLikeSecretKey(s):
		return secretKeyFault()
	case strkey.IsValidMuxedAccountEd25519PublicKey(s):
		return problem.FaultMuxedAddress, "is a muxed address: use its account " + accountOfMuxed(s)
	case strkey.IsValidContractAddress(s):
		return problem.FaultContractAddress,
			"is the address of a contract: use an account's address, which starts with G"
	}
	return problem.FaultInvalidAddress,
		"must be an account's address: 56 characters that start with G, with a valid checksum"
}

// senderFault is like accountFault, but also accepts C addresses, because contracts can pay.
func senderFault(s string) (code, detail string) {
	if strkey.IsValidContractAddress(s) {
		return "", ""
	}
	if code, detail = accountFault(s); code == problem.FaultInvalidAddress {
		detail = "must be the address of an account or a contract: 56 characters that start with G or " +
			"C, with a valid checksum"
	}
	return code, detail
}

func accountOfMuxed(s string) string {
	if muxed, err := strkey.DecodeMuxedAccount(s); err == nil {
		if account, err := muxed.AccountID(); err == nil {
			return account
		}
	}
	return "(its G address)"
}

// words reads elements that must be distinct words of a fixed list.
func words[T ~string](elements []decode.Value, invalid string, known ...T) []T {
	return distinct(elements, func(element decode.Value) (T, bool) {
		s, ok := element.AnyText()
		if ok && !slices.Contains(known, T(s)) {
			element.Fault(problem.FaultInvalidValue, invalid)
			ok = false
		}
		return T(s), ok
	}, "is the same as element %d")
}
