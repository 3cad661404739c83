package runfile

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
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

// Open creates the folder if it does not exist, and locks it.
func Open(path string) (*Folder, error) {
	if err := os.MkdirAll(filepath.Join(path, "secrets"), 0o700); err != nil {
		return nil, fmt.Errorf("--data-dir: creating the data folder: %w", err)
	}
	lock, err := locked(path, subprocess.TryLock)
	if err != nil {
		return nil, err
	}
	if err := begin(lock); err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path,
			errors.Join(err, lock.Close()))
	}
	return &Folder{path: path, lock: lock}, nil
}

// Hold keeps a stopped service's folder from being opened until release. It writes nothing, so the
// folder may be read-only. If there is no lock file, it creates one.
func Hold(path string) (release func() error, err error) {
	lock, err := locked(path, subprocess.TrySharedLock)
	if errors.Is(err, fs.ErrNotExist) {
		folder, err := Open(path)
		if err != nil {
			return nil, err
		}
		return folder.Close, nil
	}
	if err != nil {
		return nil, err
	}
	return lock.Close, nil
}

// locked locks a folder, unless it is the copy of a running service's folder.
func locked(path string, try func(string) (*os.File, error)) (*os.File, error) {
	lock, err := try(filepath.Join(path, lockName))
	if errors.Is(err, subprocess.ErrLocked) {
		return nil, fmt.Errorf("the data folder %s is in use by another lumenhook; "+
			"stop it, or use another --data-dir", path)
	}
	if err != nil {
		return nil, fmt.Errorf("--data-dir: locking the data folder %s: %w", path, err)
	}
	if err := checkOriginal(lock); err != nil {
		return nil, fmt.Errorf("--data-dir %s: %w", path, errors.Join(err, lock.Close()))
	}
	return lock, nil
}

var errCopied = errors.New("this is a copy of a folder whose service was running, and its files " +
	"may be of different moments: restore a backup instead (lumenhook backup, lumenhook restore). " +
	"If no service was running while you copied it, remove the file lock in it")

// begin writes the process's id to a lock, for commands that wait for run.json. It also writes the
// lock's inode. A service that stops empties the file.
func begin(lock *os.File) error { return write(lock, "") }

// write also stores what a starting service waits for.
func write(lock *os.File, waits string) error {
	inode, err := inodeOf(lock)
	if err != nil {
		return err
	}
	text := fmt.Sprint(os.Getpid(), " ", inode, "\n", waits)
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err = lock.WriteAt([]byte(text), 0)
	return err
}

// NoteWaits stores what a starting service waits for, for commands that find no run.json.
func (d *Folder) NoteWaits(what string) error { return write(d.lock, what) }

const failureName = "last-failure"

// NoteFailure stores why a folder's service could not start or failed, for commands that find it
// stopped. The next start removes it once the service is ready. NoteFailure ignores a folder that
// belongs to another user, has never had a service or is in use.
func NoteFailure(dir, why string) {
	about, err := os.Stat(dir)
	if err != nil || int(about.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return
	}
	path := filepath.Join(dir, lockName)
	if _, err := os.Stat(path); err != nil && !IsPackaged(dir) {
		return
	}
	lock, err := subprocess.TryLock(path)
	if err != nil {
		return
	}
	defer lock.Close()
	_ = WriteFile(filepath.Join(dir, failureName), []byte(why)) // the log has it too
}

// checkOriginal rejects a lock that names another inode: it is a copy from before the service
// stopped.
func checkOriginal(lock *os.File) error {
	inode, err := inodeOf(lock)
	if err != nil {
		return err
	}
	var pid int
	var was uint64
	if n, _ := fmt.Fscan(lock, &pid, &was); n == 2 && was != inode {
		return errCopied
	}
	return nil
}

func inodeOf(file *os.File) (uint64, error) {
	about, err := file.Stat()
	if err != nil {
		return 0, err
	}
	return uint64(about.Sys().(*syscall.Stat_t).Ino), nil //nolint:unconvert // 32 bits on some systems
}

// Path returns the folder as it was named.
func (d *Folder) Path() string { return d.path }

// Join returns a path in the folder.
func (d *Folder) Join(parts ...string) string {
	return filepath.Join(append([]string{d.path}, parts...)...)
}

// Close unlocks the folder.
func (d *Folder) Close() error {
	return errors.Join(d.lock.Truncate(0), d.lock.Close())
}

// Publish writes run.json.
func (d *Folder) Publish(r File) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_ = os.Remove(d.Join(failureName)) // usually, there is none
	return WriteFile(d.Join(Name), append(data, '\n'))
}

