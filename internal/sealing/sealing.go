// Package sealing keeps secrets unreadable outside the process: AES-256-GCM
// through Tink, with the key's id in front of what is sealed, so that keys can be
// rotated. It hides Tink and the key file.
package sealing

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Sealer seals and opens. It is safe for concurrent use.
type Sealer struct {
	aead tink.AEAD
}

// LoadOrCreate reads the key file, or makes one that only its owner may read.
func LoadOrCreate(path string) (*Sealer, error) {
	s, err := Load(path)
	if !errors.Is(err, os.ErrNotExist) {
		return s, err
	}
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("sealing: making a master key: %w", err)
	}
	var data bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(&data)); err != nil {
		return nil, fmt.Errorf("sealing: writing the master key: %w", err)
	}
	if err := create(path, data.Bytes()); err != nil {
		return nil, fmt.Errorf("sealing: writing the master key: %w", err)
	}
	// Of several processes that create it at once one wins; all use that one.
	return Load(path)
}

// create writes a file whole, synced, or leaves the one that is there.
func create(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".master-key-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Load reads a key file.
func Load(path string) (*Sealer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("sealing: the master key %s can be read by others: run chmod 600 on it", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sealing: %w", err)
	}
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key %s cannot be read: restore it from a backup", path)
	}
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key %s cannot be used: restore it from a backup", path)
	}
	return &Sealer{aead: primitive}, nil
}

// Seal encrypts. What is sealed opens with the same associated data only.
func (s *Sealer) Seal(plaintext []byte, associatedData string) ([]byte, error) {
	sealed, err := s.aead.Encrypt(plaintext, []byte(associatedData))
	if err != nil {
		return nil, errors.New("sealing: a secret could not be sealed")
	}
	return sealed, nil
}

// Open decrypts.
func (s *Sealer) Open(sealed []byte, associatedData string) ([]byte, error) {
	plain, err := s.aead.Decrypt(sealed, []byte(associatedData))
	if err != nil {
		return nil, errors.New("sealing: a secret could not be opened: it was sealed by another master key, or for something else")
	}
	return plain, nil
}
