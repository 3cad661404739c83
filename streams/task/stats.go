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
	Records     int // that were written
	Decide      time.Duration
	Commit      time.Duration // of the Kafka transaction
	Settle      time.Duration // of the state's batch, and of starting effects
}

// Stats is how far a task has folded its journal, and the state of its timers.
type Stats struct {
	Partition int32
	From      int64 // offset at which the restore began
	At        int64 // offset to fold next
	End       int64 // offset after the restore's last record
	Folded    int64 // offset of the journal up to which the state is
	Loading   bool  // the three are offsets of the snapshot that is read, not of the journal
	Restored  bool  // the task takes turns
	// Needed is what a restore may still read, by this task; before it takes turns, all.
	Needed NeededFrom
	// SnapshotFailures is how often a snapshot could not be written since the latest whole one.
	SnapshotFailures int
	Timers           store.TimerStats
	Inputs           []InputStats
}

// InputStats is how far a task is behind in one input.
type InputStats struct {
	Topic  string
	Behind int64 // records that no turn has taken, by the latest fetch
}

// timerStatsEvery is how old TimerStats may be.
const timerStatsEvery = time.Second

// stats collects a task's statistics. It may be read from any goroutine.
type stats struct {
	restore  atomic.Pointer[restoreProgress]
	folded   atomic.Int64
	restored atomic.Bool
	needed   atomic.Pointer[NeededFrom]
	timers   atomic.Pointer[store.TimerStats]
	inputs   atomic.Pointer[[]*input]
	counted  time.Time // when the timers were counted, by the task's clock
}

// restoreProgress is where a restore is: offsets of the journal, or of the snapshots.
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

// count counts the timers, unless that was done just now.
func (s *stats) count(now time.Time, x *store.TimerIndex) {
	if since := now.Sub(s.counted); since >= 0 && since < timerStatsEvery {
		return
	}
	timers := x.Stats()
	s.timers.Store(&timers)
	s.counted = now
}

// Stats returns the task's statistics. It may be called from any goroutine.
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
