package streams

import (
	"sync/atomic"
	"time"
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

// TaskStats is how far a task has folded its journal, and the state of its timers.
type TaskStats struct {
	Partition int32
	From      int64 // offset at which the restore began
	At        int64 // offset to fold next
	End       int64 // offset after the restore's last record
	Restored  bool  // the task takes turns
	Timers    TimerStats
	Inputs    []InputStats
}

// InputStats is how far a task is behind in one input.
type InputStats struct {
	Topic  string
	Behind int64 // records that no turn has taken, by the latest fetch
}

// TimerStats counts groups of timers.
type TimerStats struct {
	Due            int   // groups that may have entries due
	Later          int   // groups whose next entry is not due yet
	HeldBack       int   // groups that may claim nothing now
	DueSinceMillis int64 // earliest due time of an entry of a due group; 0: unknown
}

// timerStatsEvery is how old TimerStats may be.
const timerStatsEvery = time.Second

// stats collects a task's statistics. It may be read from any goroutine.
type stats struct {
	from, at, end atomic.Int64
	restored      atomic.Bool
	timers        atomic.Pointer[TimerStats]
	inputs        atomic.Pointer[[]*input]
	counted       time.Time // when the timers were counted, by the task's clock
}

func (s *stats) noteRestore(r restore, restored bool) {
	s.from.Store(r.from)
	s.at.Store(min(r.at, r.to))
	s.end.Store(r.to)
	s.restored.Store(restored)
}

// count counts the timers, unless that was done just now.
func (s *stats) count(now time.Time, x *TimerIndex) {
	if since := now.Sub(s.counted); since >= 0 && since < timerStatsEvery {
		return
	}
	timers := x.stats()
	s.timers.Store(&timers)
	s.counted = now
}

// Stats returns the task's statistics. It may be called from any goroutine.
func (t *Task[E, C]) Stats() TaskStats {
	s := TaskStats{
		Partition: t.cfg.Partition,
		From:      t.stats.from.Load(),
		At:        t.stats.at.Load(),
		End:       t.stats.end.Load(),
		Restored:  t.stats.restored.Load(),
	}
	if timers := t.stats.timers.Load(); timers != nil {
		s.Timers = *timers
	}
	if inputs := t.stats.inputs.Load(); inputs != nil {
		for _, in := range *inputs {
			s.Inputs = append(s.Inputs,
				InputStats{Topic: in.topic, Behind: in.behind.Load() + in.waiting.Load()})
		}
	}
	return s
}
