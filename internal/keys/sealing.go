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

// ErrUnknownKey means that a value was sealed with a key that the master key
// file does not hold.
var ErrUnknownKey = errors.New("it was sealed with a key that the master key file does not hold: " +
	"use the file it was sealed with")

// ErrAltered means that a value is not what was sealed, or was sealed for
// something else.
var ErrAltered = errors.New("it was altered, or was sealed for something else")

// lookEvery is how often a file of keys is checked for changes.
const lookEvery = time.Second

// Sealer seals and opens. It may be used by many goroutines. One that was made from a file
// follows the file: keys that are added to it are used within a second, so that the master
// key is rotated without a restart.
type Sealer struct {
	path   string // empty: the keys came from elsewhere and do not change
	ring   atomic.Pointer[ring]
	looked atomic.Int64 // when the file was last checked, Unix nanoseconds
	// unread is why the changed file could not be read; nil if the ring is the file's.
	unread atomic.Pointer[error]
}

// ring is the keyset of one state of the file.
type ring struct {
	aead    tink.AEAD
	keys    map[uint32]bool
	primary uint32
	stamp   fileStamp
}

// tinkPrefix begins every sealed value, before the key's id in 4 bytes.
const (
	tinkPrefix       = 0x01
	prefixSizeBytes  = 5
	overheadGCMBytes = 12 + 16 // nonce and tag
)

func newRing(h *keyset.Handle) (*ring, error) {
	a, err := aead.New(h)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key holds no AES-GCM keys: %w", err)
	}
	r := &ring{aead: a, keys: make(map[uint32]bool), primary: h.KeysetInfo().GetPrimaryKeyId()}
	for _, k := range h.KeysetInfo().GetKeyInfo() {
		r.keys[k.GetKeyId()] = true
	}
	return r, nil
}

// Seal encrypts plaintext and binds it to associatedData, which is not secret and
// must be given again to open it.
func (s *Sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	sealed, err := s.current().aead.Encrypt(plaintext, []byte(associatedData))
	if err != nil {
		return nil, fmt.Errorf("sealing: sealing a secret: %w", err)
	}
	return sealed, nil
}

// Open decrypts what Seal made with the same associatedData. Its errors are
// ErrUnknownKey and ErrAltered, or say why the master key file cannot be read.
func (s *Sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	id, ok := SealedBy(sealed)
	if !ok {
		return nil, fmt.Errorf("sealing: opening a secret: it is no sealed value: %w", ErrAltered)
	}
	r := s.current()
	if !r.keys[id] {
		r = s.look() // another process may have sealed it with a new key
	}
	if !r.keys[id] {
		if err := s.unread.Load(); err != nil { // the file may hold it
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

// Reseal returns a sealed value under the newest key; changed is false when it is
// under that key already. Its errors are those of Open.
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

// Newest returns the id of the key that seals.
func (s *Sealer) Newest() uint32 { return s.current().primary }

// SealedBy returns which key sealed a value, without opening it.
func SealedBy(sealed []byte) (id uint32, ok bool) {
	if len(sealed) < prefixSizeBytes+overheadGCMBytes || sealed[0] != tinkPrefix {
		return 0, false
	}
	return binary.BigEndian.Uint32(sealed[1:prefixSizeBytes]), true
}

// current returns the ring in use, after checking the file now and then.
func (s *Sealer) current() *ring {
	now, last := time.Now().UnixNano(), s.looked.Load()
	if now-last > int64(lookEvery) && s.looked.CompareAndSwap(last, now) {
		return s.look()
	}
	return s.ring.Load()
}

// Check returns why the master key file cannot be read, if it changed and cannot be.
func (s *Sealer) Check() error {
	s.current()
	if err := s.unread.Load(); err != nil {
		return fmt.Errorf("%w; secrets under its new keys cannot be opened", *err)
	}
	return nil
}

// look reads the file if it changed. If it cannot be read, the known keys stay in use.
func (s *Sealer) look() *ring {
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
