package api

import (
	"regexp"
	"strings"

	"github.com/stellar/go-stellar-sdk/strkey"
)

// ours matches what looks like an API key, a signing secret or a portal link of ours.
const ours = `wh(sec|k_test|k_live)_[0-9a-z]{8,}|whp_[0-9a-z_-]{8,}`

// secretLike matches what looks like a secret key of the ledger network, in
// either case, and what is like a secret of ours.
var secretLike = regexp.MustCompile(`(?i)s[a-z2-7]{55}|` + ours)

// struckOut replaces a secret.
const struckOut = "[secret]"

// redact replaces whatever looks like a secret. It is the second line of defence: messages
// do not contain a client's values in the first place, but names of JSON members and errors
// of other parts pass through here too. Invalid UTF-8 is replaced, so that every text can
// be written as JSON.
func redact(s string) string {
	return strings.ToValidUTF8(secretLike.ReplaceAllLiteralString(s, struckOut), "\uFFFD")
}

// secretWord matches a whole word that looks like a secret. A muxed address is a longer
// word, and a third of them contain an S followed by 55 such characters.
var secretWord = regexp.MustCompile(`(?i)\b(s[a-z2-7]{55}|` + ours + `)\b`)

const secretKeyLength = 56

// holdsSecret reports whether a text contains a word that looks like a secret, or a secret
// key with a valid checksum inside a word.
func holdsSecret(s string) bool {
	if secretWord.MatchString(s) {
		return true
	}
	upper := strings.ToUpper(s)
	for i := 0; i+secretKeyLength <= len(upper); i++ {
		if upper[i] == 'S' && strkey.IsValidEd25519SecretSeed(upper[i:i+secretKeyLength]) {
			return true
		}
	}
	return false
}
