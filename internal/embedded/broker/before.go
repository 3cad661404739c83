package broker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// kfake compacts a partition by deleting its files and writing new ones. An interruption there
// would lose the partition. Therefore all files of the partitions are first linked into a folder,
// which is renamed when it is complete, and deleted when the new files exist (and are on disk, with
// Sync). Nothing else is written in the meantime: compaction runs while no request is handled. A
// start that finds the folder restores its files.
const (
	beforeCompaction = "before-compaction"
	beforeDraft      = beforeCompaction + ".draft"
	beforeDone       = beforeCompaction + ".done"
)

// compact compacts all topics and applies their retention.
func (b *Broker) compact() {
	draft := filepath.Join(b.dir, beforeDraft)
	switch err := b.linkBefore(draft); {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		b.log.slog.Warn("the embedded broker has no space to compact its topics; it tries again",
			"error", err, "after", b.compactEvery)
		return
	case err != nil: // a file system without links: as kfake does it
		b.log.slog.Warn("the embedded broker compacts its topics without a second name for their "+
			"files: a cut meanwhile would lose them", "error", err)
		b.cluster.Compact()
		return
	}
	if err := b.compactBeside(draft); err != nil {
		b.giveUp(fmt.Errorf("compacting: %w", err))
	}
}

// linkBefore links all files of partitions into the draft of the folder.
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

// compactBeside compacts while the folder exists. If it fails, the folder stays for the next start:
// nothing may be acknowledged any more, because that start would undo it.
func (b *Broker) compactBeside(draft string) error {
	if err := b.syncChanged(); err != nil { // the files, and their new names
		return err
	}
	before, done := filepath.Join(b.dir, beforeCompaction), filepath.Join(b.dir, beforeDone)
	if err := errors.Join(os.Rename(draft, before), b.syncNow(b.dir)); err != nil {
		return err
	}
	b.cluster.Compact()
	if b.log.lost.Load() {
		return errors.New("not all could be written")
	}
	if err := b.syncChanged(); err != nil {
		return err
	}
	if err := errors.Join(os.Rename(before, done), b.syncNow(b.dir)); err != nil {
		return err
	}
	return os.RemoveAll(done)
}

// giveUp ends all answers.
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

// linkPartitions gives the segments of partitions and their indexes a second name each, in folders
// of the same names in another folder.
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

// linkAll gives files a second name in a folder.
func linkAll(files []string, folder string) error {
	for _, file := range files {
		if err := os.Link(file, filepath.Join(folder, filepath.Base(file))); err != nil {
			return err
		}
	}
	return nil
}

// healCompaction restores the files from before an interrupted compaction.
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
			return fmt.Errorf("bringing %s back: %w", folder, err)
		}
		return sync(filepath.Join(partitions, folder))
	})
	if err != nil {
		return err
	}
	if err := sync(partitions); err != nil {
		return err
	}
	if err := os.Rename(kept, done); err != nil { // at once: a part of it must not be brought back
		return err
	}
	if err := sync(dir); err != nil {
		return err
	}
	return os.RemoveAll(done)
}

// bringBack has a folder of a partition have the same files as the other. If it is cut short, the
// next start does it again.
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

// eachPartition calls do with the name of each folder of a partition.
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

// filesIn returns the paths of the files in a folder that end so.
func filesIn(folder string, extensions ...string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if slices.Contains(extensions, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, err
}
