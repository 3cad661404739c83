package task

import (
	"fmt"
	"math"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

const (
	restoreBatch = 4096
	chunksAtOnce = 16
)

// restore is the progress of a start through its journal, from the state's checkpoint to the
// journal's end (G4).
//
// A broker's response cannot prove where the journal ends: a broker that lost the leadership
// without noticing knows an earlier end. The owner's own record can. It is acknowledged, so all
// records acknowledged earlier are before it; former owners are fenced, so none of their records
// are after it. The owner writes it after folding the known part of the journal, so that a journal
// that cannot be folded does not grow with each attempt.
type restore struct {
	start  int64    // of the journal
	from   int64    // first offset of the read
	at, to int64    // offset to read next, and the end
	mark   bookmark // of the state, until the journal has confirmed it
	batch  *store.Batch
	folded int
	long   bool // more than one batch
}

// LocatedJournal reports the journal's first offset and its known end.
func (c *Core[E, C]) LocatedJournal(start, known int64) error {
	c.restore = restore{start: start, to: known}
	if c.read && c.progress.next > 0 && c.progress.next < start {
		return c.gap(start)
	}
	if c.wantsSnapshot() {
		return c.seekSnapshot()
	}
	return c.startFolding()
}

func (c *Core[E, C]) startFolding() error {
	c.stage = folding
	// A state beyond the known end may belong to another journal.
	c.beginReading(max(c.restore.start, min(c.progress.firstUnproved(), c.restore.to)))
	return c.checkRetention()
}

func (c *Core[E, C]) checkRetention() error {
	if c.progress.next < c.restore.start {
		return c.gap(c.restore.start)
	}
	return nil
}

func (c *Core[E, C]) gap(start int64) error {
	do := fmt.Sprintf("Restore the topics from a backup, and make sure that only Lumenhook deletes "+
		"records of %s (retention.ms=-1)", c.cfg.Journal)
	if advice := c.cfg.Snapshots.advise(c.loader.foreign); advice != "" {
		do = advice
	}
	return fmt.Errorf("streams: partition %d of %s begins at %d, but the state of this process "+
		"ends at %d, and there is no later snapshot: the records in between were deleted. %s",
		c.cfg.Partition, c.cfg.Journal, start, c.progress.next, do)
}

func (c *Core[E, C]) beginReading(from int64) {
	r := &c.restore
	r.from, r.mark = from, c.progress.mark
	if from > r.mark.offset {
		r.mark.known = false // deleted by retention, so there is nothing to compare
	}
	c.readOn(from)
}

func (c *Core[E, C]) readOn(at int64) {
	c.restore.at = at
	switch {
	case at < c.restore.to:
	case c.stage == folding && c.standby:
		c.following, c.restore.to = true, math.MaxInt64
	case c.stage == folding:
		c.stage = provingEnd
	case c.stage == catchingUp:
		c.stage = starting
	}
}

func (c *Core[E, C]) catchUpTo(end int64) error {
	c.stage, c.restore.to = catchingUp, end
	if c.progress.next > end {
		return c.restartFold("the state is ahead of its journal")
	}
	c.readOn(c.restore.at)
	return nil
}

// ReadJournal folds committed journal records, in order. next is the offset to read next, which
// control records and aborted records also advance.
func (c *Core[E, C]) ReadJournal(records []kafka.Record, next int64) error {
	for _, r := range records {
		if !c.restore.checkMark(r) {
			return c.restartFold("the last record that the state has folded is not in its journal")
		}
		if err := c.fold(r); err != nil {
			return err
		}
	}
	c.readOn(next)
	if c.following { // the next record may be long in coming
		return c.commitRestored()
	}
	return nil
}

// checkMark compares the state's bookmark with the first journal record at or after it.
func (r *restore) checkMark(record kafka.Record) bool {
	if !r.mark.known || record.Offset < r.mark.offset {
		return true
	}
	r.mark.known = false
	return bookmarkOf(record.Offset, record) == bookmark{r.mark.offset, r.mark.sum, true}
}

// restartFold discards a state that belongs to another journal, and continues with the next
// snapshot or the journal's beginning.
func (c *Core[E, C]) restartFold(why string) error {
	if c.read {
		return fmt.Errorf("streams: partition %d of %s: %s: the journal was lost or truncated while the "+
			"state was followed", c.cfg.Partition, c.cfg.Journal, why)
	}
	c.reportStateMismatch(why)
	c.progress.reset()
	c.snapshots.reset()
	if c.restore.batch != nil {
		c.restore.batch.Discard()
		c.restore.batch, c.restore.folded = nil, 0
	}
	if err := c.store.Reset(); err != nil {
		return err
	}
	if c.wantsSnapshot() && (!c.loader.indexed || len(c.loader.left) > 0) {
		return c.seekSnapshot()
	}
	c.beginReading(c.restore.start)
	return c.checkRetention()
}

func (c *Core[E, C]) reportStateMismatch(why string) {
	message := ": the journal has since lost facts or was truncated; rebuilding the state from the " +
		"remaining facts"
	if c.loader.loaded {
		message = ": the snapshot is of another journal, or the journal has since lost facts or was " +
			"truncated; rebuilding the state from the remaining facts"
	}
	c.cfg.Logger.Error(why+message, "journal", c.cfg.Journal, "partition", c.cfg.Partition,
		"checkpoint", c.progress.next, "end", c.restore.to)
}

func (c *Core[E, C]) fold(r kafka.Record) error {
	if r.Offset < c.progress.next {
		return nil
	}
	if c.restore.batch == nil {
		c.restore.batch = c.store.Begin()
	}
	err := c.progress.advance(r)
	if err == nil && !kafka.IsNote(r) {
		err = c.handler.Fold(c.restore.batch, r)
	}
	if err != nil {
		return fmt.Errorf("streams: folding record %d of %s: %w", r.Offset, c.cfg.Journal, err)
	}
	c.restore.folded++
	if c.restore.folded < restoreBatch {
		return nil
	}
	c.restore.long = true
	return c.commitRestored()
}

// endFolding commits the last batch. After a long fold it syncs the state, so that a process that
// is killed repeatedly makes progress.
func (c *Core[E, C]) endFolding() error {
	if err := c.commitRestored(); err != nil || !c.restore.long {
		return err
	}
	return c.store.BeginFlush()
}

func (c *Core[E, C]) commitRestored() error {
	batch := c.restore.batch
	if batch == nil {
		return nil
	}
	c.restore.batch, c.restore.folded = nil, 0
	return c.commitState(batch, true)
}
