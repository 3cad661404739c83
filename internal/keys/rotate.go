package keys

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// maxKeys bounds the keys in a file; one a month fills it in eight years.
const maxKeys = 100

// ErrStaged means that a key is staged already.
var ErrStaged = errors.New("a key is staged already: rewrap without --stage makes it the one " +
	"that seals")

// MasterKey describes one key of a master key file, without the secret.
type MasterKey struct {
	ID     uint32 // part of what was sealed with it
	Seals  bool   // the one that seals
	Staged bool   // newer than that one
}

// MasterKeys lists the keys of a master key's text, oldest first.
func MasterKeys(text []byte) ([]MasterKey, error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key %w", err)
	}
	return keysOf(h), nil
}

func keysOf(h *keyset.Handle) []MasterKey {
	info := h.KeysetInfo()
	var keys []MasterKey
	passed := false
	for _, k := range info.GetKeyInfo() {
		seals := k.GetKeyId() == info.GetPrimaryKeyId()
		keys = append(keys, MasterKey{ID: k.GetKeyId(), Seals: seals, Staged: passed})
		passed = passed || seals
	}
	return keys
}

// RotateMaster returns the text of a master key with a newer key that seals: the staged one, or a
// new one. With stage it adds a key that does not seal yet, so that every process can get
// it first.
func RotateMaster(text []byte, stage bool) (rotated []byte, keys []MasterKey, err error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, nil, fmt.Errorf("sealing: the master key %w", err)
	}
	before := keysOf(h)
	newest := before[len(before)-1]
	switch {
	case stage && newest.Staged:
		return nil, nil, ErrStaged
	case len(before) >= maxKeys && !newest.Staged:
		return nil, nil, fmt.Errorf("sealing: the master key has %d keys, which is the most: begin a "+
			"new file", len(before))
	}
	m := keyset.NewManagerFromHandle(h)
	id := newest.ID
	if !newest.Staged {
		if id, err = m.Add(aead.AES256GCMKeyTemplate()); err != nil {
			return nil, nil, fmt.Errorf("sealing: making a key: %w", err)
		}
	}
	if !stage {
		if err := m.SetPrimary(id); err != nil {
			return nil, nil, fmt.Errorf("sealing: choosing a key: %w", err)
		}
	}
	if h, err = m.Handle(); err != nil {
		return nil, nil, fmt.Errorf("sealing: the new keyset: %w", err)
	}
	rotated, err = writeKeyset(h)
	return rotated, keysOf(h), err
}

// DropMaster returns the text of a master key without one of its keys: what that key sealed can
// no longer be opened. The key that seals cannot be dropped.
func DropMaster(text []byte, id uint32) (left []byte, keys []MasterKey, err error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, nil, fmt.Errorf("sealing: the master key %w", err)
	}
	at := slices.IndexFunc(keysOf(h), func(k MasterKey) bool { return k.ID == id })
	switch {
	case at < 0:
		return nil, nil, fmt.Errorf("sealing: the master key has no key %010d", id)
	case keysOf(h)[at].Seals:
		return nil, nil, fmt.Errorf("sealing: key %010d is the one that seals: rotate first", id)
	}
	m := keyset.NewManagerFromHandle(h)
	if err := m.Delete(id); err != nil {
		return nil, nil, fmt.Errorf("sealing: dropping a key: %w", err)
	}
	if h, err = m.Handle(); err != nil {
		return nil, nil, fmt.Errorf("sealing: the keyset that is left: %w", err)
	}
	left, err = writeKeyset(h)
	return left, keysOf(h), err
}

// RotateMasterFile applies Rotate to a master key file, atomically.
func RotateMasterFile(path string, stage bool) ([]MasterKey, error) {
	return rewriteFile(path, func(text []byte) ([]byte, []MasterKey, error) {
		return RotateMaster(text, stage)
	})
}

// DropMasterFile applies Drop to a master key file, atomically.
func DropMasterFile(path string, id uint32) ([]MasterKey, error) {
	return rewriteFile(path, func(text []byte) ([]byte, []MasterKey, error) {
		return DropMaster(text, id)
	})
}

func rewriteFile(
	path string, change func(text []byte) ([]byte, []MasterKey, error),
) (keys []MasterKey, err error) {
	err = changeFile(path, func() ([]byte, error) {
		text, _, err := readKeyFile(path)
		if err != nil {
			return nil, err
		}
		text, keys, err = change(text)
		return text, err
	})
	return keys, err
}
