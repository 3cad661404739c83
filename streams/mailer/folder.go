package mailer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	folderMax    = 1000 // mails in a folder; the oldest are deleted
	folderSuffix = ".eml"
)

// Folder writes mails to files instead of sending them, for deployments without a mail server. A
// repeated mail has the same file.
type Folder struct {
	dir     string
	from    string
	written func(m Mail, path string)
}

// NewFolder creates the folder. written is called with each mail, and must not block.
func NewFolder(dir, from string, written func(m Mail, path string)) (*Folder, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the mail folder: %w", err)
	}
	return &Folder{dir: dir, from: from, written: written}, nil
}

// Send writes a mail atomically.
func (f *Folder) Send(_ context.Context, m Mail) (err error) {
	msg, err := message(m, f.from)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(f.dir, ".new-*")
	if err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	defer os.Remove(file.Name())
	_, err = msg.WriteTo(file)
	path := filepath.Join(f.dir, m.ID+folderSuffix)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("writing a mail: %w", err)
	}
	f.written(m, path)
	return f.removeLeftovers()
}

func (f *Folder) removeLeftovers() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("reading the mail folder: %w", err)
	}
	var mails []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasSuffix(e.Name(), folderSuffix) {
			mails = append(mails, info)
		}
	}
	if len(mails) <= folderMax {
		return nil
	}
	slices.SortFunc(mails, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, info := range mails[:len(mails)-folderMax] {
		if err := os.Remove(filepath.Join(f.dir, info.Name())); err != nil &&
			!errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing an old mail: %w", err)
		}
	}
	return nil
}
