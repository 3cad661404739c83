package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// TaskConfig says what a task works on.
type TaskConfig struct {
	Cluster   Cluster
	Group     string // of its transactional id and input positions
	Partition int32
	Journal   string   // the topic that its state is folded from
	Inputs    []string // topics, in the order in which turns take them
	Store     StoreConfig
	// LocalCapacity bounds what Submit can hold. Whoever starts effects keeps no
	// more of them under way, so that Submit never waits.
	LocalCapacity int
	// DrainTimeout bounds how long a stopping task waits for outcomes.
	DrainTimeout time.Duration
	// PositionsEvery is after how long without a transaction a task writes its
	// input positions nevertheless, so that neither they nor its transactional id
	// expire; 0: a day.
	PositionsEvery time.Duration
	NewHandler     func(*Core) Handler
	// OnTurn is told of each turn that wrote something, if it is set.
	OnTurn func(TurnStats)
	Now    func() time.Time
	Logger *slog.Logger
}

const (
	// TurnInputs bounds how many records of one topic, and how many outcomes, a
	// turn takes.
	TurnInputs = 1024
	// TurnFacts bounds how many records of the journal a turn may write: Start
	// reads that many again.
	TurnFacts             = 8 * TurnInputs
	defaultPositionsEvery = 24 * time.Hour
	// longestWait bounds a sleep, so that a jump of the wall clock is noticed.
	longestWait = time.Second
)

// Task owns one partition number, from its start until it is stopped or fails.
type Task struct {
	cfg    TaskConfig
	core   *Core
	tx     *transactor
	locals chan any
	kick   chan struct{}
	inputs []*input
	done   chan struct{}
	wrote  time.Time // when the last transaction was committed, or work began
	wakeAt int64     // when the handler wants to be called again, in Unix milliseconds

	stats stats
}

// input is one topic that the task reads: a goroutine fills arrivals, the task
// takes from pending.
type input struct {
	topic    string
	arrivals chan []Record
	pending  []Record

	behind  atomic.Int64 // offsets that are not fetched yet
	waiting atomic.Int64 // of pending
}

