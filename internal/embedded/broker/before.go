package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kfake compacts a partition by deleting its files and writing new ones. What is cut short there
// would lose the partition. So all files of the partitions are linked into a folder before, which
// is renamed when it is complete, and deleted when the new files are there (and on the disk, with
// Sync). Nothing else is written meanwhile: compaction runs where no request is handled. A start
// that finds the folder brings its files back.
const (
	beforeCompaction = "before-compaction"
	beforeDraft      = beforeCompaction + ".draft"
	beforeDone       = beforeCompaction + ".done"
)

// compact compacts all topics and applies their retention.
func (b *Broker) compact() {
	if err := b.keepBefore(); err != nil {
		b.log.slog.Warn("the embedded broker could not compact its topics; it tries again",
			"error", err, "after", b.compactEvery)
		return
	}
	b.cluster.Compact()
	if err := b.dropBefore(); err != nil {
		b.log.fail(fmt.Errorf("compacting: %w", err))
	}
}

// keepBefore links all files of partitions into the folder.
func (b *Broker) keepBefore() error {
	draft := filepath.Join(b.dir, beforeDraft)
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	err := linkPartitions(filepath.Join(b.dir, "partitions"), draft)
	if err != nil {
		return errors.Join(err, os.RemoveAll(draft))
	}
	if err := b.syncChanged(); err != nil { // the files, and their new names
		return err
	}
	return errors.Join(os.Rename(draft, filepath.Join(b.dir, beforeCompaction)), b.syncNow(b.dir))
}

// dropBefore deletes the folder once the new files are there.
func (b *Broker) dropBefore() error {
	if err := b.syncChanged(); err != nil {
		return err
	}
	done := filepath.Join(b.dir, beforeDone)
	if err := os.Rename(filepath.Join(b.dir, beforeCompaction), done); err != nil {
		return err
	}
	return errors.Join(b.syncNow(b.dir), os.RemoveAll(done))
}

func (b *Broker) syncChanged() error {
	if b.disk == nil {
		return nil
	}
	return b.disk.syncChanged()
}

// linkPartitions gives the segments of partitions and their indexes a second name each, in folders
// of the same names in another folder.
func linkPartitions(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, pattern := range []string{"*.dat", "*.idx"} {
		files, err := filepath.Glob(filepath.Join(from, "*", pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			name := filepath.Join(to, strings.TrimPrefix(file, from))
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				return err
			}
			if err := os.Link(file, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// healCompaction brings back what was there before a compaction that was cut short.
func healCompaction(dir string) error {
	kept, partitions := filepath.Join(dir, beforeCompaction), filepath.Join(dir, "partitions")
	folders, err := os.ReadDir(kept)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, folder := range folders {
		if err := bringBack(filepath.Join(kept, folder.Name()),
			filepath.Join(partitions, folder.Name())); err != nil {
			return fmt.Errorf("bringing %s back: %w", folder.Name(), err)
		}
	}
	done := filepath.Join(dir, beforeDone)
	if err := os.RemoveAll(done); err != nil {
		return err
	}
	if len(folders) > 0 { // at once: a part of it must not be brought back
		if err := os.Rename(kept, done); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(done), os.RemoveAll(filepath.Join(dir, beforeDraft)))
}

// bringBack has a folder of a partition have the same files as the other. If it is cut short, the
// next start does it again.
func bringBack(from, to string) error {
	for _, pattern := range []string{"*.dat", "*.idx"} {
		files, err := filepath.Glob(filepath.Join(to, pattern))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Link(filepath.Join(from, file.Name()), filepath.Join(to, file.Name())); err != nil {
			return err
		}
	}
	return nil
}
