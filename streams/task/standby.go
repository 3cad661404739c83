package task

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// StandbyCore folds the journal of a partition that another process owns, by the same rules as a
// [Core] and into the same store. If this process is assigned the partition later, the core finds
// its state nearly complete, and checks it against the journal like any other. A standby calls only
// Fold and Flush of its handler.
//
// Its owner calls Open, and then performs one Next action after another.
type StandbyCore[E, C any] struct {
	core      *Core[E, C]
	following bool
}

// NewStandbyCore returns a standby. It opens nothing yet.
func NewStandbyCore[E, C any](cfg CoreConfig[E, C]) *StandbyCore[E, C] {
	return &StandbyCore[E, C]{core: NewCore(cfg)}
}

// Open opens the state. No core may have it open.
func (s *StandbyCore[E, C]) Open() error { return s.core.TookOver() }

// Next returns the next action. A ReadJournal up to math.MaxInt64 reads all future records as well.
func (s *StandbyCore[E, C]) Next() Action { return s.core.Next(kafka.Moment{}) }

// LocatedJournal is [Core.LocatedJournal].
func (s *StandbyCore[E, C]) LocatedJournal(start, known int64) error {
	err := s.core.LocatedJournal(start, known)
	return errors.Join(err, s.follow())
}

// LocatedSnapshots is [Core.LocatedSnapshots].
func (s *StandbyCore[E, C]) LocatedSnapshots(start, end int64) error {
	return errors.Join(s.core.LocatedSnapshots(start, end), s.follow())
}

// ReadSnapshots is [Core.ReadSnapshots].
func (s *StandbyCore[E, C]) ReadSnapshots(records []kafka.Record, next int64) error {
	return errors.Join(s.core.ReadSnapshots(records, next), s.follow())
}

// ReadJournal is [Core.ReadJournal].
func (s *StandbyCore[E, C]) ReadJournal(records []kafka.Record, next int64) error {
	if err := s.core.ReadJournal(records, next); err != nil {
		return err
	}
	if s.following {
		return s.core.commitRestored()
	}
	return s.follow()
}

// follow continues beyond the end that was known at the start.
func (s *StandbyCore[E, C]) follow() error {
	if s.core.stage != provingEnd {
		return nil
	}
	s.following = true
	s.core.stage, s.core.restore.to = folding, math.MaxInt64
	return s.core.commitRestored()
}

// Following reports whether the journal is folded up to the end that was known at the start.
func (s *StandbyCore[E, C]) Following() bool { return s.following }

// Folded is [Core.FoldedOf].
func (s *StandbyCore[E, C]) Folded() int64 { return s.core.FoldedOf() }

// Read returns the offset of the next journal record to read.
func (s *StandbyCore[E, C]) Read() int64 { return s.core.restore.at }

// Store is [Core.Store].
func (s *StandbyCore[E, C]) Store() *store.Store { return s.core.Store() }

// Failed is [Core.Failed].
func (s *StandbyCore[E, C]) Failed(err error) error { return s.core.Failed(err, kafka.Moment{}) }

// Close drops uncommitted changes and closes the state.
func (s *StandbyCore[E, C]) Close() error { return s.core.Close() }

// StandbyTaskConfig configures the standby of one partition.
type StandbyTaskConfig[E, C any] struct {
	CoreConfig[E, C]
	Cluster kafka.Cluster
	// OnFollowing, if set, is called when Following becomes true.
	OnFollowing func()
}

// StandbyTask performs the actions of a [StandbyCore] on Kafka.
type StandbyTask[E, C any] struct {
	cfg     StandbyTaskConfig[E, C]
	core    *StandbyCore[E, C]
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
	if err := t.core.Open(); err != nil {
		return err
	}
	for {
		if err := t.perform(ctx, t.core.Next()); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("streams: standing by for partition %d of %s: %w", t.cfg.Partition,
				t.cfg.Journal, t.core.Failed(err))
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

func (t *StandbyTask[E, C]) perform(ctx context.Context, action Action) error {
	if a, is := action.(ReadJournal); is {
		return t.readJournal(ctx, a)
	}
	_, err := performRead(ctx, &t.reading, t.cfg.Journal, t.cfg.Snapshots.Topic, t.core, action)
	t.folded.Store(t.core.Folded())
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
	t.folded.Store(t.core.Folded())
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
