package task

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// maxCatchingUp bounds the standbys that catch up at the same time, to leave CPU time for the
// tasks.
const maxCatchingUp = 2

type runningStandby struct {
	cancel context.CancelFunc
	ended  chan struct{}
	latest Standby // the current run, under Tasks.mu; nil between runs
}

// StandBy starts and stops standbys to match these partitions. If a partition still has a task, its
// standby starts when the task has stopped.
func (s *Tasks) StandBy(partitions []int32) {
	if s.NewStandby == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.standbys {
		if !slices.Contains(partitions, p) {
			s.endStandby(p)
		}
	}
	for _, p := range partitions {
		if s.standbys[p] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		r := &runningStandby{cancel: cancel, ended: make(chan struct{})}
		s.standbys[p] = r
		s.use(p, r.ended, func() { s.keepStandby(ctx, p, r) })
	}
}

func (s *Tasks) endStandby(p int32) {
	if r := s.standbys[p]; r != nil {
		r.cancel()
		delete(s.standbys, p)
	}
}

// Close stops all standbys and waits for them.
func (s *Tasks) Close() {
	s.mu.Lock()
	var ending []*runningStandby
	for p, r := range s.standbys {
		ending = append(ending, r)
		s.endStandby(p)
	}
	s.mu.Unlock()
	for _, r := range ending {
		<-r.ended
	}
}

func (s *Tasks) keepStandby(ctx context.Context, p int32, r *runningStandby) {
	began, restarts := time.Now(), NewRestarts(nil)
	steady := func() int64 { return time.Since(began).Milliseconds() }
	for ctx.Err() == nil {
		restarts.Began(steady())
		err := s.standOnce(ctx, p, r)
		if ctx.Err() != nil {
			return
		}
		restarts.Failed(steady())
		wait := time.Duration(restarts.Wait(steady(), true)) * time.Millisecond
		s.logger.Warn("a standby failed and is restarted: its partition would take longer to move here",
			"partition", p, "after", wait, "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// standOnce runs a standby once fewer than maxCatchingUp are catching up.
func (s *Tasks) standOnce(ctx context.Context, p int32, r *runningStandby) error {
	select {
	case s.catchUp <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	following := sync.OnceFunc(func() { <-s.catchUp })
	defer following()
	standby := s.NewStandby(p, following)
	s.note(func() { r.latest = standby })
	defer s.note(func() { r.latest = nil }) // its state may be gone
	return standby.Run(ctx)
}

// StandbyStats returns the statistics of the standbys, by partition.
func (s *Tasks) StandbyStats() []StandbyStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []StandbyStats
	for p, r := range s.standbys {
		all = append(all, r.stats(p))
	}
	slices.SortFunc(all, func(a, b StandbyStats) int { return cmp.Compare(a.Partition, b.Partition) })
	return all
}

func (r *runningStandby) stats(p int32) StandbyStats {
	if r.latest == nil {
		return StandbyStats{Partition: p}
	}
	return r.latest.Stats()
}

// Folded implements StandbyConfig.Folded for tasks and standbys.
func (s *Tasks) Folded() map[int32]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	folded := make(map[int32]int64)
	for p, r := range s.standbys {
		folded[p] = r.stats(p).Folded
	}
	for p, r := range s.running {
		folded[p] = 0
		if r.task != nil {
			folded[p] = r.task.Stats().Folded
		}
	}
	return folded
}

// Lag implements StandbyConfig.Lag.
func (s *Tasks) Lag(p int32) (offsets int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.standbys[p]; r != nil {
		stats := r.stats(p)
		return stats.Behind, stats.Following
	}
	return 0, false
}