// Unpublish removes run.json, if it exists.
func (d *Folder) Unpublish() error {
	if err := os.Remove(d.Join(Name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// WriteFile atomically writes a file that only its owner can read. It keeps the owner of the file
// that it replaces; a new file has the folder's owner.
func WriteFile(path string, data []byte) error { return keys.WriteFile(path, data, 0o600) }

// IdentitiesFile returns the path of the devnet accounts' file.
func IdentitiesFile(dir string) string { return filepath.Join(dir, "secrets", "devnet.json") }

// CheckNetwork returns an error if the folder belongs to another network, because data of one
// network is meaningless on another. The first start records the network's passphrase, which is
// empty for a devnet.
func (d *Folder) CheckNetwork(passphrase string) error {
	path := d.Join("network")
	text, err := os.ReadFile(path)
	begun := strings.TrimSpace(string(text))
	switch _, identities := os.Stat(IdentitiesFile(d.path)); {
	case errors.Is(err, os.ErrNotExist) && identities == nil:
		begun = "" // created by a version that recorded nothing
	case errors.Is(err, os.ErrNotExist):
		return WriteFile(path, []byte(passphrase+"\n"))
	case err != nil:
		return fmt.Errorf("--data-dir: reading the folder's network: %w", err)
	}
	switch {
	case begun == passphrase:
		return nil
	case begun == "":
		return fmt.Errorf("--network: the data folder %s belongs to a devnet; "+
			"omit --network, or use another --data-dir", d.path)
	}
	return fmt.Errorf("--network: the data folder %s belongs to the network %q; use that network, "+
		"or another --data-dir", d.path, begun)
}

// MasterKey returns where the folder's service stores its master key.
func (d *Folder) MasterKey() keys.MasterKeyPlace { return keys.MasterKeyPlace{DataDir: d.path} }

// CheckSecrets returns an error if the folder contains data but has lost its secrets, or the other
// way round. A new master key could not decrypt the endpoints' secrets, a new API key would have no
// access to the account, and without its data, the service would forget its endpoints and watches.
func (d *Folder) CheckSecrets() error {
	if _, err := os.Stat(d.Join("broker")); err != nil {
		if id, err := d.Account(); err != nil || id != "" {
			return cmp.Or(err, d.ErrNoData())
		}
		return nil // nothing was written yet, or starting the broker reports the error
	}
	var needed []string
	if id, err := d.Account(); err != nil || id == "" { // otherwise a start creates a new key
		needed = []string{d.APIKeyPath()}
	}
	if _, elsewhere := d.MasterKey().FromVariable(); !elsewhere {
		needed = append([]string{d.MasterKey().Path()}, needed...)
	}
	for _, path := range needed {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is missing, and the data in %s cannot be used without it; "+
				"restore it from a backup, or start with another --data-dir", path, d.path)
		}
	}
	return nil
}

// ErrNoData returns the error for a folder whose account exists only in its secrets.
func (d *Folder) ErrNoData() error {
	return fmt.Errorf("the data folder %s has a service's secrets but not its data: restore a backup "+
		"to a folder that contains only the secrets (lumenhook restore --from FOLDER --data-dir %[1]s). "+
		"To start a new service, move everything out of the folder, or use another --data-dir", d.path)
}

// APIKeyPath returns the path of the service's API key.
func (d *Folder) APIKeyPath() string { return d.Join("secrets", "api-key") }

func (d *Folder) accountPath() string { return d.Join("secrets", "account") }

// Account returns the id of the service's account, or "" before the first start.
func (d *Folder) Account() (string, error) {
	data, err := os.ReadFile(d.accountPath())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	id := strings.TrimSpace(string(data))
	if err == nil && !domain.IsID(domain.AccountPrefix, id) {
		err = fmt.Errorf("%s does not contain an account id; restore it", d.accountPath())
	}
	return id, err
}

// SetAccount stores the id of the service's account.
func (d *Folder) SetAccount(id string) error {
	return WriteFile(d.accountPath(), []byte(id+"\n"))
}

// APIKey returns the service's API key. If there is none, it generates one, for the public network
// if live is set. It does not store a new key for an existing account: call SetAPIKey once the
// account has the key.
func (d *Folder) APIKey(live bool) (key string, isNew bool, err error) {
	data, err := os.ReadFile(d.APIKeyPath())
	if err == nil {
		key := strings.TrimSpace(string(data))
		if !domain.WellFormedAPIKey(key) {
			return "", false, fmt.Errorf("%s does not contain an API key; restore it, "+
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

// SetAPIKey stores the service's API key.
func (d *Folder) SetAPIKey(key string) error {
	return WriteFile(d.APIKeyPath(), []byte(key+"\n"))
}

// ErrUnknownKey returns the error for an API key that the account does not have.
func (d *Folder) ErrUnknownKey() error {
	return fmt.Errorf("the API key in %s is unknown, revoked or expired; replace it with a valid key "+
		"of the service's account, or remove the file and restart to create a new key", d.APIKeyPath())
}

// RewriteAPIKey writes a running service's key again, unchanged, to check that ReplaceAPIKey can
// write it.
func RewriteAPIKey(dir string) error {
	run, err := Read(dir)
	if err != nil {
		return err
	}
	return ReplaceAPIKey(dir, run.APIKeyID, run.APIKey)
}

// ReplaceAPIKey stores the key that replaced a running service's key, for commands on the folder
// and for the next start.
func ReplaceAPIKey(dir, id, key string) error {
	run, err := Read(dir)
	if err != nil {
		return err
	}
	d := Folder{path: dir}
	run.APIKey, run.APIKeyID = key, id
	return errors.Join(d.SetAPIKey(key), d.Publish(run))
}

// Logins are the passwords of the embedded broker and the embedded ClickHouse. They are generated
// once and stored in secrets/. To regenerate them, stop the service and remove the file.
type Logins struct {
	Kafka      Kafka `json:"kafka"`
	ClickHouse Login `json:"clickhouse"`
	Reader     Login `json:"reader"`
}

// Logins reads the folder's logins. If there are none, it generates them.
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
			"or remove it to create new logins", path, err)
	}
	return l, nil
}
