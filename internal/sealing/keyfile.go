package sealing

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// maxKeyFileBytes bounds what is read as a master key file.
const maxKeyFileBytes = 1 << 20

// Load reads a master key file: a Tink keyset in JSON.
func Load(path string) (*Sealer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("sealing: master key file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFileBytes {
		return nil, fmt.Errorf("sealing: master key file %s: it is not a keyset in a regular file of at most %d bytes", path, maxKeyFileBytes)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("sealing: master key file %s has mode %04o, so others may read or change it: run `chmod 600 %s`", path, mode, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("sealing: master key file: %w", err)
	}
	h, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		// Tink's own error may quote the file, which is the key.
		return nil, fmt.Errorf("sealing: master key file %s is not a Tink keyset in JSON: restore it from a copy; what was sealed with it opens with no other", path)
	}
	s, err := newSealer(h)
	if err != nil {
		return nil, fmt.Errorf("sealing: master key file %s: %w", path, err)
	}
	return s, nil
}

// LoadOrCreate reads a master key file, and makes one with a new key when there
// is none. The folder must exist.
func LoadOrCreate(path string) (*Sealer, error) {
	s, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("sealing: making the master key file %s: %w", path, err)
	}
	return Load(path)
}

// create writes a new keyset to the disk and then gives it its name, unless
// another process was quicker: then its key is the one.
func create(path string) (err error) {
	text, err := newKeyset()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".master-key-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if e := os.Remove(temp.Name()); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
	}()
	_, err = temp.Write(text)
	if err == nil {
		err = temp.Sync()
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	// A rename would replace the key of whoever was quicker, a link does not.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(temp.Name(), path); err != nil { // a file system without links
			return err
		}
	}
	return syncFolder(filepath.Dir(path))
}

func newKeyset() ([]byte, error) {
	h, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewJSONWriter(&b)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
