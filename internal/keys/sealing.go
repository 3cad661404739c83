package keys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// ErrUnknownKey means that a value was encrypted with a key that is not in the master key file.
var ErrUnknownKey = errors.New("it was encrypted with a key that is not in the master key file: " +
	"use the file with which it was encrypted")

// ErrAltered means that a value was modified, or was encrypted for another purpose.
var ErrAltered = errors.New("it was modified, or was encrypted for another purpose")

const lookEvery = time.Second

// Sealer encrypts and decrypts values. It is safe for concurrent use. If it was loaded from a file,
// it picks up new keys within a second, so that the master key can be rotated without a restart.
type Sealer struct {
	path   string // empty if the keys didn't come from a file
	ring   atomic.Pointer[ring]
	looked atomic.Int64 // last check of the file, in Unix nanoseconds
	// unread is the error of reading the changed file, or nil if ring is up to date.
	unread atomic.Pointer[error]
}

type ring struct {
	aead    tink.AEAD
	keys    map[uint32]bool
	primary uint32
	stamp   fileStamp
}

// tinkPrefix is the first byte of an encrypted value. It is followed by the key's ID in 4 bytes.
const (
	tinkPrefix       = 0x01
	prefixSizeBytes  = 5
	overheadGCMBytes = 12 + 16 // nonce and tag
)

func newRing(h *keyset.Handle) (*ring, error) {
	a, err := aead.New(h)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key contains no AES-GCM keys: %w", err)
	}
	r := &ring{aead: a, keys: make(map[uint32]bool), primary: h.KeysetInfo().GetPrimaryKeyId()}
	for _, k := range h.KeysetInfo().GetKeyInfo() {
		r.keys[k.GetKeyId()] = true
	}
	return r, nil
}

// Seal encrypts plaintext and binds it to associatedData, which is not secret.
func (s *Sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	sealed, err := s.current().aead.Encrypt(plaintext, []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("sealing: sealing a secret: %w", err)
	}
	return sealed, nil
}

// Open decrypts a value that was encrypted by Seal with the same associatedData. It returns
// ErrUnknownKey, ErrAltered, or an error about reading the master key file.
func (s *Sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	id, ok := SealedBy(sealed)
	if !ok {
		return nil, fmt.Errorf("sealing: opening a secret: it is not an encrypted value: %w", ErrAltered)
	}
	r := s.current()
	if !r.keys[id] {
		r = s.reloadIfChanged() // another process may have used a new key
	}
	if !r.keys[id] {
		if err := s.unread.Load(); err != nil { // the changed file may contain it
			return nil, fmt.Errorf("sealing: opening a secret (key %d): %w", id, *err)
		}
		return nil, fmt.Errorf("sealing: opening a secret (key %d): %w", id, ErrUnknownKey)
	}
	plaintext, err := r.aead.Decrypt(sealed, []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("sealing: opening a secret: %w", ErrAltered)
	}
	return plaintext, nil
}

// Reseal encrypts a value with the newest key, unless it already is. Its errors are those of Open.
func (s *Sealer) Reseal(
	sealed []byte, associatedData string,
) (resealed []byte, changed bool, err error) {
	plaintext, err := s.Open(sealed, associatedData)
	if err != nil {
		return nil, false, err
	}
	if id, _ := SealedBy(sealed); id == s.Newest() {
		return sealed, false, nil
	}
	resealed, err = s.Seal(plaintext, associatedData)
	return resealed, err == nil, err
}

// Newest returns the ID of the key that Seal uses.
func (s *Sealer) Newest() uint32 { return s.current().primary }

// SealedBy returns the ID of the key that encrypted a value.
func SealedBy(sealed []byte) (id uint32, ok bool) {
	if len(sealed) < prefixSizeBytes+overheadGCMBytes || sealed[0] != tinkPrefix {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:prefixSizeBytes]), true
}

// current returns the current ring. It checks the file at most once per lookEvery.
func (s *Sealer) current() *ring {
	now, last := time.Now().UnixNano(), s.looked.Load()
	if now-last > int64(lookEvery) && s.looked.CompareAndSwap(last, now) {
		return s.reloadIfChanged()
	}
	return s.ring.Load()
}

// Check returns an error if the master key file has changed and can't be read.
func (s *Sealer) Check() error {
	s.current()
	if err := s.unread.Load(); err != nil {
		return fmt.Errorf("%w; secrets under its new keys cannot be opened", *err)
	}
	return nil
}

// reloadIfChanged reads the file if it has changed. If it can't be read, the known keys stay in
// use.
func (s *Sealer) reloadIfChanged() *ring {
	now := s.ring.Load()
	if s.path == "" {
		return now
	}
	if stampOf(s.path) == now.stamp {
		s.unread.Store(nil)
		return now
	}
	r, err := readRing(s.path)
	if err != nil {
		s.unread.Store(&err)
		return now
	}
	s.unread.Store(nil)
	s.ring.Store(r)
	return r
}
