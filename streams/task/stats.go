package task

import (
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/streams/store"
)

// TurnStats is the size and timing of a turn that wrote something.
type TurnStats struct {
	Inputs      int
	Completions int
	Records     int
	Decide      time.Duration
	Commit      time.Duration // the Kafka transaction
	Settle      time.Duration // the state's batch, and starting effects
}

// Stats is how far a task has folded its journal, and the state of its timers.
type Stats struct {
	Partition int32
	From      int64 // where the restore began
	At        int64 // the next offset of the restore
	End       int64 // the end of the restore
	Folded    int64 // the next journal offset to fold
	Loading   bool  // From, At and End are offsets of a snapshot, not of the journal
	Restored  bool
	// Needed is where a restore by this task may still start reading.
	Needed NeededFrom
	// SnapshotFailures is how many snapshots failed since the latest complete one.
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

// stats is safe for concurrent use.
type stats struct {
	restore  atomic.Pointer[restoreProgress]
	folded   atomic.Int64
	restored atomic.Bool
	needed   atomic.Pointer[NeededFrom]
	timers   atomic.Pointer[store.TimerStats]
	inputs   atomic.Pointer[[]*input]
	counted  time.Time // when the timers were last counted
}

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

func (s *stats) count(now time.Time, x *store.TimerIndex) {
	if since := now.Sub(s.counted); since >= 0 && since < timerStatsEvery {
		return
	}
	timers := x.Stats()
	s.timers.Store(&timers)
	s.counted = now
}

// Stats returns the task's statistics. It is safe for concurrent use.
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
