package standalone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/keys"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/streams/transfer"
)

// A backup of a data folder contains the broker's files, because the topics are the only source of
// truth: a start on them rebuilds the states and the history. It does not contain the secrets.
const (
	folderBackup   = "data-folder"
	manifestName   = "manifest.json" // written last
	brokerFolder   = "broker"
	devnetFolder   = "devnet"
	draftFolder    = "restoring"
	restoredFolder = "restored" // empty; exists from a restore until the next start
)

// Backup is the manifest of a backup of a data folder.
type Backup struct {
	Kind    string    `json:"kind"`
	MadeAt  time.Time `json:"madeAt"`
	Program string    `json:"program"` // version that made it
	Bytes   int64     `json:"bytes"`   // of all files
	// Secrets are the names of the files that the folder's secrets had. Restoring needs them.
	Secrets []string `json:"secrets"`
	// MasterKeys are the ids of the keys that the master key has, if the folder has it.
	MasterKeys []uint32       `json:"masterKeys,omitempty"`
	Files      []backedUpFile `json:"files"`
}

type backedUpFile struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	from   string
}

// IsBackup reports whether a folder is the backup of a data folder, and not of a cluster.
func IsBackup(dir string) bool {
	b, err := readBackup(dir)
	return err == nil && b.Kind == folderBackup
}

func readBackup(dir string) (b Backup, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestName)) // #nosec G304 -- asked for
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	return b, err
}

// WriteBackup backs a data folder up, while its service runs or after it has stopped.
func WriteBackup(
	ctx context.Context, dir, to, program string, logger *slog.Logger, tell transfer.Telling,
) (b Backup, err error) {
	b = Backup{Kind: folderBackup, MadeAt: time.Now().UTC(), Program: program}
	tell.Step("taking a snapshot of the topics")
	release, err := b.list(ctx, dir, logger)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := errors.Join(transfer.PrepareFolder(to), b.nameSecrets(dir)); err != nil {
		return b, err
	}
	if err := needSpace(to, b.Bytes); err != nil {
		return b, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, emptyFolder(to))
		}
	}()
	tell.Step("copying the files")
	if err := b.eachFile(ctx, tell.Progress, func(f *backedUpFile) (err error) {
		f.SHA256, err = copyFile(f.from, filepath.Join(to, f.Name), f.Bytes)
		return err
	}); err != nil {
		return b, err
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err == nil {
		err = syncFolders(to)
	}
	if err != nil {
		return b, err
	}
	return b, runfile.WriteFile(filepath.Join(to, manifestName), append(text, '\n'))
}

// needSpace rejects a backup that would leave too little space for the service, whose data folder
// may be on the same disk.
func needSpace(to string, size int64) error {
	free, err := node.FreeBytes(to)
	if err != nil {
		return err
	}
	if need := uint64(max(size, 0)) + node.LeastFreeBytes; free < need {
		return fmt.Errorf("the disk of %s has %d MiB free, but the backup needs %d MiB and %d MiB must "+
			"stay free: delete older backups, or name a folder on another disk", to, free>>20,
			(need-node.LeastFreeBytes)>>20, node.LeastFreeBytes>>20)
	}
	return nil
}

// emptyFolder removes what a failed backup wrote to its folder, which was empty before.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// list lists the files to back up, which stay unchanged until release.
func (b *Backup) list(
	ctx context.Context, dir string, logger *slog.Logger,
) (release func() error, err error) {
	topics, devnet := filepath.Join(dir, brokerFolder), filepath.Join(dir, devnetFolder)
	size := func(_ string, has int64) int64 { return has }
	if running, stopped := runningTopics(dir, logger); stopped == nil {
		var s *broker.Snapshot
		err := running.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
			s, err = broker.TakeSnapshot(ctx, admin, topics)
			return err
		})
		if err != nil {
			return nil, err
		}
		topics, devnet, size = s.Dir, "", s.Size // the snapshot has the devnet
		release = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			return running.WithAdmin(ctx, s.Remove)
		}
	} else {
		if _, err := os.Stat(topics); err != nil {
			return nil, stopped // it never ran
		}
		if release, err = runfile.Hold(dir); err != nil {
			return nil, err
		}
	}
	for at, as := range map[string]string{
		topics: brokerFolder, devnet: filepath.Join(brokerFolder, devnetFolder),
		filepath.Join(dir, "network"): "network", filepath.Join(dir, "ca.pem"): "ca.pem",
		filepath.Join(dir, addressesFile): addressesFile,
	} {
		if err := b.add(at, as, size); err != nil {
			return nil, errors.Join(err, release())
		}
	}
	return release, nil
}

// add adds a file, or all files in a folder, if it exists.
func (b *Backup) add(at, as string, size func(name string, has int64) int64) error {
	return filepath.WalkDir(at, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(at, path)
		switch isDir := err == nil && entry.IsDir(); {
		case isDir && broker.IsSnapshot(name):
			return fs.SkipDir // of a killed backup
		case isDir, errors.Is(err, fs.ErrNotExist) && path == at:
			return nil
		}
		if err != nil {
			return err
		}
		about, err := entry.Info()
		if err != nil {
			return err
		}
		f := backedUpFile{Name: filepath.Join(as, name), from: path, Bytes: size(name, about.Size())}
		if f.Bytes >= 0 {
			b.Files, b.Bytes = append(b.Files, f), b.Bytes+f.Bytes
		}
		return nil
	})
}

