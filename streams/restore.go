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
	fold := folding{task: t, latestFrom: known[p] - latestRecords}
	defer fold.close()
	if err := fold.begin(max(starts[p], min(t.core.Next(), fold.latestFrom))); err != nil {
		return nil, err
	}
	if err := fold.to(ctx, known[p]); err != nil {
		return nil, err
	}
	end, err := t.tx.commit(ctx, []Record{StartRecord(t.cfg.Journal, t.cfg.Partition)}, nil, t.cfg.Journal)
	if err != nil {
		return nil, fmt.Errorf("streams: beginning with partition %d of %s: %w", p, t.cfg.Journal, err)
	}
	if err := t.notAhead(starts[p], end, &fold); err != nil {
		return nil, err
	}
	err = fold.to(ctx, end)
	return fold.latest, err
}

// notAhead empties a state that holds more than its journal: it belongs to a
// journal that was lost.
func (t *Task) notAhead(start, end int64, fold *folding) error {
	at := t.core.Next()
	if at <= end {
		return nil
	}
	t.cfg.Logger.Warn("state is ahead of its journal and is built anew", "partition", t.cfg.Partition, "checkpoint", at, "end", end)
	if err := errors.Join(t.core.Reset(), t.reaches(start)); err != nil {
		return err
	}
	return fold.begin(start)
}

// reaches fails when the state is behind what retention left of its journal: it
// cannot be completed.
func (t *Task) reaches(start int64) error {
	if at := t.core.Next(); at < start {
		return fmt.Errorf("streams: partition %d of %s begins at %d, after the state's checkpoint %d: the journal must be kept whole (set retention.ms=-1) or be restored",
			t.cfg.Partition, t.cfg.Journal, start, at)
	}
	return nil
}

// folding reads the journal into the state.
type folding struct {
	task       *Task
	reader     *Reader
	latestFrom int64    // offset of the first of the latest records
	latest     []Record // those that were read
}

// begin has reading start at an offset, anew if it had begun.
func (f *folding) begin(from int64) (err error) {
	f.close()
	f.latest = nil
	from = max(0, from)
	f.task.stats.begin(from, from)
	f.reader, err = f.task.cfg.Cluster.NewReader(ReaderConfig{
		From: Offsets{f.task.cfg.Journal: {f.task.cfg.Partition: from}}, Notes: true,
	})
	return err
}

// to folds what lies before an offset.
func (f *folding) to(ctx context.Context, end int64) error {
	cfg := &f.task.cfg
	f.task.stats.end.Store(end)
	err := f.reader.ReadTo(ctx, cfg.Journal, map[int32]int64{cfg.Partition: end}, restoreBatch, func(r Record) error {
		if r.Offset >= f.latestFrom {
			f.latest = append(f.latest, r)
		}
		f.task.stats.at.Store(r.Offset + 1)
		return f.task.core.Fold(r)
	})
	if errors.Is(err, ErrAborted) {
		err = errors.Join(err, f.task.core.Distrust())
	}
	if err != nil {
		return fmt.Errorf("streams: restoring partition %d: %w", cfg.Partition, err)
	}
	return nil
}

func (f *folding) close() {
	if f.reader != nil {
		f.reader.Close()
	}
}
