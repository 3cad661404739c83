package task

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A core loads a snapshot if the journal cannot complete its own state: there is none, it belongs
// to another journal, or retention has deleted the records after it. It tries the newest snapshot
// first, and earlier ones if that is damaged or belongs to another journal. The rest is folded from
// the journal, which also verifies the snapshot. If the journal's beginning is deleted and no
// snapshot can be loaded, the start fails.

type loader struct {
	from, at, to int64 // in the snapshot topic: the first offset of the read, the next, and the end
	index        snapshotIndex
	indexed      bool
	left         []foundSnapshot // untried, newest first
	reader       *snapshotReader // nil unless a snapshot is being loaded
	loaded       bool            // the state is from a snapshot
	foreign      string          // identity of the newest snapshot, if that rules it out
}

func (l *loader) close() {
	if l.reader != nil {
		l.reader.decoder.Close()
		l.reader = nil
	}
}

func (l *loader) readTo(from, to int64) { l.from, l.at, l.to = from, from, to }

// wantsSnapshot reports whether the journal cannot complete the state, or there is none.
func (c *Core[E, C]) wantsSnapshot() bool {
	at := c.progress.next
	return c.cfg.Snapshots.Topic != "" && (at == 0 || at < c.restore.start)
}

// seekSnapshot continues with the next snapshot. The state must be empty.
func (c *Core[E, C]) seekSnapshot() error {
	if c.loader.indexed {
		return c.loadNext()
	}
	c.stage = seeking
	return nil
}

// LocatedSnapshots reports the first offset and the end of the snapshot topic.
func (c *Core[E, C]) LocatedSnapshots(start, end int64) error {
	c.stage = indexing
	c.loader.index = snapshotIndex{first: make(map[string]int64)}
	c.loader.readTo(start, end)
	if start >= end {
		return c.snapshotsIndexed()
	}
	return nil
}

// ReadSnapshots reports committed records of the snapshot topic, in order, and the next offset.
func (c *Core[E, C]) ReadSnapshots(records []kafka.Record, next int64) error {
	l := &c.loader
	l.at = next
	if c.stage == loading {
		return c.load(records)
	}
	for _, r := range records {
		l.index.add(r)
	}
	if next < l.to {
		return nil
	}
	return c.snapshotsIndexed()
}

func (c *Core[E, C]) snapshotsIndexed() error {
	l := &c.loader
	var others unfit
	l.left, others = l.index.fitting(c.cfg.Snapshots, c.restore.start)
	l.index, l.indexed, l.foreign = snapshotIndex{}, true, others.newest
	if others.foreign+others.tooOld > 0 {
		c.cfg.Logger.Warn("skipping snapshots of the state that have another format or "+
			"partition count, are damaged, or are older than the journal",
			"partition", c.cfg.Partition, "otherFormat", others.foreign, "tooOld", others.tooOld,
			"left", len(l.left), "newestOther", others.newest)
	}
	return c.loadNext()
}

func (c *Core[E, C]) loadNext() (err error) {
	l := &c.loader
	l.close()
	if len(l.left) == 0 {
		return c.startFolding()
	}
	c.progress.reset()
	c.snapshots.reset()
	if err := c.store.BeginLoading(); err != nil {
		return err
	}
	l.reader, err = newSnapshotReader(l.left[0], c.store)
	if err != nil {
		return err
	}
	l.left = slices.Delete(l.left, 0, 1)
	l.readTo(l.reader.of.first, l.reader.of.last+1)
	l.loaded, c.stage = false, loading
	return nil
}

func (c *Core[E, C]) load(records []kafka.Record) error {
	l := &c.loader
	for _, r := range records {
		whole, err := l.reader.take(r)
		switch {
		case errors.Is(err, errTornSnapshot):
			return c.passOver(err)
		case err != nil:
			return err
		case whole:
			return c.loadedSnapshot()
		}
	}
	if l.at >= l.to {
		return c.passOver(errTornSnapshot)
	}
	return nil
}

func (c *Core[E, C]) passOver(why error) error {
	of := c.loader.reader.of
	c.cfg.Logger.Warn("cannot load a snapshot of the state; trying the previous one",
		"partition", c.cfg.Partition, "snapshot", of.ID, "journalOffset", of.Next, "error", why)
	if err := errors.Join(c.store.Reset(), c.progress.load(c.store)); err != nil {
		return err
	}
	return c.loadNext()
}

func (c *Core[E, C]) loadedSnapshot() error {
	l := &c.loader
	of := l.reader.of
	if err := c.progress.load(c.store); err != nil {
		return err
	}
	if c.progress.next != of.Next {
		return c.passOver(errTornSnapshot)
	}
	l.close()
	l.loaded = true
	c.snapshots.kept = keptSnapshots{Latest: keptSnapshot{
		ID:    of.ID,
		First: of.first,
		Next:  of.Next,
		Fact:  c.progress.firstUnproved(),
		Bytes: of.Bytes,
	}}
	if of.convert != nil && of.convert.Whole != nil {
		if err := of.convert.Whole(c.store); err != nil {
			return fmt.Errorf("streams: converting a snapshot of another format: %w", err)
		}
	}
	if err := c.noteLoaded(of); err != nil {
		return err
	}
	c.cfg.Logger.Info("the state was loaded from a snapshot", "partition", c.cfg.Partition,
		"snapshot", of.ID, "journalOffset", of.Next, "keys", of.Keys, "bytes", of.Bytes,
		"convertedFrom", converted(of))
	return c.startFolding()
}

func (c *Core[E, C]) noteLoaded(of foundSnapshot) error {
	s := &c.snapshots
	if err := s.held.load(c.store); err != nil {
		return err
	}
	batch := c.store.Begin()
	err := s.kept.save(batch)
	if converted(of) != "" {
		s.held = held{is: true}
		err = errors.Join(err, s.held.save(batch))
	}
	if err != nil {
		batch.Discard()
		return err
	}
	return errors.Join(batch.Commit(), c.store.EndLoading())
}

func converted(of foundSnapshot) string {
	if of.convert == nil {
		return ""
	}
	return of.Identity
}

func (c *Core[E, C]) restoring() restoreProgress {
	if l := &c.loader; c.stage == indexing || c.stage == loading {
		return restoreProgress{from: l.from, at: min(l.at, l.to), end: l.to, loading: true}
	}
	r := &c.restore
	return restoreProgress{from: r.from, at: min(r.at, r.to), end: r.to}
}
