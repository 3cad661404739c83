package domain

import (
	"crypto/sha256"
	"strings"
)

// Prefixes of API keys. Test keys are for all networks except the public one.
const (
	LiveKeyPrefix = "whk_live_"
	TestKeyPrefix = "whk_test_"
)

// A key's prefix is followed by 32 random bytes and a 40-bit checksum that detects typing mistakes.
const (
	keyEntropyLength  = 52
	keyChecksumLength = 8
)

// NewAPIKey returns an API key made of 256 random bits.
func NewAPIKey(live bool, entropy [32]byte) string {
	prefix := TestKeyPrefix
	if live {
		prefix = LiveKeyPrefix
	}
	key := prefix + crockford.EncodeToString(entropy[:])
	return key + keyChecksum(key)
}

// WellFormedAPIKey reports whether a key has the form and checksum of [NewAPIKey].
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
	// The checksum covers the text, not the bits that it encodes: the last digit of the random part
	// has spare bits, and each key must have only one spelling.
	end := len(key) - keyChecksumLength
	return key[end:] == keyChecksum(key[:end])
}

// APIKeyHash returns a key's SHA-256. A fast hash is safe because keys have 256 random bits.
func APIKeyHash(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return sum[:]
}

func keyChecksum(keyWithoutChecksum string) string {
	sum := sha256.Sum256([]byte(keyWithoutChecksum))
	return crockford.EncodeToString(sum[:5])
}

// NewSecret returns an endpoint's signing secret made of 256 random bits.
func NewSecret(entropy [32]byte) Secret {
	return SecretPrefix + Secret(crockford.EncodeToString(entropy[:]))
}
