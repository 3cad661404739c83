package mailer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	commitMax   = 10 * time.Second
	commitAgain = 200 * time.Millisecond
	readBytes   = 1 << 20
)

// round works on the assigned partitions from their committed positions until the assignment
// changes.
type round struct {
	*Mailer
	reading context.Context // cancelled when no more orders may be taken
	working context.Context // cancelled drainMax later
	cancel  context.CancelCauseFunc
	abandon context.CancelFunc
	ended   chan struct{}
	window  chan struct{} // one element per order that no position has passed
	orders  sync.WaitGroup

	mu     sync.Mutex
	queues map[int32]*queue
	moved  bool // a position was committed
}

// queue contains a partition's taken orders that its position has not passed.
type queue struct{ taken []taken }

type taken struct {
	offset int64
	done   bool
}

func newRound(ctx context.Context, m *Mailer) *round {
	r := &round{
		Mailer: m,
		ended:  make(chan struct{}),
		window: make(chan struct{}, inProgress),
		queues: make(map[int32]*queue),
	}
	r.reading, r.cancel = context.WithCancelCause(ctx)
	r.working, r.abandon = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(r.reading, func() { time.AfterFunc(drainMax, r.abandon) })
	return r
}

func (r *round) stop() {
	if r != nil {
		r.cancel(nil)
	}
}

func (r *round) wait() {
	if r != nil {
		<-r.ended
	}
}

// work runs one round. It returns whether a position was committed, and why the round failed, if
// not because of the group.
func (m *Mailer) work(ctx context.Context) (moved bool, err error) {
	r := m.begin(ctx)
	defer close(r.ended)
	defer r.abandon()
	err = r.run()
	r.stop()
	r.orders.Wait()
	failed := context.Cause(r.reading)
	ofOrder := err == nil && !errors.Is(failed, context.Canceled)
	if ofOrder {
		err = failed
	}
	if err == nil || ctx.Err() != nil {
		return r.moved, nil
	}
	m.failure.Store(&failure{err, ofOrder})
	return r.moved, err
}

func (r *round) run() error {
	if len(r.queues) == 0 {
		<-r.reading.Done()
		return nil
	}
	committed, err := r.membership.Load().Positions(r.reading)
	if err != nil {
		return err
	}
	from := make(map[int32]int64)
	for p := range r.queues {
		from[p] = committed[p]
	}
	reader, err := r.cfg.Cluster.NewReader(kafka.ReaderConfig{
		From:        kafka.Offsets{schemas.TopicMails: from},
		SkipExpired: true,
		MaxBytes:    readBytes,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	if f := r.failure.Load(); f != nil && !f.ofOrder {
		r.failure.Store(nil)
	}
	for {
		select {
		case r.window <- struct{}{}: // wait for room for one
			<-r.window
		case <-r.reading.Done():
			return nil
		}
		err := reader.Poll(r.reading, cap(r.window)-len(r.window), r.take)
		if r.reading.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *round) take(record kafka.Record) error {
	r.window <- struct{}{} // there is room for all polled records
	r.mu.Lock()
	l := r.queues[record.Partition]
	l.taken = append(l.taken, taken{offset: record.Offset})
	r.mu.Unlock()
	r.orders.Go(func() {
		err := r.carryOut(record)
		if err == nil {
			err = r.done(record)
		}
		if err != nil {
			r.cancel(err) // uncompleted orders are taken again from the committed position
		}
	})
	return nil
}

// done moves a partition's position past the completed orders at its front. Commits are serialized,
// so that no position goes back.
func (r *round) done(record kafka.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.queues[record.Partition]
	for i := range l.taken {
		l.taken[i].done = l.taken[i].done || l.taken[i].offset == record.Offset
	}
	behind := 0
	for behind < len(l.taken) && l.taken[behind].done {
		behind++
	}
	if behind == 0 {
		return nil
	}
	if err := r.commit(record.Partition, l.taken[behind-1].offset+1); err != nil {
		return err
	}
	l.taken = l.taken[behind:]
	for range behind {
		<-r.window
	}
	r.moved = true
	r.failure.Store(nil)
	return nil
}

// commit retries, because a group that is rebalancing rejects commits for a moment.
func (r *round) commit(partition int32, next int64) error {
	ctx, cancel := context.WithTimeout(r.working, commitMax)
	defer cancel()
	policy := retry.Policy{
		First: commitAgain,
		If:    func(err error) bool { return !errors.Is(err, kafka.ErrNotMember) },
		OnFailure: retry.Warn(r.cfg.Logger, "the mailer cannot commit its position; retrying",
			"partition", partition),
	}
	err := retry.Do(ctx, policy, func() error {
		return r.membership.Load().Commit(ctx,
			kafka.Offsets{schemas.TopicMails: {partition: next}})
	})
	if err != nil {
		return fmt.Errorf("mailer: a mail may be sent again: %w", err)
	}
	return nil
}
