package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Config configures a task. E is the type of its effects and C the type of their completions.
type Config[E, C any] struct {
	CoreConfig[E, C]
	Cluster kafka.Cluster
	Group   string // for the transactional id and the input positions
	// Perform starts an effect without waiting for it.
	Perform func(E)
	// Completions is the capacity for completions. The handler must not have more effects in flight,
	// so that Complete never blocks.
	Completions int
	// Owned reports whether the group recently acknowledged that this process owns the partition. The
	// default is always.
	Owned func() bool
	// Allowed, if set, is called after the task has taken over the partition. An error stops the task.
	// So a caller that forbids the task and then takes over the partition has stopped it permanently.
	Allowed func(context.Context) error
	// OnTurn, if set, is called for each turn that wrote something.
	OnTurn func(TurnStats)
	Now    func() time.Time
}

// longestWait bounds a sleep so that jumps of the wall clock are noticed.
const longestWait = time.Second

// Task owns one partition number. It performs the actions of its [Core] on Kafka.
type Task[E, C any] struct {
	cfg         Config[E, C]
	core        *Core[E, C]
	tx          *kafka.Transactor
	reading     kafka.PartitionReader
	completions chan C
	wakeUps     chan struct{}
	inputs      []*input
	done        chan struct{}
	created     time.Time // the zero of its steady clock
	fenced      time.Time
	resume      map[string]int64 // where the inputs continue
	turn        TurnStats
	stats       stats
}

// NewTask returns a task. Call Run to start it.
func NewTask[E, C any](cfg Config[E, C]) *Task[E, C] {
	return &Task[E, C]{
		cfg:         cfg,
		core:        NewCore(cfg.CoreConfig),
		reading:     kafka.PartitionReader{Cluster: cfg.Cluster, Partition: cfg.Partition},
		completions: make(chan C, cfg.Completions),
		wakeUps:     make(chan struct{}, 1),
		done:        make(chan struct{}),
		created:     cfg.Now(),
	}
}

// Complete passes the completion of one effect to the task, or drops it if the task has stopped. It
// is safe for concurrent use.
func (t *Task[E, C]) Complete(c C) {
	select {
	case t.completions <- c:
		t.wake()
	case <-t.done:
	}
}

func (t *Task[E, C]) wake() {
	select {
	case t.wakeUps <- struct{}{}:
	default:
	}
}

func (t *Task[E, C]) now() kafka.Moment { return kafka.MomentOf(t.cfg.Now(), t.created) }

// Run takes over the partition, restores its state and works until it fails, stop is closed or ctx
// is done. If stop is closed, it still writes the completions of running effects. If ctx is done,
// it drops everything immediately.
func (t *Task[E, C]) Run(ctx context.Context, stop <-chan struct{}) (err error) {
	defer close(t.done)
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.start(ctx, stop); err != nil || !t.core.Working() {
		return err
	}
	if err := t.work(ctx, stop); err != nil {
		return t.core.Failed(err, t.now())
	}
	return nil
}

func (t *Task[E, C]) close() error {
	t.reading.Close()
	err := t.core.Close()
	if t.tx != nil {
		t.tx.Close()
	}
	return err
}

// start does everything before the first turn. Closing stop cancels it, because there is nothing to
// drain.
func (t *Task[E, C]) start(ctx context.Context, stop <-chan struct{}) error {
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-stop:
			cancel()
		case <-starting.Done():
		}
	}()
	for !t.core.Working() {
		err := t.perform(starting, t.core.Next(t.now()))
		t.stats.noteRestore(t.core.restoring(), t.core.Working())
		t.stats.folded.Store(t.core.FoldedOf())
		if err == nil {
			continue
		}
		err = t.core.Failed(err, t.now())
		select {
		case <-stop:
			return nil
		default:
			return fmt.Errorf("streams: starting partition %d of %s: %w", t.cfg.Partition, t.cfg.Journal,
				err)
		}
	}
	t.cfg.Logger.Info("a partition was taken over", "partition", t.cfg.Partition,
		"secondsToFence", t.fenced.Sub(t.created).Seconds(),
		"secondsToRestore", t.cfg.Now().Sub(t.fenced).Seconds(),
		"journalOffset", t.core.Folded())
	return nil
}

func (t *Task[E, C]) work(ctx context.Context, stop <-chan struct{}) error {
	reading, stopReading := context.WithCancelCause(ctx)
	readers, err := t.startInputs(reading, stopReading)
	defer readers.Wait()
	defer stopReading(nil)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for err == nil {
		action := t.core.Next(t.now())
		a, waits := action.(Await)
		if !waits {
			if (action == Done{}) {
				return nil
			}
			err = t.perform(ctx, action)
			continue
		}
		failed := reading.Done()
		if !a.Inputs {
			failed = nil // draining: the readers were cancelled
		}
		timer.Reset(t.waitFor(a))
		timed := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			stop = nil
			t.core.Drain(t.now())
			stopReading(nil)
			continue
		case <-failed:
			return context.Cause(reading)
		case <-timer.C:
			timed = true
		case <-t.wakeUps:
		}
		t.collect(a)
		if timed || t.core.Due(t.now()) {
			err = t.decide()
		}
	}
	return err
}

func (t *Task[E, C]) waitFor(a Await) time.Duration {
	now := t.now()
	wait := min(longestWait.Milliseconds(), a.WallMillis-now.WallMillis,
		a.SteadyMillis-now.SteadyMillis)
	return time.Duration(max(wait, 0)) * time.Millisecond
}

