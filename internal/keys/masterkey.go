package keys

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
)

const maxKeyFileBytes = 1 << 20

// LoadSealer reads a master key file, which contains a Tink keyset in JSON.
func LoadSealer(path string) (*Sealer, error) {
	r, err := readRing(path)
	if err != nil {
		return nil, err
	}
	s := &Sealer{path: path}
	s.ring.Store(r)
	return s, nil
}

// ParseSealer returns a sealer for the text of a master key file, passed in a variable.
func ParseSealer(text []byte) (*Sealer, error) {
	r, err := parseRing(text)
	if err != nil {
		return nil, err
	}
	s := &Sealer{}
	s.ring.Store(r)
	return s, nil
}

// errNoKeyset replaces Tink's own error, which may contain the key.
var errNoKeyset = errors.New("sealing: the master key is not a Tink keyset in JSON: restore it " +
	"from a backup; no other key can decrypt what it encrypted")

func parseKeyset(text []byte) (*keyset.Handle, error) {
	h, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(text)))
	if err != nil {
		return nil, errNoKeyset
	}
	return h, nil
}

func parseRing(text []byte) (*ring, error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, err
	}
	return newRing(h)
}

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
	r, err := parseRing(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
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

// tooOpen reports whether too many users can read or change a file. A process of another user may
// read root's file through its group, as Kubernetes (fsGroup) and systemd provide secrets.
func tooOpen(mode fs.FileMode, owner, self int) bool {
	allowed := fs.FileMode(0o700)
	if owner == 0 && self != 0 {
		allowed |= 0o040
	}
	return mode&^allowed != 0
}

// ownerOf returns the user ID of a file's owner, or -1 if unknown.
func ownerOf(info fs.FileInfo) int {
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}

// LoadOrCreateSealer reads a master key file, or creates it in an existing folder.
func LoadOrCreateSealer(path string) (*Sealer, error) {
	s, err := LoadSealer(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	if err := createMasterKey(path); err != nil {
		return nil, fmt.Errorf("sealing: creating the master key file %s: %w", path, err)
	}
	return LoadSealer(path)
}

// createMasterKey creates a file with a new keyset. The file of a faster process is kept.
func createMasterKey(path string) (err error) {
	text, err := newKeyset()
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".master-key-*") // with mode 0600
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
		err = errors.Join(temp.Sync(), keepOwner(temp, path))
	}
	if err := errors.Join(err, temp.Close()); err != nil {
		return err
	}
	// Unlike a rename, a link doesn't replace the file of a faster process.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		if err := os.Rename(temp.Name(), path); err != nil { // for file systems without links
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

// MasterKeyVariable is the environment variable for a master key without a file.
const MasterKeyVariable = "LUMENHOOK_MASTER_KEY"

// MasterKeyPlace is where the master key is stored: in a file, or in MasterKeyVariable.
type MasterKeyPlace struct {
	File    string // as configured; empty: in the data folder, unless the variable is set
	DataDir string
}

// MasterKeyPath returns the path of the master key file in a data folder.
func MasterKeyPath(dataDir string) string {
	return filepath.Join(dataDir, "secrets", "master-key.json")
}

// Path returns the path of the master key file, even if it doesn't exist.
func (p MasterKeyPlace) Path() string {
	if p.File != "" {
		return p.File
	}
	return MasterKeyPath(p.DataDir)
}

// FromVariable returns the text of the master key if it is set in the variable.
func (p MasterKeyPlace) FromVariable() (text string, set bool) {
	text, set = os.LookupEnv(MasterKeyVariable)
	return text, set && p.File == ""
}

// Text returns the text of the master key.
func (p MasterKeyPlace) Text() ([]byte, error) {
	if text, set := p.FromVariable(); set {
		if _, err := os.Stat(p.Path()); err == nil {
			return nil, fmt.Errorf("there are two master keys: %s is set and %s exists; "+
				"unset the variable, or move the file away", MasterKeyVariable, p.Path())
		}
		return []byte(text), nil
	}
	switch _, err := LoadSealer(p.Path()); { // also checks the mode
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no master key at %s: set --master-key-file, or set "+
			"--data-dir to the data folder of lumenhook run", p.Path())
	case err != nil:
		return nil, err
	}
	return os.ReadFile(p.Path())
}

// Keys returns the keys of the master key, oldest first.
func (p MasterKeyPlace) Keys() ([]MasterKey, error) {
	text, err := p.Text()
	if err != nil {
		return nil, err
	}
	return MasterKeys(text)
}

// Open returns the master key of a single process, and its text. It creates a missing file.
func (p MasterKeyPlace) Open() (*Sealer, []byte, error) {
	if _, set := p.FromVariable(); !set {
		s, err := LoadOrCreateSealer(p.Path())
		if err != nil {
			return nil, nil, err
		}
		text, err := p.Text()
		return s, text, err
	}
	text, err := p.Text()
	if err != nil {
		return nil, nil, err
	}
	s, err := ParseSealer(text)
	return s, text, err
}

