package sealing

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// ErrUnknownKey means that a value was sealed with a key that the master key
// file does not hold.
var ErrUnknownKey = errors.New("it was sealed with a key that the master key file does not hold: use the file it was sealed with")

// ErrAltered means that a value is not what was sealed, or was sealed for
// something else.
var ErrAltered = errors.New("it was altered, or was sealed for something else")

// Sealer seals and opens. It may be used by many goroutines.
type Sealer struct {
	aead tink.AEAD
	keys map[uint32]bool
}

// tinkPrefix begins every sealed value, before the key's id in 4 bytes.
const (
	tinkPrefix       = 0x01
	prefixSizeBytes  = 5
	overheadGCMBytes = 12 + 16 // nonce and tag
)

func newSealer(h *keyset.Handle) (*Sealer, error) {
	a, err := aead.New(h)
	if err != nil {
		return nil, fmt.Errorf("it holds no AES-GCM keys: %w", err)
	}
	s := &Sealer{aead: a, keys: make(map[uint32]bool)}
	for _, k := range h.KeysetInfo().GetKeyInfo() {
		s.keys[k.GetKeyId()] = true
	}
	return s, nil
}

// Seal encrypts plaintext and binds it to associatedData, which is not secret and
// must be given again to open it.
func (s *Sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	sealed, err := s.aead.Encrypt(plaintext, []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("sealing: sealing a secret: %w", err)
	}
	return sealed, nil
}

// Open decrypts what Seal made with the same associatedData. Its errors are
// ErrUnknownKey and ErrAltered.
func (s *Sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	if len(sealed) < prefixSizeBytes+overheadGCMBytes || sealed[0] != tinkPrefix {
		return nil, fmt.Errorf("sealing: opening a secret: it is no sealed value: %w", ErrAltered)
	}
	if id := binary.BigEndian.Uint32(sealed[1:prefixSizeBytes]); !s.keys[id] {
		return nil, fmt.Errorf("sealing: opening a secret (key %d): %w", id, ErrUnknownKey)
	}
	plaintext, err := s.aead.Decrypt(sealed, []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("sealing: opening a secret: %w", ErrAltered)
	}
	return plaintext, nil
}
