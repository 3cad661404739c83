package task

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// NewStandbyCore returns a core that folds the journal of a partition that another process owns. It
// reads on beyond the end that was known at the start, never takes over or decides anything, and
// calls only Fold and Flush of its handler. If this process is assigned the partition later, the
// owner's core finds the state nearly complete, and checks it against the journal like any other.
//
// Its user calls OpenState, which no other core may have done with the same store, and then
// performs one Next action after another, all of which read. A ReadJournal up to math.MaxInt64
// reads all future records as well.
func NewStandbyCore[E, C any](cfg CoreConfig[E, C]) *Core[E, C] {
	c := NewCore(cfg)
	c.standby = true
	return c
}

// Following reports whether a standby has folded the journal up to the end that was known at the
// start.
func (c *Core[E, C]) Following() bool { return c.following }

// Read returns the offset of the next journal record to read.
func (c *Core[E, C]) Read() int64 { return c.restore.at }

// StandbyTaskConfig configures the standby of one partition.
type StandbyTaskConfig[E, C any] struct {
	CoreConfig[E, C]
	Cluster kafka.Cluster
	// OnFollowing, if set, is called when Following becomes true.
	OnFollowing func()
}

// StandbyTask performs the actions of a standby core on Kafka.
type StandbyTask[E, C any] struct {
	cfg     StandbyTaskConfig[E, C]
	core    *Core[E, C]
	reading kafka.PartitionReader

	// Safe for concurrent use.
	folded, behind atomic.Int64
	following      atomic.Bool
}

// NewStandbyTask returns a standby. Call Run to start it.
func NewStandbyTask[E, C any](cfg StandbyTaskConfig[E, C]) *StandbyTask[E, C] {
	return &StandbyTask[E, C]{
		cfg:  cfg,
		core: NewStandbyCore(cfg.CoreConfig),
		reading: kafka.PartitionReader{
			Cluster:   cfg.Cluster,
			Partition: cfg.Partition,
			MaxBytes:  standbyMaxBytes,
		},
	}
}

// Stats returns the progress of the copy.
func (t *StandbyTask[E, C]) Stats() StandbyStats {
	return StandbyStats{
		Partition: t.cfg.Partition,
		Folded:    t.folded.Load(),
		Behind:    t.behind.Load(),
		Following: t.following.Load(),
	}
}

// Run folds the journal until ctx is done, which is not an error, or until it fails.
func (t *StandbyTask[E, C]) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.core.OpenState(); err != nil {
		return err
	}
	for {
		if err := t.perform(ctx, t.core.Next(kafka.Moment{})); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("streams: standing by for partition %d of %s: %w", t.cfg.Partition,
				t.cfg.Journal, t.core.Failed(err, kafka.Moment{}))
		}
		if t.core.Following() && t.following.CompareAndSwap(false, true) && t.cfg.OnFollowing != nil {
			t.cfg.OnFollowing()
		}
	}
}

func (t *StandbyTask[E, C]) close() error {
	t.reading.Close()
	return t.core.Close()
}

func (t *StandbyTask[E, C]) perform(ctx context.Context, action Action) (err error) {
	if a, is := action.(ReadJournal); is {
		err = t.readJournal(ctx, a)
	} else {
		_, err = performRead(ctx, &t.reading, t.core, action)
	}
	t.folded.Store(t.core.FoldedOf())
	return err
}

func (t *StandbyTask[E, C]) readJournal(ctx context.Context, a ReadJournal) error {
	journal, err := t.reading.From(t.cfg.Journal, a.From)
	if err != nil {
		return err
	}
	var records []kafka.Record
	err = journal.Poll(ctx, restoreBatch, func(r kafka.Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		return err
	}
	p := t.cfg.Partition
	if err := t.core.ReadJournal(records, journal.Position(t.cfg.Journal, p)); err != nil {
		return err
	}
	t.behind.Store(journal.Behind(t.cfg.Journal, p))
	return nil
}

// standbyMaxBytes is small, because a standby is never urgent.
const standbyMaxBytes = 2 << 20

// StandbyStats is the progress of a standby's copy of a partition.
type StandbyStats struct {
	Partition int32
	Folded    int64 // next journal offset to fold
	Behind    int64 // unfolded journal offsets, as of the latest fetch
	Following bool  // folded up to the end that was known at the start
}

// Standby is a [StandbyTask] with any type of effects.
type Standby interface {
	Run(ctx context.Context) error
	Stats() StandbyStats
}