// NewTask makes a task; Run works it.
func NewTask(cfg TaskConfig) *Task {
	return &Task{
		cfg:    cfg,
		locals: make(chan any, cfg.LocalCapacity),
		kick:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
}

// Submit gives the task an outcome. It may be called from any goroutine, for
// each effect once. What comes after the task's end is dropped.
func (t *Task) Submit(outcome any) {
	select {
	case t.locals <- outcome:
		t.wake()
	case <-t.done:
	}
}

func (t *Task) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// Run takes the partition over, restores its state and works until stop is
// closed (then it drains: outcomes under way are still written) or ctx ends
// (then it drops everything at once), or until it fails.
func (t *Task) Run(ctx context.Context, stop <-chan struct{}) (err error) {
	defer close(t.done)
	starting, started := untilStopped(ctx, stop)
	defer started()
	began := t.cfg.Now()
	t.tx, err = t.cfg.Cluster.newTransactor(starting, t.cfg.Group, t.cfg.Partition)
	if err != nil {
		return unlessStopped(stop, err)
	}
	defer t.tx.close()
	fenced := t.cfg.Now()
	t.core, err = OpenCore(CoreConfig{
		Journal:    t.cfg.Journal,
		Partition:  t.cfg.Partition,
		Inputs:     t.cfg.Inputs,
		Store:      t.cfg.Store,
		NewHandler: t.cfg.NewHandler,
		Submit:     t.Submit,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.core.Close()) }()
	if err := t.start(starting); err != nil {
		return unlessStopped(stop, err)
	}
	started()
	t.wrote = t.cfg.Now()
	readers, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	finished, err := t.startInputs(readers, cancel)
	if err != nil {
		return err
	}
	defer finished()
	defer cancel(nil)
	t.cfg.Logger.Info("a partition was taken over", "partition", t.cfg.Partition,
		"secondsToFence", fenced.Sub(began).Seconds(), "secondsToRestore",
		t.cfg.Now().Sub(fenced).Seconds(),
		"journalOffset", t.core.Next())
	return t.work(ctx, readers, cancel, stop)
}

// untilStopped is a context that a stop ends too: a task that is being restored
// has nothing to drain, and its group waits for it.
func untilStopped(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// unlessStopped is the error of a start, which is none when a stop broke it off.
func unlessStopped(stop <-chan struct{}, err error) error {
	select {
	case <-stop:
		return nil
	default:
		return err
	}
}

// start restores the state and takes the first turn.
func (t *Task) start(ctx context.Context) error {
	latest, err := t.restore(ctx)
	if err != nil {
		return err
	}
	turn, err := t.core.Ready(t.cfg.Now().UnixMilli(), latest)
	if err != nil {
		return err
	}
	t.stats.restored.Store(true)
	return t.settle(ctx, turn)
}

// startInputs opens a reader for each input topic. The returned function waits
// for their end.
func (t *Task) startInputs(
	ctx context.Context, fail context.CancelCauseFunc,
) (finished func(), err error) {
	positions, err := t.resume(ctx)
	if err != nil {
		return nil, err
	}
	ended := make(chan struct{}, len(t.cfg.Inputs))
	for _, topic := range t.cfg.Inputs {
		r, err := t.cfg.Cluster.NewReader(ReaderConfig{
			From:        Offsets{topic: {t.cfg.Partition: positions[topic]}},
			SkipExpired: true,
		})
		if err != nil {
			return nil, err
		}
		in := &input{topic: topic, arrivals: make(chan []Record, 1)}
		t.inputs = append(t.inputs, in)
		go func() {
			defer func() { r.Close(); ended <- struct{}{} }()
			t.read(ctx, r, in, fail)
		}()
	}
	t.stats.inputs.Store(&t.inputs)
	return func() {
		for range t.inputs {
			<-ended
		}
	}, nil
}

// resume says where the inputs go on.
func (t *Task) resume(ctx context.Context) (map[string]int64, error) {
	group, err := t.tx.positions(ctx, t.cfg.Inputs)
	if err != nil {
		return nil, err
	}
	asking := t.tx.ends()
	ends := make(map[string]int64)
	for _, topic := range t.cfg.Inputs {
		all, err := asking.Of(ctx, topic)
		if err != nil {
			return nil, err
		}
		ends[topic] = all[t.cfg.Partition]
	}
	from, err := t.core.Resume(group, ends)
	for topic, at := range from {
		if end := ends[topic]; at == end && group[topic] > end {
			t.cfg.Logger.Warn("an input ends before what was taken of it and goes on at its end: it has "+
				"lost records", "topic", topic, "partition", t.cfg.Partition, "taken", group[topic], "end", end)
		}
	}
	return from, err
}

func (t *Task) read(ctx context.Context, r *Reader, in *input, fail context.CancelCauseFunc) {
	for {
		var records []Record
		err := r.Poll(ctx, TurnInputs, func(rec Record) error {
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
		select {
		case in.arrivals <- records:
			t.wake()
		case <-ctx.Done():
			return
		}
	}
}

// work takes turns until the task is to end.
func (t *Task) work(
	ctx, readers context.Context, stopReaders context.CancelCauseFunc,
	stop <-chan struct{},
) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var deadline <-chan time.Time
	for {
		turn := t.newTurn()
		if deadline == nil {
			t.gatherInputs(turn)
		}
		t.gatherLocals(turn)
		if err := t.take(ctx, turn); err != nil {
			return err
		}
		if deadline != nil && !t.core.handler.Busy() {
			return nil
		}
		timer.Reset(t.waitFor(deadline != nil))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stop:
			stop = nil
			t.core.handler.Drain()
			stopReaders(nil)
			drain := time.NewTimer(t.cfg.DrainTimeout)
			defer drain.Stop()
			deadline = drain.C
		case <-deadline:
			return nil
		case <-t.failed(readers, deadline != nil):
			return context.Cause(readers)
		case <-timer.C:
		case <-t.kick:
		}
	}
}

// failed is closed when a reader has failed. While draining, readers are ended
// by us.
func (t *Task) failed(readers context.Context, draining bool) <-chan struct{} {
	if draining {
		return nil
	}
	return readers.Done()
}

// waitFor is how long to sleep when nothing comes in. The wall clock is read
// once here for the due time; the sleep itself is monotonic.
func (t *Task) waitFor(draining bool) time.Duration {
	for _, in := range t.inputs {
		if len(in.pending) > 0 && !draining {
			return 0
		}
	}
	now := t.cfg.Now().UnixMilli()
	if draining || t.wakeAt > now+longestWait.Milliseconds() {
		return longestWait
	}
	return time.Duration(max(t.wakeAt-now, 0)) * time.Millisecond
}

func (t *Task) newTurn() *Turn {
	turn := t.core.Begin(t.cfg.Now().UnixMilli())
	turn.Inputs = make([][]Record, len(t.inputs))
	if t.cfg.Now().Sub(t.wrote) >= cmp.Or(t.cfg.PositionsEvery, defaultPositionsEvery) {
		turn.KeepPositions()
	}
	return turn
}

func (t *Task) gatherInputs(turn *Turn) {
	for i, in := range t.inputs {
		if len(in.pending) < TurnInputs {
			select {
			case records := <-in.arrivals:
				in.pending = append(in.pending, records...)
			default:
			}
		}
		n := min(len(in.pending), TurnInputs)
		turn.Inputs[i] = in.pending[:n:n]
	}
}

func (t *Task) gatherLocals(turn *Turn) {
	for len(turn.Locals) < TurnInputs {
		select {
		case outcome := <-t.locals:
			turn.Locals = append(turn.Locals, outcome)
		default:
			return
		}
	}
	t.wake() // there may be more
}

// take lets the handler decide on a turn and settles it. What the handler left
// of the inputs stays for the next turn.
func (t *Task) take(ctx context.Context, turn *Turn) error {
	began := time.Now()
	if err := t.core.Decide(turn); err != nil {
		return err
	}
	turn.stats = TurnStats{Locals: len(turn.Locals), Decide: time.Since(began)}
	for i, in := range t.inputs {
		if n := len(turn.Inputs[i]); n > 0 {
			turn.stats.Inputs += n
			in.pending = in.pending[n:]
		}
		in.waiting.Store(int64(len(in.pending)))
	}
	return t.settle(ctx, turn)
}

// settle commits a turn: Kafka, then Pebble, then effects. A commit that has
// begun is brought to its end even when the task is being stopped.
func (t *Task) settle(ctx context.Context, turn *Turn) error {
	var next int64
	began := time.Now()
	if len(turn.out) > 0 {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*transactionTimeout)
		defer cancel()
		var err error
		if next, err = t.commit(ctx, turn); err != nil {
			turn.Batch.Discard()
			return err
		}
		t.wrote = t.cfg.Now()
	}
	committed := time.Now()
	wakeAt, err := t.core.Settle(turn, next, t.cfg.Now().UnixMilli())
	t.wakeAt = wakeAt
	t.stats.count(t.cfg.Now(), t.core.Timers())
	if err == nil && len(turn.out) > 0 && t.cfg.OnTurn != nil {
		turn.stats.Records = len(turn.out)
		turn.stats.Commit, turn.stats.Settle = committed.Sub(began), time.Since(committed)
		t.cfg.OnTurn(turn.stats)
	}
	return err
}

// commit answers with the offset behind the turn's records in the journal, 0
// when it had none there.
func (t *Task) commit(ctx context.Context, turn *Turn) (next int64, err error) {
	facts := 0
	for _, r := range turn.out {
		if r.Topic == t.cfg.Journal {
			facts++
		}
	}
	if facts > TurnFacts {
		return 0, fmt.Errorf("streams: a turn wrote %d records to the journal, more than the %d that a "+
			"start reads again", facts, TurnFacts)
	}
	positions := make(Offsets)
	for topic, at := range turn.Positions() {
		positions[topic] = map[int32]int64{t.cfg.Partition: at}
	}
	return t.tx.commit(ctx, turn.out, positions, t.cfg.Journal)
}