func (t *Task[E, C]) collect(a Await) {
	for i, in := range t.inputs {
		if !a.Inputs || t.core.Waiting(i) >= TurnInputs {
			continue
		}
		t.core.Arrived(i, in.take())
	}
	for range cap(t.completions) {
		select {
		case c := <-t.completions:
			t.core.Completed(c)
		default:
			return
		}
	}
}

func (t *Task[E, C]) perform(ctx context.Context, action Action) error {
	switch a := action.(type) {
	case TakeOver:
		return t.takeOver(ctx)
	case LocateJournal, LocateSnapshots, ReadSnapshots, ReadJournal:
		_, err := performRead(ctx, &t.reading, t.core, action)
		return err
	case Commit:
		return t.commit(ctx, a)
	case Apply:
		return t.apply()
	case LocateInputs:
		return t.locateInputs(ctx)
	case Start:
		return t.takeFirstTurn()
	case Await, Done: // handled by work
	}
	return nil
}

func (t *Task[E, C]) takeOver(ctx context.Context) (err error) {
	t.tx, err = t.cfg.Cluster.NewTransactor(ctx, t.cfg.Group, t.cfg.Partition)
	if err != nil {
		return err
	}
	t.fenced, t.reading.Ends = t.cfg.Now(), t.tx.Ends()
	if t.cfg.Allowed != nil {
		if err := t.cfg.Allowed(ctx); err != nil {
			return err
		}
	}
	return t.core.OpenState()
}

// commit commits a transaction. It completes even if the task is being stopped.
func (t *Task[E, C]) commit(ctx context.Context, a Commit) error {
	if t.core.Working() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 2*kafka.TransactionTimeout)
		defer cancel()
	}
	began := t.cfg.Now()
	positions := make(kafka.Offsets)
	for topic, at := range a.Positions {
		positions[topic] = map[int32]int64{t.cfg.Partition: at}
	}
	ends, err := t.tx.Commit(ctx, a.Records, positions, t.cfg.Journal)
	t.turn.Records, t.turn.Commit = len(a.Records), t.cfg.Now().Sub(began)
	if err != nil {
		return err
	}
	return t.core.Committed(ends, t.now())
}

func (t *Task[E, C]) takeFirstTurn() error {
	t.reading.Close()
	began := t.cfg.Now()
	err := t.core.Start(t.now())
	t.turn = TurnStats{Decide: t.cfg.Now().Sub(began)}
	return err
}

func (t *Task[E, C]) decide() error {
	began := t.cfg.Now()
	size, err := t.core.Decide(t.now())
	t.turn = TurnStats{
		Inputs:      size.Inputs,
		Completions: size.Completions,
		Decide:      t.cfg.Now().Sub(began),
	}
	for i, in := range t.inputs {
		in.inCore.Store(int64(t.core.Waiting(i)))
	}
	return err
}

func (t *Task[E, C]) apply() error {
	began := t.cfg.Now()
	effects, err := t.core.Apply(t.now(), t.cfg.Owned == nil || t.cfg.Owned())
	for _, e := range effects {
		t.cfg.Perform(e)
	}
	t.stats.count(t.cfg.Now(), t.core.Timers())
	t.stats.folded.Store(t.core.FoldedOf())
	t.stats.noteNeeded(t.core.NeededFrom())
	if err == nil && t.turn.Records > 0 && t.cfg.OnTurn != nil {
		t.turn.Settle = t.cfg.Now().Sub(began)
		t.cfg.OnTurn(t.turn)
	}
	return err
}

func (t *Task[E, C]) locateInputs(ctx context.Context) error {
	group, err := t.tx.Positions(ctx, t.cfg.Inputs)
	if err != nil {
		return err
	}
	asking := t.tx.Ends()
	ends := make(map[string]int64)
	for _, topic := range t.cfg.Inputs {
		all, err := asking.Of(ctx, topic)
		if err != nil {
			return err
		}
		ends[topic] = all[t.cfg.Partition]
	}
	t.resume, err = t.core.LocatedInputs(group, ends)
	return err
}

func (t *Task[E, C]) startInputs(
	ctx context.Context, fail context.CancelCauseFunc,
) (*sync.WaitGroup, error) {
	readers := new(sync.WaitGroup)
	for _, topic := range t.cfg.Inputs {
		r, err := t.cfg.Cluster.NewReader(kafka.ReaderConfig{
			From:        kafka.Offsets{topic: {t.cfg.Partition: t.resume[topic]}},
			SkipExpired: true,
		})
		if err != nil {
			return readers, err
		}
		in := newInput(topic)
		t.inputs = append(t.inputs, in)
		readers.Go(func() {
			defer r.Close()
			t.receive(ctx, r, in, fail)
		})
	}
	t.stats.inputs.Store(&t.inputs)
	return readers, nil
}

func (t *Task[E, C]) receive(
	ctx context.Context, r *kafka.Reader, in *input, fail context.CancelCauseFunc,
) {
	for {
		var records []kafka.Record
		err := r.Poll(ctx, TurnInputs, func(rec kafka.Record) error {
			records = append(records, rec)
			return nil
		})
		if err != nil {
			fail(err)
			return
		}
		in.behind.Store(r.Behind(in.topic, t.cfg.Partition))
		if len(records) == 0 {
			continue
		}
		if !in.add(ctx, records) {
			return
		}
		t.wake()
	}
}