// nameSecrets names what a restore needs in addition to the backup.
func (b *Backup) nameSecrets(dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "secrets"))
	for _, e := range entries {
		b.Secrets = append(b.Secrets, e.Name())
	}
	ids, elsewhere := (keys.MasterKeyPlace{DataDir: dir}).Keys()
	for _, k := range ids {
		b.MasterKeys = append(b.MasterKeys, k.ID)
	}
	if elsewhere != nil {
		b.MasterKeys = nil
	}
	return err
}

// eachFile calls do for each file, with progress.
func (b *Backup) eachFile(
	ctx context.Context, progress func(done, total int64), do func(*backedUpFile) error,
) error {
	var done int64
	for i := range b.Files {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := do(&b.Files[i]); err != nil {
			return fmt.Errorf("copying %s: %w", b.Files[i].Name, err)
		}
		done += b.Files[i].Bytes
		progress(done, b.Bytes)
	}
	return nil
}

// copyFile copies the beginning of a file to a new file, and returns its checksum.
func copyFile(from, to string, size int64) (sum string, err error) {
	in, err := os.Open(from) // #nosec G304 -- asked for
	if err != nil {
		return "", err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return "", err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // #nosec G304 -- as above
	if err != nil {
		return "", err
	}
	h := sha256.New()
	_, err = io.CopyN(io.MultiWriter(out, h), in, size)
	if err == nil {
		err = out.Sync()
	}
	return hex.EncodeToString(h.Sum(nil)), errors.Join(err, out.Close())
}

// syncFolders writes the names in a folder and in its subfolders to the disk.
func syncFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return syncFolder(path)
	})
}

func syncFolder(dir string) error {
	f, err := os.Open(dir) // #nosec G304 -- asked for
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// RestoreBackup creates the data of a folder from a backup. The folder may only have the secrets.
func RestoreBackup(ctx context.Context, from, dir string, tell transfer.Telling) (Backup, error) {
	b, err := readBackup(from)
	if err == nil {
		err = b.checkTarget(dir)
	}
	if err != nil {
		return b, err
	}
	folder, err := runfile.Open(dir)
	if err != nil {
		return b, err
	}
	defer folder.Close()
	draft := folder.Join(draftFolder)
	// There may be one of an interrupted restore. While there is one, checkRestored rejects a start.
	if err := errors.Join(os.RemoveAll(draft), os.Mkdir(draft, 0o700)); err != nil {
		return b, err
	}
	tell.Step("copying and verifying the files")
	if err := b.eachFile(ctx, tell.Progress, func(f *backedUpFile) error {
		if !filepath.IsLocal(f.Name) {
			return errors.New("the manifest is damaged")
		}
		sum, err := copyFile(filepath.Join(from, f.Name), filepath.Join(draft, f.Name), f.Bytes)
		if err == nil && sum != f.SHA256 {
			err = errors.New("the file is damaged: use another copy of the backup")
		}
		return err
	}); err != nil {
		return b, err
	}
	if err := syncFolders(draft); err != nil {
		return b, err
	}
	// The broker's folder comes last: without it, the folder still is a new one.
	for _, name := range []string{
		"network", "ca.pem", addressesFile, filepath.Join(brokerFolder, devnetFolder), brokerFolder,
	} {
		if err := replace(filepath.Join(draft, name), folder.Join(filepath.Base(name))); err != nil {
			return b, err
		}
	}
	return b, errors.Join(syncFolder(dir), replace(draft, folder.Join(restoredFolder)))
}

// checkRestored rejects a folder whose restore has not finished, because a start would create a new
// deployment there. A restore that was killed after it had moved everything leaves its empty draft.
func checkRestored(folder *runfile.Folder) error {
	draft := folder.Join(draftFolder)
	if _, err := os.Lstat(draft); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(folder.Join(brokerFolder)); err == nil {
		return replace(draft, folder.Join(restoredFolder))
	}
	return fmt.Errorf("--data-dir %s: restoring a backup to this folder failed or was interrupted: "+
		"repeat `lumenhook restore`, or remove %s to start a new deployment", folder.Path(), draft)
}

// replace moves a file or a folder, if it exists, to where an interrupted restore may have moved it
// before.
func replace(from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(os.RemoveAll(to), os.Rename(from, to))
}

// checkTarget rejects a folder that has data, that lacks secrets of the backup, or that belongs to
// another user, who could not use the files.
func (b *Backup) checkTarget(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, brokerFolder)); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--data-dir %s already has data: name a folder that contains only the secrets",
			dir)
	}
	secrets := filepath.Join(dir, "secrets")
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(secrets, name))
		return err == nil
	}
	missing := slices.DeleteFunc(slices.Clone(b.Secrets), func(name string) bool {
		return has(name) || name == "api-key" && has("account") // then a start creates another key
	})
	if len(missing) > 0 {
		return fmt.Errorf("%s lacks %s, and the backup cannot be used without them: copy the secrets "+
			"folder that you saved to %s first", secrets, strings.Join(missing, ", "), secrets)
	}
	about, err := os.Stat(secrets)
	if err != nil {
		return err
	}
	if owner := about.Sys().(*syscall.Stat_t); int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the id %d: run this as that user", secrets,
			owner.Uid)
	}
	if len(b.MasterKeys) == 0 {
		return nil
	}
	have, err := (keys.MasterKeyPlace{DataDir: dir}).Keys()
	for _, id := range b.MasterKeys {
		if err == nil && !slices.ContainsFunc(have, func(k keys.MasterKey) bool { return k.ID == id }) {
			err = fmt.Errorf("the master key in %s lacks the key %010d, which encrypts secrets in the "+
				"backup: copy the secrets folder that you saved with this backup "+
				"(`lumenhook secrets drop` removes keys)", secrets, id)
		}
	}
	return err
}
