package task

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// Tasks runs one task per assigned partition and restarts those that fail. It also runs standbys
// (standbys.go). Its methods are callbacks of a [kafka.Membership].
//
// The task and the standby of a partition share a folder, which each opens after the previous user
// has closed it.
type Tasks struct {
	// NewStandby returns a standby that calls following once it has caught up. If nil, there are none.
	NewStandby func(partition int32, following func()) Standby
	// Owned reports whether the group recently acknowledged that this process owns its partitions. The
	// default is always. A failed task restarts only while it does.
	Owned func() bool
	// OnRestart, if set, is called each time a task has failed and will be restarted.
	OnRestart func()

	newTask func(partition int32) Runner
	logger  *slog.Logger
	catchUp chan struct{}

	mu       sync.Mutex
	running  map[int32]*runningTask
	standbys map[int32]*runningStandby
	folders  map[int32]<-chan struct{} // closed when the folder's latest user has stopped
}

// Runner is a [Task] with any type of effects.
type Runner interface {
	Run(ctx context.Context, stop <-chan struct{}) error
	Stats() Stats
}

// Check returns an error if a task has failed and has since run for less than healedAfter.
func (s *Tasks) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, r := range s.running {
		if r.failed != nil && time.Since(r.began) < healedAfter {
			return fmt.Errorf("streams: partition %d keeps failing, most recently with: %w", p,
				r.failed)
		}
	}
	return nil
}

// Stats returns the statistics of the tasks, by partition.
func (s *Tasks) Stats() []Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Stats
	for _, r := range s.running {
		if r.task != nil {
			all = append(all, r.task.Stats())
		}
	}
	slices.SortFunc(all, func(a, b Stats) int { return cmp.Compare(a.Partition, b.Partition) })
	return all
}

type runningTask struct {
	stop    chan struct{} // closed to drain and stop
	abandon context.CancelFunc
	ended   chan struct{}
	once    sync.Once

	// The latest run, under Tasks.mu.
	task   Runner
	began  time.Time
	failed error // the previous run's error
}

// NewTasks returns an empty Tasks, which creates tasks with newTask.
func NewTasks(newTask func(partition int32) Runner, logger *slog.Logger) *Tasks {
	return &Tasks{
		newTask:  newTask,
		logger:   logger,
		catchUp:  make(chan struct{}, maxCatchingUp),
		running:  make(map[int32]*runningTask),
		standbys: make(map[int32]*runningStandby),
		folders:  make(map[int32]<-chan struct{}),
	}
}

// use runs a task or standby as the next user of a partition's folder: when the former user has
// ended, and until it closes ended.
func (s *Tasks) use(p int32, ended chan struct{}, run func()) {
	former := s.folders[p]
	s.folders[p] = ended
	go func() {
		defer close(ended)
		if former != nil {
			<-former
		}
		run()
	}()
}

// Assigned starts the tasks of partitions that do not have one.
func (s *Tasks) Assigned(partitions []int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range partitions {
		if s.running[p] != nil {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		r := &runningTask{stop: make(chan struct{}), abandon: cancel, ended: make(chan struct{})}
		s.running[p] = r
		s.endStandby(p)
		s.use(p, r.ended, func() { s.keepRunning(ctx, p, r) })
	}
}

// Revoked drains the tasks of partitions and waits until they have stopped.
func (s *Tasks) Revoked(partitions []int32) {
	s.end(partitions, func(r *runningTask) { r.once.Do(func() { close(r.stop) }) })
}

// Lost cancels the tasks of partitions immediately.
func (s *Tasks) Lost(partitions []int32) {
	s.end(partitions, func(r *runningTask) { r.abandon() })
}

func (s *Tasks) end(partitions []int32, how func(*runningTask)) {
	s.mu.Lock()
	var ending []*runningTask
	for _, p := range partitions {
		if r := s.running[p]; r != nil {
			delete(s.running, p)
			how(r)
			ending = append(ending, r)
		}
	}
	s.mu.Unlock()
	for _, r := range ending {
		<-r.ended
		r.abandon()
	}
}

// healedAfter is how long a task must run after a failure to be healthy again.
const healedAfter = 15 * time.Second

func (s *Tasks) keepRunning(ctx context.Context, p int32, r *runningTask) {
	assigned, restarts := time.Now(), NewRestarts(nil)
	steady := func() int64 { return time.Since(assigned).Milliseconds() }
	for {
		task := s.newTask(p)
		s.note(func() { r.began, r.task = time.Now(), task })
		restarts.Began(steady())
		err := task.Run(ctx, r.stop)
		if err == nil || ctx.Err() != nil {
			return
		}
		restarts.Failed(steady())
		s.note(func() { r.began, r.failed = time.Now(), err })
		if s.OnRestart != nil {
			s.OnRestart()
		}
		wait := restarts.Wait(steady(), true)
		s.logger.Error("a task failed and is restarted", "partition", p,
			"after", time.Duration(wait)*time.Millisecond, "error", err)
		for ; wait > 0; wait = restarts.Wait(steady(), s.Owned == nil || s.Owned()) {
			select {
			case <-ctx.Done():
				return
			case <-r.stop:
				return
			case <-time.After(time.Duration(wait) * time.Millisecond):
			}
		}
	}
}

func (s *Tasks) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

const (
	firstRestart = 100 * time.Millisecond
	lastRestart  = 10 * time.Second
	steadyAfter  = time.Minute // after a longer run, a task restarts with the shortest wait
)

// Restarts decides when a failed task runs again: after a wait that doubles with each failure, and
// only while the group confirms that this process owns the partition. Otherwise the task would take
// over the partition from its new owner, which may be about to act on its state.
type Restarts struct {
	waits *retry.Backoff
	began int64 // start of the latest run, on the steady clock
	at    int64 // earliest next run, on the steady clock
	wait  int64
}

// NewRestarts returns the restarts of one task. jitter is as in retry.Policy.
func NewRestarts(jitter func() float64) *Restarts {
	return &Restarts{
		waits: retry.Policy{First: firstRestart, Last: lastRestart, Jitter: jitter}.Backoff(),
	}
}

// Began notes the start of a run.
func (r *Restarts) Began(steadyMillis int64) { r.began = steadyMillis }

// Failed notes the end of a run.
func (r *Restarts) Failed(steadyMillis int64) {
	if steadyMillis-r.began > steadyAfter.Milliseconds() {
		r.waits.Reset()
	}
	r.wait = r.waits.Next().Milliseconds()
	r.at = steadyMillis + r.wait
}

// Wait returns how long to wait before the next call, or 0 if the task may run now.
func (r *Restarts) Wait(steadyMillis int64, ours bool) (millis int64) {
	if steadyMillis < r.at {
		return r.at - steadyMillis
	}
	if !ours {
		r.at = steadyMillis + r.wait
		return r.wait
	}
	return 0
}
