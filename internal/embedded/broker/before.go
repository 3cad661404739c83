package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// kfake compacts a partition by deleting its files and writing new ones, so an interruption could
// lose the partition. To prevent that, compact first links all partition files into a draft
// directory and renames it once it is complete. The directory is removed after the new files are
// written (and synced, with Config.Sync). If it still exists at startup, its files are restored.
// Nothing else writes in the meantime, because compaction runs while no request is being handled.
const (
	beforeCompaction = "before-compaction"
	beforeDraft      = beforeCompaction + ".draft"
	beforeDone       = beforeCompaction + ".done"
)

func (b *Broker) compact() {
	draft := filepath.Join(b.dir, beforeDraft)
	switch err := b.linkBefore(draft); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		b.log.slog.Warn("not enough disk space to compact the embedded broker's topics; will try again",
			"error", err, "after", b.compactEvery)
		return
	case err != nil: // no hard links here: compact without the backup
		b.log.slog.Warn("cannot back up the embedded broker's files before compaction; an "+
			"interruption may lose partitions", "error", err)
		b.cluster.Compact()
		return
	}
	if err := b.compactWithBackup(draft); err != nil {
		b.giveUp(fmt.Errorf("compacting: %w", err))
	}
}

func (b *Broker) linkBefore(draft string) error {
	if err := os.RemoveAll(draft); err != nil {
		return err
	}
	err := linkPartitions(filepath.Join(b.dir, "partitions"), draft)
	if err != nil {
		err = errors.Join(err, os.RemoveAll(draft))
	}
	return err
}

// compactWithBackup compacts while the backup directory exists. If it fails, the directory stays,
// and the next start undoes everything since. The caller must therefore stop acknowledging writes.
func (b *Broker) compactWithBackup(draft string) error {
	if err := b.syncChanged(); err != nil { // the files and their new links
		return err
	}
	before, done := filepath.Join(b.dir, beforeCompaction), filepath.Join(b.dir, beforeDone)
	if err := errors.Join(os.Rename(draft, before), b.syncNow(b.dir)); err != nil {
		return err
	}
	b.cluster.Compact()
	if b.log.lost.Load() {
		return errors.New("some data could not be written")
	}
	if err := b.syncChanged(); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(before, done), b.syncNow(b.dir)); err != nil {
		return err
	}
	return os.RemoveAll(done)
}

// giveUp stops the broker from answering any request.
func (b *Broker) giveUp(err error) {
	if b.disk != nil {
		b.disk.giveUp(err)
		return
	}
	b.log.fail(err)
}

func (b *Broker) syncChanged() error {
	if b.disk == nil {
		return nil
	}
	return b.disk.syncChanged()
}

// linkPartitions hard-links every partition's segments and indexes into to, with the same directory
// names.
func linkPartitions(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	return eachPartition(from, func(folder string) error {
		files, err := filesIn(filepath.Join(from, folder), segmentExt, indexExt)
		if err != nil || len(files) == 0 {
			return err
		}
		if err := os.Mkdir(filepath.Join(to, folder), 0o700); err != nil {
			return err
		}
		return linkAll(files, filepath.Join(to, folder))
	})
}

func linkAll(files []string, folder string) error {
	for _, file := range files {
		if err := os.Link(file, filepath.Join(folder, filepath.Base(file))); err != nil {
			return err
		}
	}
	return nil
}

func healCompaction(dir string, sync func(path string) error) error {
	kept, partitions := filepath.Join(dir, beforeCompaction), filepath.Join(dir, "partitions")
	done := filepath.Join(dir, beforeDone)
	err := errors.Join(os.RemoveAll(done), os.RemoveAll(filepath.Join(dir, beforeDraft)))
	if err != nil {
		return err
	}
	if _, err := os.Stat(kept); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	err = eachPartition(kept, func(folder string) error {
		if err := bringBack(filepath.Join(kept, folder), filepath.Join(partitions, folder)); err != nil {
			return fmt.Errorf("restoring %s: %w", folder, err)
		}
		return sync(filepath.Join(partitions, folder))
	})
	if err != nil {
		return err
	}
	if err := sync(partitions); err != nil {
		return err
	}
	if err := os.Rename(kept, done); err != nil { // never restore a part
		return err
	}
	if err := sync(dir); err != nil {
		return err
	}
	return os.RemoveAll(done)
}

// bringBack replaces the files of a partition directory with those of its backup. It can be
// repeated if it is interrupted.
func bringBack(from, to string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	files, err := filesIn(to, segmentExt, indexExt)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if files, err = filesIn(from, segmentExt, indexExt); err != nil {
		return err
	}
	return linkAll(files, to)
}

func eachPartition(partitions string, do func(folder string) error) error {
	entries, err := os.ReadDir(partitions)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if entry.IsDir() && err == nil {
			err = do(entry.Name())
		}
	}
	return err
}

func filesIn(folder string, extensions ...string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if slices.Contains(extensions, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, err
}