// OpenExisting returns the master key that several processes share, and its text.
func (p MasterKeyPlace) OpenExisting() (*Sealer, []byte, error) {
	text, err := p.Text()
	if err != nil {
		return nil, nil, fmt.Errorf("--master-key-file: %w "+
			"(`lumenhook secrets create` creates one, for all processes)", err)
	}
	if _, set := p.FromVariable(); set {
		s, err := ParseSealer(text)
		return s, text, err
	}
	s, err := LoadSealer(p.Path())
	return s, text, err
}

// maxKeys is the maximum number of keys in a file. Monthly rotation reaches it after eight years.
const maxKeys = 100

// ErrStaged means that there already is a staged key.
var ErrStaged = errors.New("a key is staged already: rewrap without --stage makes it the one " +
	"that seals")

// MasterKey describes a key of a master key without its secret.
type MasterKey struct {
	ID     uint32 // part of the values that it encrypted
	Seals  bool   // it encrypts new values
	Staged bool   // newer than the one that encrypts
}

// MasterKeys returns the keys in a master key's text, oldest first.
func MasterKeys(text []byte) ([]MasterKey, error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, err
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

// RotateMaster returns the text of a master key that encrypts with a newer key: the staged key, or
// else a new one. If stage is true, it instead adds a staged key, which doesn't encrypt yet, so
// that it can be distributed to all processes first.
func RotateMaster(text []byte, stage bool) (rotated []byte, keys []MasterKey, err error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, nil, err
	}
	before := keysOf(h)
	newest := before[len(before)-1]
	switch {
	case stage && newest.Staged:
		return nil, nil, ErrStaged
	case len(before) >= maxKeys && !newest.Staged:
		return nil, nil, fmt.Errorf("sealing: the master key has %d keys, which is the maximum: create "+
			"a new file", len(before))
	}
	m := keyset.NewManagerFromHandle(h)
	id := newest.ID
	if !newest.Staged {
		if id, err = m.Add(aead.AES256GCMKeyTemplate()); err != nil {
			return nil, nil, fmt.Errorf("sealing: creating a key: %w", err)
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

// DropMaster returns the text of a master key without one of its keys. Values that this key
// encrypted can't be decrypted any more. The key that encrypts can't be dropped.
func DropMaster(text []byte, id uint32) (left []byte, keys []MasterKey, err error) {
	h, err := parseKeyset(text)
	if err != nil {
		return nil, nil, err
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
		return nil, nil, fmt.Errorf("sealing: the remaining keyset: %w", err)
	}
	left, err = writeKeyset(h)
	return left, keysOf(h), err
}

// RotateMasterFile atomically applies RotateMaster to a master key file.
func RotateMasterFile(path string, stage bool) ([]MasterKey, error) {
	return rewriteFile(path, func(text []byte) ([]byte, []MasterKey, error) {
		return RotateMaster(text, stage)
	})
}

// DropMasterFile atomically applies DropMaster to a master key file.
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

// changeFile atomically replaces a file with the result of next, which reads the current content.
// The new content is on disk when changeFile returns. Concurrent changes are refused, and an error
// of next leaves the file as it is. The file keeps its owner and mode.
func changeFile(path string, next func() (text []byte, err error)) error {
	// The name of the new file serves as a lock.
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: another change is in progress; if none is, one was interrupted: "+
			"remove the file and repeat the command", temp)
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w", path, err)
	}
	err = writeNext(f, next)
	if old, statErr := os.Stat(path); err == nil && statErr == nil {
		err = f.Chmod(old.Mode().Perm())
	}
	err = errors.Join(err, keepOwner(f, path))
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	if err := os.Rename(temp, path); err != nil {
		return errors.Join(fmt.Errorf("changing %s: %w", path, err), os.Remove(temp))
	}
	return syncFolder(filepath.Dir(path))
}

func writeNext(f *os.File, next func() ([]byte, error)) error {
	text, err := next()
	if err != nil {
		return err
	}
	if _, err := f.Write(text); err != nil {
		return fmt.Errorf("writing %s: %w", f.Name(), err)
	}
	return f.Sync()
}

// WriteFile atomically replaces a file and keeps its owner.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(content)
	if err := errors.Join(err, f.Chmod(mode), keepOwner(f, path), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// keepOwner gives a new file the owner of the file at path, which it is going to replace, or, if
// root creates the file, the owner of the folder. A file that root writes therefore stays readable
// for a service that runs as another user.
func keepOwner(file *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if os.Geteuid() != 0 { // the folder may belong to another user, such as a shared volume
			return nil
		}
		old, err = os.Stat(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	fresh, err := file.Stat()
	if err != nil {
		return err
	}
	was, isKnown := old.Sys().(*syscall.Stat_t)
	now, _ := fresh.Sys().(*syscall.Stat_t)
	if !isKnown || was.Uid == now.Uid && was.Gid == now.Gid {
		return nil
	}
	if err := file.Chown(int(was.Uid), int(was.Gid)); err != nil && was.Uid != now.Uid {
		return fmt.Errorf("%s belongs to another user (%d): repeat this as that user or as root: %w",
			path, was.Uid, err)
	}
	return nil
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
