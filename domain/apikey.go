package domain

import (
	"crypto/sha256"
	"strings"
)

// Prefixes of API keys: test keys for every network except the public one.
const (
	LiveKeyPrefix = "whk_live_"
	TestKeyPrefix = "whk_test_"
)

// Lengths of a key's two parts after its prefix: 32 random bytes, and a checksum of 40 bits
// that distinguishes a mistyped key from an unknown one.
const (
	keyEntropyLength  = 52
	keyChecksumLength = 8
)

// NewAPIKey makes an API key from 256 random bits of the caller's.
func NewAPIKey(live bool, entropy [32]byte) string {
	prefix := TestKeyPrefix
	if live {
		prefix = LiveKeyPrefix
	}
	key := prefix + crockford.EncodeToString(entropy[:])
	return key + keyChecksum(key)
}

// WellFormedAPIKey reports whether a key has the form and the checksum of NewAPIKey. It
// needs no look-up, so that garbage never reaches a table.
func WellFormedAPIKey(key string) bool {
	random, test := strings.CutPrefix(key, TestKeyPrefix)
	if !test {
		var live bool
		if random, live = strings.CutPrefix(key, LiveKeyPrefix); !live {
			return false
		}
	}
	if len(random) != keyEntropyLength+keyChecksumLength {
		return false
	}
	// The checksum covers the text and not the bits that it encodes: the last digit of the
	// random part has spare bits, and each key has one spelling.
	end := len(key) - keyChecksumLength
	return key[end:] == keyChecksum(key[:end])
}

// APIKeyHash returns the stored form of a key: the SHA-256 of all of it. A key has 256 random bits,
// so a fast hash is safe.
func APIKeyHash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func keyChecksum(keyWithoutChecksum string) string {
	sum := sha256.Sum256([]byte(keyWithoutChecksum))
	return crockford.EncodeToString(sum[:5])
}

// NewSecret makes an endpoint's signing secret from 256 random bits of the caller's.
func NewSecret(entropy [32]byte) Secret {
	return SecretPrefix + Secret(crockford.EncodeToString(entropy[:]))
}
