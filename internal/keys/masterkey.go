package keys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

// maxKeyFileBytes bounds the size of a master key file.
const maxKeyFileBytes = 1 << 20

// LoadSealer reads a master key file: a Tink keyset in JSON.
func LoadSealer(path string) (*Sealer, error) {
	r, err := readRing(path)
	if err != nil {
		return nil, err
	}
	s := &Sealer{path: path}
	s.ring.Store(r)
	return s, nil
}

// ParseSealer makes a sealer from the text of a master key file, for keys that come from a
// variable.
func ParseSealer(text []byte) (*Sealer, error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key %w", err)
	}
	r, err := newRing(h)
	if err != nil {
		return nil, fmt.Errorf("sealing: the master key: %w", err)
	}
	s := &Sealer{}
	s.ring.Store(r)
	return s, nil
}

// errNoKeyset replaces Tink's own error, which may quote the text, which is the key.
var errNoKeyset = errors.New("is not a Tink keyset in JSON: restore it from a copy; what was " +
	"sealed with it opens with no other")

func parseKeyset(text []byte) (*keyset.Handle, error) {
	h, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, errNoKeyset
	}
	return h, nil
}

// fileStamp identifies the state of a file without reading it.
type fileStamp struct {
	sizeBytes int64
	modified  time.Time
	inode     uint64
}

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return stamp(info)
}

func stamp(info fs.FileInfo) fileStamp {
	s := fileStamp{sizeBytes: info.Size(), modified: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s
}

func readRing(path string) (*ring, error) {
	text, info, err := readKeyFile(path)
	if err != nil {
		return nil, err
	}
	h, err := parseKeyset(text)
	if err != nil {
		return nil, fmt.Errorf("sealing: master key file %s %w", path, err)
	}
	r, err := newRing(h)
	if err != nil {
		return nil, fmt.Errorf("sealing: master key file %s: %w", path, err)
	}
	r.stamp = stamp(info)
	return r, nil
}

func readKeyFile(path string) ([]byte, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("sealing: master key file: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFileBytes {
		return nil, nil, fmt.Errorf("sealing: master key file %s: it is not a keyset in a regular file "+
			"of at most %d bytes", path, maxKeyFileBytes)
	}
	if mode := info.Mode().Perm(); tooOpen(mode, ownerOf(info), os.Geteuid()) {
		return nil, nil, fmt.Errorf("sealing: master key file %s has mode %04o, so others may read or "+
			"change it: run `chmod 600 %s`", path, mode, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("sealing: master key file: %w", err)
	}
	return text, info, nil
}

// tooOpen reports whether more users than necessary may read or change a file. A file that
// root provides to another user's process is read through its group: Kubernetes mounts
// secrets this way (fsGroup), and systemd its credentials.
func tooOpen(mode fs.FileMode, owner, self int) bool {
	allowed := fs.FileMode(0o700)
	if owner == 0 && self != 0 {
		allowed |= 0o040
	}
	return mode&^allowed != 0
}

// ownerOf returns the user that owns a file; -1 if unknown.
func ownerOf(info fs.FileInfo) int {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// LoadOrCreateSealer reads a master key file, and creates one with a new key if it does not exist.
// The folder must exist.
func LoadOrCreateSealer(path string) (*Sealer, error) {
	s, err := LoadSealer(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := createMasterKey(path); err != nil {
		return nil, fmt.Errorf("sealing: making the master key file %s: %w", path, err)
	}
	return LoadSealer(path)
}

// createMasterKey writes a new keyset to the disk and then links it to its name, unless another
// process was faster: then its key is used.
func createMasterKey(path string) (err error) {
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
		err = errors.Join(temp.Sync(), KeepOwner(temp, path))
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	// A rename would replace the key of a faster process, a link does not.
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
	return writeKeyset(h)
}

func writeKeyset(h *keyset.Handle) ([]byte, error) {
	var b bytes.Buffer
	if err := insecurecleartextkeyset.Write(h, keyset.NewJSONWriter(&b)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
