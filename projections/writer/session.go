package writer

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	pollMax       = 10_000                // records per poll
	offerInterval = 20 * time.Millisecond // until a due block is offered to a busy writer again
	drainMax      = 2 * time.Second       // to write the collected rows when the session ends

	// Without readers, a fetch of fewer records than trickle is followed by a pause.
	trickle     = 100
	trickleWait = 50 * time.Millisecond

	// Without readers, a block with this many records waits manyFactor times as long. Under load,
	// ClickHouse mostly merges blocks, so fewer blocks mean less work.
	many       = 5_000
	manyFactor = 3
)

// session projects some partitions from their recorded progress until its context ends or an error
// occurs. It collects one block while another is written.
type session struct {
	sessionConfig

	toWrite chan *block
	spare   chan *block // blocks that are neither being collected nor written
	gone    chan struct{}

	trickles bool // the last fetch returned few records
}

type sessionConfig struct {
	db        *DB
	reader    *kafka.Reader
	layout    layout
	limits    limits
	now       func() time.Time
	asking    *asking
	onWritten func(*block)
	// Called before a block with dead letters is written. May be nil.
	setAside func(context.Context, []schemas.DeadLetter) error
	position map[topicPartition]int64 // offsets handed to the writer
	// A block that reaches target is written immediately. May be nil.
	target map[topicPartition]int64
}

// limits decide when a block is written.
type limits struct {
	rows      int
	sizeBytes int
	wait      time.Duration // if there is a reader
	unasked   time.Duration // if there is none
}

func newSession(cfg sessionConfig) *session {
	s := &session{
		sessionConfig: cfg,
		toWrite:       make(chan *block),
		spare:         make(chan *block, 2),
		gone:          make(chan struct{}),
	}
	s.spare <- newBlock()
	s.spare <- newBlock()
	return s
}

// run returns nil when ctx has ended. It then first writes all collected rows, unless that takes
// too long.
func (s *session) run(ctx context.Context) error {
	writing, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(drainMax, abandon) })
	defer stop()
	group, gathering := errgroup.WithContext(ctx)
	group.Go(func() error { return s.write(writing) })
	group.Go(func() error { return s.gather(gathering) })
	err := group.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// gather fills blocks and hands them to the writer. While the writer is busy, a block grows up to
// its limits. Then reading stops.
func (s *session) gather(ctx context.Context) error {
	defer close(s.toWrite)
	defer s.asking.onAsked(nil)
	b, err := s.fresh(ctx)
	if err != nil {
		return nil
	}
	var busy time.Time // when to offer the block to the busy writer again
	for ctx.Err() == nil {
		if err := s.poll(ctx, b, busy); err != nil {
			return errors.Join(err, s.hand(b))
		}
		switch now := s.now(); {
		case b.empty():
			continue
		case s.full(b) || s.arrived(b, s.target):
			if s.hand(b) != nil {
				return nil
			}
		case now.Before(s.due(b, busy)):
			continue
		case !s.offer(b):
			busy = now.Add(offerInterval)
			continue
		}
		busy = time.Time{}
		if b, err = s.fresh(ctx); err != nil {
			return nil
		}
	}
	return s.hand(b)
}

// due returns when to write a non-empty block. If a reader waits for its rows, that is now, but
// never before notBefore.
func (s *session) due(b *block, notBefore time.Time) time.Time {
	lately, until := s.asking.reading(s.now())
	wait := s.limits.unasked
	if lately {
		wait = s.limits.wait
	}
	if !lately && b.records >= many {
		wait *= manyFactor
	}
	if s.arrived(b, until) {
		wait = 0
	}
	if at := b.began.Add(wait); at.After(notBefore) {
		return at
	}
	return notBefore
}

// poll reads until there are records, the block is due, a reader arrives, or ctx ends.
func (s *session) poll(ctx context.Context, b *block, notBefore time.Time) error {
	polling, wake := context.WithCancel(ctx)
	defer wake()
	s.asking.onAsked(wake) // set before s.asking is read
	if !b.empty() {
		var cancel context.CancelFunc
		polling, cancel = context.WithTimeout(polling, s.due(b, notBefore).Sub(s.now()))
		defer cancel()
	}
	if !s.pauseFetching(polling, b) {
		return nil
	}
	before := b.records
	err := s.reader.Poll(polling, min(pollMax, s.limits.rows-b.records), func(r kafka.Record) error {
		if err := b.add(r, s.now().UnixMilli()); err != nil {
			return retry.Permanent(err)
		}
		return nil
	})
	s.trickles = b.records-before < trickle
	for p, at := range s.position {
		if next := s.reader.Position(p.topic, p.partition); next > at {
			b.cover(p, at, next)
			s.position[p] = next
		}
	}
	if b.began.IsZero() && !b.empty() {
		b.began = s.now()
	}
	if polling.Err() != nil && errors.Is(err, polling.Err()) {
		return nil
	}
	return err
}

// pauseFetching leaves records at the broker for a while if the last fetch returned few and there
// is no reader. Otherwise, every single record would cause a request. It reports whether to read
// now.
func (s *session) pauseFetching(polling context.Context, b *block) bool {
	if lately, _ := s.asking.reading(s.now()); lately || b.empty() || !s.trickles {
		return true
	}
	over := time.NewTimer(trickleWait)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-polling.Done():
		return false
	}
}

func (s *session) full(b *block) bool {
	return b.records >= s.limits.rows || b.sizeBytes >= s.limits.sizeBytes
}

// arrived reports whether the block brings the last partition to its target.
func (s *session) arrived(b *block, target map[topicPartition]int64) bool {
	moved := false
	for p, end := range target {
		next, ours := s.position[p]
		if ours && next < end {
			return false
		}
		moved = moved || ours && b.from[p] < end && b.next[p] >= end
	}
	return moved
}

// fresh returns an empty block. There always is one, because the writer has at most one of the two.
func (s *session) fresh(ctx context.Context) (*block, error) {
	select {
	case b := <-s.spare:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// offer hands over a block if the writer is waiting for one.
func (s *session) offer(b *block) bool {
	select {
	case s.toWrite <- b:
		return true
	default:
		return false
	}
}

func (s *session) hand(b *block) error {
	if b.empty() {
		return nil
	}
	select {
	case s.toWrite <- b:
		return nil
	case <-s.gone:
		return context.Canceled
	}
}

func (s *session) write(ctx context.Context) error {
	defer close(s.gone)
	for b := range s.toWrite {
		if s.setAside != nil && len(b.dead) > 0 {
			if err := s.setAside(ctx, b.dead); err != nil {
				return err
			}
		}
		if err := s.db.write(ctx, b, s.layout); err != nil {
			return err
		}
		s.onWritten(b)
		b.reset()
		s.spare <- b
	}
	return nil
}
