package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Store stores the files of a lake.
type Store interface {
	// Get returns a file of at most sizeBytesMax. If the file is missing, the error is fs.ErrNotExist.
	Get(ctx context.Context, key string, sizeBytesMax int64) ([]byte, error)
	// First returns the first names in bytewise order, at most limit.
	First(ctx context.Context, limit int) ([]string, error)
	// String returns a name for messages, without secrets.
	String() string
}

var errFileTooLarge = errors.New("the file is too large")

type folder struct{ root string }

// OpenFolder opens a lake in a folder.
func OpenFolder(path string) (Store, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lake: opening the folder: %w", err)
	case !info.IsDir():
		return nil, fmt.Errorf("lake: %s is not a folder", path)
	}
	return folder{path}, nil
}

func (f folder) String() string { return f.root }

func (f folder) Get(_ context.Context, key string, sizeBytesMax int64) ([]byte, error) {
	file, err := os.Open(filepath.Join(f.root, filepath.FromSlash(key)))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, sizeBytesMax)
}

func readAll(r io.Reader, sizeBytesMax int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, sizeBytesMax+1))
	if err == nil && int64(len(raw)) > sizeBytesMax {
		err = fmt.Errorf("%w: more than %d bytes", errFileTooLarge, sizeBytesMax)
	}
	return raw, err
}

// First walks the folder, which visits files in lexical order. It skips the manifest and incomplete
// files, whose names start with a dot.
func (f folder) First(ctx context.Context, limit int) (keys []string, err error) {
	err = filepath.WalkDir(f.root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.IsDir() || strings.HasPrefix(entry.Name(), "."):
			return nil
		}
		key, err := filepath.Rel(f.root, path)
		if err != nil {
			return err
		}
		if keys = append(keys, filepath.ToSlash(key)); len(keys) >= limit {
			return filepath.SkipAll
		}
		return nil
	})
	return keys, err
}
