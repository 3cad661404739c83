package streams

import (
	"context"
	"errors"
	"fmt"
)

const (
	// latestRecords is how many offsets a start reads again: a turn's facts and the
	// marker that ends its transaction, and what owners wrote since that came no
	// further than their start records.
	latestRecords = TurnFacts + 1 + 2*idleStarts
	idleStarts    = 1024
)

// restore folds the journal from the store's checkpoint to its end, and gives
// the latest records (G4).
//
// Where the journal ends, an answer of a broker cannot prove: one that lost the
// lead unawares knows of an earlier end. The owner's own record can. It is
// acknowledged, so all that was acknowledged before lies below it, and former
// owners are fenced, so nothing of theirs comes after it. It is written when what
// is known of the journal has been folded: a journal that cannot be folded does
// not grow with each try.
func (t *Task) restore(ctx context.Context) (latest []Record, err error) {
	p := t.cfg.Partition
	starts, err := t.tx.ends().Starts(ctx, t.cfg.Journal)
	if err != nil {
		return nil, err
	}
	known, err := t.tx.ends().Of(ctx, t.cfg.Journal)
	if err != nil {
		return nil, err
	}
	if err := t.reaches(starts[p]); err != nil {
		return nil, err
	}
	fold := folding{task: t, start: starts[p], latestFrom: known[p] - latestRecords}
	defer fold.close()
	if err := fold.begin(max(starts[p], min(t.core.readFrom(), fold.latestFrom))); err != nil {
		return nil, err
	}
	if err := fold.to(ctx, known[p]); err != nil {
		return nil, err
	}
	end, err := t.tx.commit(ctx, []Record{StartRecord(t.cfg.Journal, t.cfg.Partition)}, nil,
		t.cfg.Journal)
	if err != nil {
		return nil, fmt.Errorf("streams: beginning with partition %d of %s: %w", p, t.cfg.Journal, err)
	}
	if at := t.core.Next(); at > end {
		if err := fold.anew("the state reaches beyond its journal", at, end); err != nil {
			return nil, err
		}
	}
	err = fold.to(ctx, end)
	return fold.latest, err
}

// reaches fails when the state is behind what retention left of its journal: it
// cannot be completed.
func (t *Task) reaches(start int64) error {
	if at := t.core.Next(); at < start {
		return fmt.Errorf("streams: partition %d of %s begins at %d, after the state's checkpoint %d: "+
			"the journal must be kept whole (set retention.ms=-1) or be restored",
			t.cfg.Partition, t.cfg.Journal, start, at)
	}
	return nil
}

// folding reads the journal into the state.
type folding struct {
	task       *Task
	reader     *Reader
	start      int64    // of the journal
	latestFrom int64    // offset of the first of the latest records
	latest     []Record // those that were read
	mark       bookmark // of the state, until the journal has confirmed it
}

// begin has reading start at an offset, anew if it had begun.
func (f *folding) begin(from int64) (err error) {
	f.close()
	f.latest, f.mark = nil, f.task.core.mark
	from = max(0, from)
	if from > f.mark.offset {
		f.mark.known = false // retention took the fact: nothing can be said
	}
	f.task.stats.begin(from, from)
	f.reader, err = f.task.cfg.Cluster.NewReader(ReaderConfig{
		From:  Offsets{f.task.cfg.Journal: {f.task.cfg.Partition: from}},
		Notes: true,
	})
	return err
}

// anew empties a state that is not of this journal, and has reading start over.
func (f *folding) anew(why string, checkpoint, end int64) error {
	t := f.task
	t.cfg.Logger.Error(why+
		": the journal was lost or cut since, and facts with it; the state is built anew from what is "+
		"left",
		"journal", t.cfg.Journal, "partition", t.cfg.Partition, "checkpoint", checkpoint, "end", end)
	if err := errors.Join(t.core.Reset(), t.reaches(f.start)); err != nil {
		return err
	}
	return f.begin(f.start)
}

// errOtherJournal ends a fold into a state that was folded from another journal, or
// from one that was cut since.
var errOtherJournal = errors.New("the state is of another journal")

// to folds what lies before an offset.
func (f *folding) to(ctx context.Context, end int64) error {
	checkpoint := f.task.core.Next()
	err := f.read(ctx, end)
	if errors.Is(err, errOtherJournal) {
		if err = f.anew("the state's last fact is not in its journal", checkpoint, end); err == nil {
			err = f.read(ctx, end)
		}
	}
	if errors.Is(err, ErrAborted) {
		err = errors.Join(err, f.task.core.Distrust())
	}
	if err != nil {
		return fmt.Errorf("streams: restoring partition %d: %w", f.task.cfg.Partition, err)
	}
	return nil
}

func (f *folding) read(ctx context.Context, end int64) error {
	cfg := &f.task.cfg
	f.task.stats.end.Store(end)
	until := map[int32]int64{cfg.Partition: end}
	return f.reader.ReadTo(ctx, cfg.Journal, until, restoreBatch, func(r Record) error {
		if err := f.confirm(r); err != nil {
			return err
		}
		if r.Offset >= f.latestFrom {
			f.latest = append(f.latest, r)
		}
		f.task.stats.at.Store(r.Offset + 1)
		return f.task.core.Fold(r)
	})
}

// confirm holds the journal against the state's bookmark.
func (f *folding) confirm(r Record) error {
	if !f.mark.known || r.Offset < f.mark.offset {
		return nil
	}
	if bookmarkOf(r.Offset, r) != f.mark {
		return errOtherJournal
	}
	f.mark.known = false
	return nil
}

func (f *folding) close() {
	if f.reader != nil {
		f.reader.Close()
	}
}
