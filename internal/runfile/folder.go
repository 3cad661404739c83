package runfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/subprocess"
)

const lockName = "lock"

// Folder is a locked data folder.
type Folder struct {
	path string
	lock *os.File
}

// Open creates the folder if it is missing and locks it.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(filepath.Join(path, "secrets"), 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: making the data folder: %w", err)
	}
	lock, err := subprocess.TryLock(filepath.Join(path, lockName))
	if errors.Is(err, subprocess.ErrLocked) {
		return nil, fmt.Errorf("the data folder %s is in use by another lumenhook: "+
			"stop that one, or name another folder with --data-dir", path)
	}
	if err == nil {
		// Commands that wait for run.json read from it that a process is starting.
		if err = lock.Truncate(0); err == nil {
			_, err = fmt.Fprint(lock, os.Getpid())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path, err)
	}
	return &Folder{path: path, lock: lock}, nil
}

// Path returns the folder as it was named.
func (d *Folder) Path() string { return d.path }

// Join returns a path in the folder.
func (d *Folder) Join(parts ...string) string {
	return filepath.Join(append([]string{d.path}, parts...)...)
}

// Close releases the folder.
func (d *Folder) Close() error {
	return errors.Join(d.lock.Truncate(0), d.lock.Close())
}

// Publish writes run.json.
func (d *Folder) Publish(r File) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(d.Join(Name), append(data, '\n'))
}

// Unpublish removes run.json, if it exists.
func (d *Folder) Unpublish() error {
	if err := os.Remove(d.Join(Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// WriteFile atomically writes a file that only its owner may read: the owner of the file that
// it replaces, or of the folder.
func WriteFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, keys.KeepOwner(f, path), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// IdentitiesFile is the file of the development network's accounts in a folder that has one.
func IdentitiesFile(dir string) string { return filepath.Join(dir, "secrets", "devnet.json") }

// CheckNetwork refuses another network than the one with which the folder was begun, by its
// passphrase: what was read of one means nothing on the other. Of its own network, which the
// service starts itself, the passphrase is empty. The first start records it.
func (d *Folder) CheckNetwork(passphrase string) error {
	path := d.Join("network")
	text, err := os.ReadFile(path)
	begun := strings.TrimSpace(string(text))
	switch _, identities := os.Stat(IdentitiesFile(d.path)); {
	case errors.Is(err, os.ErrNotExist) && identities == nil:
		begun = "" // by a version that recorded nothing
	case errors.Is(err, os.ErrNotExist):
		return WriteFile(path, []byte(passphrase+"\n"))
	case err != nil:
		return fmt.Errorf("--data-dir: reading which network the folder is of: %w", err)
	}
	switch {
	case begun == passphrase:
		return nil
	case begun == "":
		return fmt.Errorf("--network: the data folder %s was begun with a development network of its "+
			"own: leave --network out, or name another folder with --data-dir", d.path)
	}
	return fmt.Errorf("--network: the data folder %s was begun with the network %q: name that one, "+
		"or another folder with --data-dir", d.path, begun)
}
