package runfile

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/subprocess"
	"github.com/lumenhook/lumenhook/streams/kafka"
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
		err = begin(lock)
	}
	if errors.Is(err, errCopied) {
		return nil, fmt.Errorf("--data-dir %s: %w", path, errors.Join(err, lock.Close()))
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path, err)
	}
	return &Folder{path: path, lock: lock}, nil
}

var errCopied = errors.New("this is a copy of a folder whose service was running, and its files " +
	"may be of different moments: restore a backup instead (lumenhook backup, lumenhook restore). " +
	"If no service was running while you copied it, remove the file lock in it")

// begin writes the process's id to a lock, for commands that wait for run.json. It also writes the
// lock's inode. A service that stops empties the file. If the file names another inode, it
// is a copy from before the service stopped.
func begin(lock *os.File) error {
	about, err := lock.Stat()
	if err != nil {
		return err
	}
	inode := uint64(about.Sys().(*syscall.Stat_t).Ino) //nolint:unconvert // 32 bits on some systems
	var pid int
	var was uint64
	if n, _ := fmt.Fscan(lock, &pid, &was); n == 2 && was != inode {
		return errCopied
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = lock.WriteAt([]byte(fmt.Sprint(os.Getpid(), " ", inode)), 0)
	return err
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
func WriteFile(path string, data []byte) error { return keys.WriteFile(path, data, 0o600) }

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

// MasterKey returns where the service of the folder has its master key.
func (d *Folder) MasterKey() keys.MasterKeyPlace { return keys.MasterKeyPlace{DataDir: d.path} }

// CheckSecrets refuses a folder with data that has lost what only its first start creates.
// With a new master key no endpoint's secret could be opened, and with a new API key nobody
// could reach the account that owns them.
func (d *Folder) CheckSecrets() error {
	if _, err := os.Stat(d.Join("broker")); err != nil {
		return nil // nothing was ever written, or starting the broker reports it
	}
	var needed []string
	if id, err := d.Account(); err != nil || id == "" { // else a start creates another key for it
		needed = []string{d.APIKeyPath()}
	}
	if _, elsewhere := d.MasterKey().FromVariable(); !elsewhere {
		needed = append([]string{d.MasterKey().Path()}, needed...)
	}
	for _, path := range needed {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is missing, and the data in %s cannot be used without it: "+
				"restore it from a backup, or begin with another --data-dir", path, d.path)
		}
	}
	return nil
}

// APIKeyPath is the file of the API key of the folder's service.
func (d *Folder) APIKeyPath() string { return d.Join("secrets", "api-key") }

func (d *Folder) accountPath() string { return d.Join("secrets", "account") }

// Account returns the id of the account of the folder's service; "" before its first start.
func (d *Folder) Account() (string, error) {
	data, err := os.ReadFile(d.accountPath())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	id := strings.TrimSpace(string(data))
	if err == nil && !domain.IsID(domain.AccountPrefix, id) {
		err = fmt.Errorf("%s does not hold the id of an account: restore it", d.accountPath())
	}
	return id, err
}

// SetAccount records the account of the folder's service.
func (d *Folder) SetAccount(id string) error {
	return WriteFile(d.accountPath(), []byte(id+"\n"))
}

// APIKey reads the API key of the folder's service, or generates it: one for the public
// network is marked as live. APIKey does not write a new key of an existing account: call
// SetAPIKey when the account has it.
func (d *Folder) APIKey(live bool) (key string, isNew bool, err error) {
	data, err := os.ReadFile(d.APIKeyPath())
	if err == nil {
		key := strings.TrimSpace(string(data))
		if !domain.WellFormedAPIKey(key) {
			return "", false, fmt.Errorf("%s does not hold an API key: restore it, "+
				"or use another --data-dir", d.APIKeyPath())
		}
		return key, false, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", false, fmt.Errorf("reading the API key: %w", err)
	}
	var entropy [32]byte
	rand.Read(entropy[:])
	key = domain.NewAPIKey(live, entropy)
	if id, err := d.Account(); err != nil || id != "" {
		return key, true, err
	}
	return key, true, d.SetAPIKey(key)
}

// SetAPIKey writes the API key of the folder's service.
func (d *Folder) SetAPIKey(key string) error {
	return WriteFile(d.APIKeyPath(), []byte(key+"\n"))
}

// ErrUnknownKey is the error of a start with an API key that its account does not have.
func (d *Folder) ErrUnknownKey() error {
	return fmt.Errorf("the API key in %s is unknown, revoked or expired: put a valid key of the "+
		"service's account there, or remove the file and start again to get a new key", d.APIKeyPath())
}

// RewriteAPIKey writes the key of a running service again, unchanged: it proves that
// ReplaceAPIKey can.
func RewriteAPIKey(dir string) error {
	run, err := Read(dir)
	if err != nil {
		return err
	}
	return ReplaceAPIKey(dir, run.APIKeyID, run.APIKey)
}

// ReplaceAPIKey writes the key that replaced the key of a running service: commands on its
// folder, and its next start, use it.
func ReplaceAPIKey(dir, id, key string) error {
	run, err := Read(dir)
	if err != nil {
		return err
	}
	d := Folder{path: dir}
	run.APIKey, run.APIKeyID = key, id
	return errors.Join(d.SetAPIKey(key), d.Publish(run))
}

// Logins are the passwords of the embedded broker and the embedded ClickHouse. They are
// generated once and stored in secrets/, and may be regenerated: remove the file while
// nothing runs.
type Logins struct {
	Kafka      Kafka `json:"kafka"`
	ClickHouse Login `json:"clickhouse"`
	Reader     Login `json:"reader"`
}

// Logins reads the logins of the folder, or generates them.
func (d *Folder) Logins() (l Logins, err error) {
	path := d.Join("secrets", "logins.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		l = Logins{
			Kafka:      Kafka{kafka.SASLScramSHA256, Login{"lumenhook", rand.Text()}},
			ClickHouse: Login{"lumenhook", rand.Text()},
			Reader:     Login{"reader", rand.Text()},
		}
		if data, err = json.MarshalIndent(l, "", "  "); err == nil {
			err = WriteFile(path, append(data, '\n'))
		}
		return l, err
	}
	if err == nil {
		err = json.Unmarshal(data, &l)
	}
	drawn := l.Kafka.Password != "" && l.ClickHouse.Password != "" && l.Reader.Password != ""
	if err == nil && !drawn {
		err = errors.New("a password is missing")
	}
	if err != nil {
		return l, fmt.Errorf("reading %s: %w; restore it, "+
			"or take it away to have new ones drawn", path, err)
	}
	return l, nil
}
