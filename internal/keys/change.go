package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// changeFile replaces the text of the file at path. next reads the present text and returns the
// new one. Readers see either of them, and the new one is on disk when changeFile returns. A
// second change at the same time is refused, and leaves the file as it is. An error of next is
// returned as it is. The file keeps its owner and mode.
func changeFile(path string, next func() (text []byte, err error)) error {
	// The new file's name excludes a second process that changes it at once.
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
	err = errors.Join(err, KeepOwner(f, path))
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

// KeepOwner gives a new file the owner of the file at path, which it will replace. If root creates
// the file, it gets the owner of the folder. A file that root writes for a service that runs as
// another user stays readable for that service.
func KeepOwner(file *os.File, path string) error {
	old, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if os.Geteuid() != 0 { // a folder of several users, such as a shared volume
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

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
