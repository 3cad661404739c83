package keys

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// changeFile writes the file at path anew, with mode 0600: next reads what is there and returns the
// new text. Readers see the old text or the new one, and the new one is on disk when Change
// returns. A second change at the same time is refused, and leaves the file as it is. An error of
// next is returned as it is.
func changeFile(path string, next func() (text []byte, err error)) error {
	// The new file's name excludes a second process that changes it at once.
	temp := path + ".new"
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: another change is under way; if none is, one was cut short: "+
			"remove the file and repeat the command", temp)
	}
	if err != nil {
		return fmt.Errorf("changing %s: %w", path, err)
	}
	err = writeNext(f, next)
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

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
