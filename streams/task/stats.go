package task

import (
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/streams/store"
)

// TurnStats is the size of a turn that wrote something, and where its time went.
type TurnStats struct {
	Inputs      int // records of input topics
	Completions int
	Records     int // records written
	Decide      time.Duration
	Commit      time.Duration // of the Kafka transaction
	Settle      time.Duration // of the state's batch, and of starting effects
}

// Stats is how far a task has folded its journal, and the state of its timers.
type Stats struct {
	Partition int32
	From      int64 // offset at which the restore began
	At        int64 // offset of the next record to fold
	End       int64 // offset after the restore's last record
	Folded    int64 // journal offset up to which the state is folded
	Loading   bool  // From, At and End are offsets of the snapshot that is read, not of the journal
	Restored  bool  // the task takes turns
	// Needed is where a restore by this task may still begin to read. Before the task takes turns,
	// it needs everything.
	Needed NeededFrom
	// SnapshotFailures is the number of failed snapshots since the latest complete one.
	SnapshotFailures int
	Timers           store.TimerStats
	Inputs           []InputStats
}

// InputStats is how far a task is behind in one input.
type InputStats struct {
	Topic  string
	Behind int64 // records that no turn has taken, as of the latest fetch
}

// timerStatsEvery is the maximum age of TimerStats.
const timerStatsEvery = time.Second

// stats collects a task's statistics. It is safe for use by any goroutine.
type stats struct {
	restore  atomic.Pointer[restoreProgress]
	folded   atomic.Int64
	restored atomic.Bool
	needed   atomic.Pointer[NeededFrom]
	timers   atomic.Pointer[store.TimerStats]
	inputs   atomic.Pointer[[]*input]
	counted  time.Time // when the timers were counted, by the task's clock
}

// restoreProgress is the position of a restore: offsets of the journal, or of the snapshots.
type restoreProgress struct {
	from, at, end int64
	loading       bool
}

func (s *stats) noteRestore(p restoreProgress, restored bool) {
	s.restore.Store(&p)
	s.restored.Store(restored)
}

func (s *stats) noteNeeded(from NeededFrom) {
	if now := s.needed.Load(); now == nil || *now != from {
		s.needed.Store(&from)
	}
}

// count counts the timers, unless the counts are younger than timerStatsEvery.
func (s *stats) count(now time.Time, x *store.TimerIndex) {
	if since := now.Sub(s.counted); since >= 0 && since < timerStatsEvery {
		return
	}
	timers := x.Stats()
	s.timers.Store(&timers)
	s.counted = now
}

// Stats returns the task's statistics. It is safe for use by any goroutine.
func (t *Task[E, C]) Stats() Stats {
	s := Stats{
		Partition: t.cfg.Partition,
		Folded:    t.stats.folded.Load(),
		Restored:  t.stats.restored.Load(),

		SnapshotFailures: t.core.cfg.Snapshots.Rest.Failures(),
	}
	if r := t.stats.restore.Load(); r != nil {
		s.From, s.At, s.End, s.Loading = r.from, r.at, r.end, r.loading
	}
	if needed := t.stats.needed.Load(); needed != nil {
		s.Needed = *needed
	}
	if timers := t.stats.timers.Load(); timers != nil {
		s.Timers = *timers
	}
	if inputs := t.stats.inputs.Load(); inputs != nil {
		for _, in := range *inputs {
			s.Inputs = append(s.Inputs,
				InputStats{Topic: in.topic, Behind: in.lag()})
		}
	}
	return s
}
