package streams

import (
	"context"
	"errors"
	"fmt"
)

// latestRecords is how many offsets a start reads again: a turn's facts and the
// marker that ends its transaction.
const latestRecords = TurnFacts + 1

// restore folds the journal from the store's checkpoint to its end, and gives
// the latest records (G4). The end is read after the former owner was fenced, so
// nothing can be added behind our back.
func (t *Task) restore(ctx context.Context) (latest []Record, err error) {
	ends, err := t.cfg.Cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	defer ends.Close()
	starts, err := ends.Starts(ctx, t.cfg.Journal)
	if err != nil {
		return nil, err
	}
	until, err := ends.Of(ctx, t.cfg.Journal)
	if err != nil {
		return nil, err
	}
	start, end := starts[t.cfg.Partition], until[t.cfg.Partition]
	checkpoint, err := t.checkpoint(start, end)
	if err != nil {
		return nil, err
	}
	from := max(start, min(checkpoint, end-latestRecords))
	if from >= end {
		return nil, nil
	}
	return t.foldJournal(ctx, from, end)
}

// checkpoint is where folding goes on. State that is ahead of its journal
// belongs to a journal that was lost, and state that is behind what retention
// left cannot be completed.
func (t *Task) checkpoint(start, end int64) (int64, error) {
	at := t.core.Next()
	if at > end {
		t.cfg.Logger.Warn("state is ahead of its journal and is built anew", "partition", t.cfg.Partition, "checkpoint", at, "end", end)
		if err := t.core.Reset(); err != nil {
			return 0, err
		}
		at = 0
	}
	if at < start {
		return 0, fmt.Errorf("streams: partition %d of %s begins at %d, after the state's checkpoint %d: the journal must be kept whole (set retention.ms=-1) or be restored",
			t.cfg.Partition, t.cfg.Journal, start, at)
	}
	return at, nil
}

func (t *Task) foldJournal(ctx context.Context, from, end int64) (latest []Record, err error) {
	p := t.cfg.Partition
	r, err := t.cfg.Cluster.NewReader(ReaderConfig{From: Offsets{t.cfg.Journal: {p: from}}, notes: true})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	t.stats.begin(from, end)
	err = r.ReadTo(ctx, t.cfg.Journal, map[int32]int64{p: end}, restoreBatch, func(rec Record) error {
		if rec.Offset >= end-latestRecords {
			latest = append(latest, rec)
		}
		t.stats.at.Store(rec.Offset + 1)
		return t.core.Fold(rec)
	})
	if errors.Is(err, ErrAborted) {
		err = errors.Join(err, t.core.Distrust())
	}
	if err != nil {
		return nil, fmt.Errorf("streams: restoring partition %d: %w", p, err)
	}
	return latest, nil
}
