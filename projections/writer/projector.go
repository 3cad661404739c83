package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Group is the default consumer group, in which projectors share the partitions.
const Group = "projector"

const (
	defaultBlockRows  = 100_000
	defaultBlockBytes = 64 << 20
	defaultBlockWait  = 200 * time.Millisecond

	firstWait  = 100 * time.Millisecond // after a failed session
	lastWait   = 5 * time.Second
	prepareMax = 15 * time.Second // to find the start of a session
	leaveMax   = 5 * time.Second
	joinMax    = 15 * time.Second // for a group to assign partitions to a projector
)

// ProjectorConfig configures a projector. Limits that are zero have the defaults below.
type ProjectorConfig struct {
	DB      *DB
	Cluster kafka.Cluster
	Logger  *slog.Logger
	Now     func() time.Time
	// Group is the consumer group, "projector" by default. Projectors that fill another database from
	// the same topics need another group.
	Group string
	// Retention is the age at which rows of the live tables are deleted, or 0 to keep them. If it is
	// nil, the setting stays unchanged.
	Retention *time.Duration
	// OnDeadLetter, if set, is called with the topic of each record that was set aside.
	OnDeadLetter func(topic string)
	// OnRestart, if set, is called each time writing has failed and will be restarted.
	OnRestart func()

	// A block is written when it has this many facts or bytes, or when its first fact has waited this
	// long.
	BlockRows  int           // 100,000
	BlockBytes int           // 64 MiB
	BlockWait  time.Duration // 200 ms
	// UnaskedWait replaces BlockWait while there is no reader (Projector.Ask), because writing a block
	// costs ClickHouse about the same no matter how few rows it has. Blocks of 5,000 or more records
	// wait three times as long. The default and minimum is BlockWait.
	UnaskedWait time.Duration
}

// Projector writes the records of its partitions to ClickHouse. Several projectors share the
// partitions. The owner of a journal partition also owns the partitions with the same number of the
// other topics.
type Projector struct {
	cfg   ProjectorConfig
	parts *partitions
	ends  *kafka.Ends
	dead  *kafka.Producer

	asking asking

	mu      sync.Mutex
	status  Status
	next    map[topicPartition]int64 // offsets in the tables, for the assigned partitions
	changed chan struct{}            // closed and replaced when next changes
}

// Stuck returns why nothing is being written, or nil if there is no problem.
func (p *Projector) Stuck() error { return p.Status().Err }

// Status is the state of a projector.
type Status struct {
	Partitions []int32 // assigned partitions
	Facts      int64   // written since the start, including repeats
	Blocks     int64   // written since the start
	WrittenAt  time.Time
	// Delay is the age of the last block's oldest fact at the time of writing.
	Delay time.Duration
	// Err is why nothing is being written, or nil if there is no problem.
	Err error
}

// NewProjector returns a projector. Run starts it; Close releases its clients.
func NewProjector(cfg ProjectorConfig) (*Projector, error) {
	if cfg.BlockRows < 0 || cfg.BlockBytes < 0 || cfg.BlockWait < 0 {
		return nil, fmt.Errorf("projections: the limits of a block must not be negative (BlockRows %d, "+
			"BlockBytes %d, BlockWait %s)", cfg.BlockRows, cfg.BlockBytes, cfg.BlockWait)
	}
	ends, err := cfg.Cluster.NewEnds()
	if err != nil {
		return nil, err
	}
	dead, err := cfg.Cluster.NewProducer()
	if err != nil {
		ends.Close()
		return nil, err
	}
	return &Projector{
		cfg:   cfg,
		parts: newPartitions(),
		ends:  ends,
		dead:  dead,
		next:  make(map[topicPartition]int64),

		changed: make(chan struct{}),
	}, nil
}

// Prepare creates the tables. If it fails, the projector is stuck until a later attempt succeeds.
func (p *Projector) Prepare(ctx context.Context) {
	if err := Migrate(ctx, p.cfg.DB); err != nil && ctx.Err() == nil {
		p.noteFailure(err)
	}
}

// Close releases the projector's clients. Run must have returned.
func (p *Projector) Close() {
	p.ends.Close()
	p.dead.Close()
}

// setAside appends dead letters before the block without their records is written. After a crash in
// between, they are appended again with the same keys.
func (p *Projector) setAside(ctx context.Context, letters []schemas.DeadLetter) error {
	records := make([]kafka.Record, len(letters))
	for i, letter := range letters {
		records[i] = intake.DeadLetterRecord(letter)
	}
	ctx, cancel := context.WithTimeout(ctx, prepareMax)
	defer cancel()
	if err := p.dead.Append(ctx, records...); err != nil {
		return fmt.Errorf("projections: setting %d records aside: %w", len(letters), err)
	}
	return nil
}

func (p *Projector) reportDead(letters []schemas.DeadLetter) {
	for _, d := range letters {
		p.cfg.Logger.Error("a record was set aside and is in no table; the projector continues "+
			"(lumenhook topics cat dead-letters shows it)",
			"topic", d.Topic, "partition", d.Partition, "offset", d.Offset, "error", d.Reason)
		if p.cfg.OnDeadLetter != nil {
			p.cfg.OnDeadLetter(d.Topic)
		}
	}
}

func (p *Projector) limits() limits {
	wait := cmp.Or(p.cfg.BlockWait, defaultBlockWait)
	return limits{
		rows:      cmp.Or(p.cfg.BlockRows, defaultBlockRows),
		sizeBytes: cmp.Or(p.cfg.BlockBytes, defaultBlockBytes),
		wait:      wait,
		unasked:   max(wait, p.cfg.UnaskedWait),
	}
}

// Run projects until ctx ends, then writes the collected rows and returns nil. It retries transient
// errors. It returns an error only if a fact cannot be decoded or is missing (P5), which requires
// an operator.
func (p *Projector) Run(ctx context.Context) error {
	membership, err := p.cfg.Cluster.Join(kafka.MembershipConfig{
		Group:    cmp.Or(p.cfg.Group, Group),
		Topic:    schemas.TopicJournal,
		Assigned: p.parts.assigned,
		Revoked:  p.parts.revoked,
		Lost:     p.parts.lost,
		Now:      p.cfg.Now,
	})
	if err != nil {
		return err
	}
	err = p.runAndCommit(ctx, membership)
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveMax)
	defer cancel()
	if left := membership.Leave(leaving); left != nil {
		p.cfg.Logger.Warn("the projector could not leave its group; its partitions are given away "+
			"after the session timeout", "error", left)
	}
	return err
}

func (p *Projector) runAndCommit(ctx context.Context, m *kafka.Membership) error {
	committing, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { p.keepCommitting(committing, m) })
	err := p.keepRunning(ctx)
	end()
	beside.Wait()
	return err
}

func (p *Projector) keepRunning(ctx context.Context) error {
	policy := retry.Policy{First: firstWait, Last: lastWait, OnFailure: func(retry.Failure) {
		if p.cfg.OnRestart != nil {
			p.cfg.OnRestart()
		}
	}}
	return retry.Forever(ctx, policy, func() (wrote bool, err error) {
		blocks := p.Status().Blocks
		owned, changed, ended := p.parts.begin()
		err = p.runSession(ctx, owned, changed)
		ended()
		if errors.As(err, new(errTablesChanged)) {
			p.cfg.Logger.Info("the projector continues with other tables", "because", err)
			return false, nil
		}
		if err != nil {
			p.noteFailure(err)
		}
		return p.Status().Blocks > blocks, err
	})
}

// runSession projects the partitions until they change, ctx ends, or an error occurs.
func (p *Projector) runSession(ctx context.Context, owned []int32, changed <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	if len(owned) == 0 {
		return p.waitForPartitions(ctx)
	}
	db, err := p.cfg.DB.pin(ctx)
	if err == nil {
		err = p.projectOn(ctx, db, owned)
	} else if ctx.Err() != nil {
		return nil
	}
	if err != nil && !errors.As(err, new(errTablesChanged)) {
		p.cfg.DB.MoveOn(db)
	}
	return err
}

func (p *Projector) projectOn(ctx context.Context, db *DB, owned []int32) error {
	l, from, err := p.prepare(ctx, db, owned)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	reader, err := p.cfg.Cluster.NewReader(kafka.ReaderConfig{From: offsetsOf(from)})
	if err != nil {
		return err
	}
	defer reader.Close()
	p.noteBegin(from)
	begun := maps.Clone(from)
	session, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { end(db.keepChecking(session, l, begun)) }()
	err = newSession(sessionConfig{
		db:        db,
		reader:    reader,
		layout:    l,
		limits:    p.limits(),
		now:       p.cfg.Now,
		asking:    &p.asking,
		onWritten: p.noteWritten,
		setAside:  p.setAside,
		position:  maps.Clone(from),
	}).run(session)
	if err == nil && ctx.Err() == nil {
		err = context.Cause(session)
	}
	if errors.Is(err, kafka.ErrCut) {
		return retry.Permanent(fmt.Errorf("projections: %w; the history holds them still: `lumenhook "+
			"rebuild --all` makes it what the topics say, then start again", err))
	}
	return err
}

func offsetsOf(by map[topicPartition]int64) kafka.Offsets {
	offsets := make(kafka.Offsets)
	for p, next := range by {
		if offsets[p.topic] == nil {
			offsets[p.topic] = make(map[int32]int64)
		}
		offsets[p.topic][p.partition] = next
	}
	return offsets
}

// prepare makes sure that the tables exist, and returns the offsets to start from.
func (p *Projector) prepare(
	ctx context.Context, db *DB, owned []int32,
) (l layout, from map[topicPartition]int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, prepareMax)
	defer cancel()
	if err := p.makeTables(ctx, db); err != nil {
		return nil, nil, err
	}
	if l, err = db.live(ctx); err != nil {
		return nil, nil, err
	}
	recorded, err := db.progress(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	// Damage is marked before the session writes, because its parts may get the numbers of lost ones.
	if _, err := db.markDamage(ctx); err != nil && !IsDenied(err) {
		return nil, nil, err
	}
	// ClickHouse doesn't sync parts, so those it wrote after the last record of parts may be lost in a
	// power failure. They are written again.
	safe, err := db.progressBy(ctx, selectSafeProgress, l)
	if err != nil {
		return nil, nil, err
	}
	from = make(map[topicPartition]int64)
	late := make(map[topicPartition]int64) // starts above 0, because older facts were deleted
	for _, topic := range Topics() {
		e, err := extentOf(ctx, p.ends, topic)
		if err != nil {
			return nil, nil, err
		}
		for _, partition := range owned {
			at := topicPartition{topic, partition}
			if from[at], err = p.begin(at, recorded, e); err != nil {
				return nil, nil, err
			}
			if from[at] > recorded[at] {
				late[at] = from[at]
			}
			if next, known := safe[at]; known {
				from[at] = max(e.starts[partition], min(from[at], next))
			}
		}
	}
	return l, from, db.recordProgress(ctx, l, late)
}

func (p *Projector) makeTables(ctx context.Context, db *DB) error {
	if err := Migrate(ctx, db); err != nil || p.cfg.Retention == nil {
		return err
	}
	return SetRetention(ctx, db, *p.cfg.Retention)
}

// extent holds the first and end offsets of a topic's partitions.
type extent struct{ starts, ends map[int32]int64 }

func extentOf(ctx context.Context, asking *kafka.Ends, topic string) (e extent, err error) {
	e.starts, e.ends, err = asking.Extent(ctx, topic)
	return e, err
}

func (p *Projector) begin(
	at topicPartition, recorded map[topicPartition]int64, e extent,
) (next int64, err error) {
	next, known := recorded[at]
	start, end := e.starts[at.partition], e.ends[at.partition]
	switch {
	case !known && start > 0:
		p.cfg.Logger.Info("the topic begins later, after a restore or a deletion; the history of this "+
			"partition begins there", "partition", at.String(), "offset", start)
		return start, nil
	case next < start:
		return 0, retry.Permanent(fmt.Errorf("projections: %s begins at offset %d, and the history has "+
			"it only to %d: the facts between were deleted before they were projected; restore the "+
			"database %s from a backup, or the topic",
			at, start, next, p.cfg.DB.Name()))
	case next > end:
		return 0, retry.Permanent(fmt.Errorf("projections: %s ends at offset %d, and the history has "+
			"it to %d: the topics were made anew or lost their end; drop the database %s to build the "+
			"history from the topics that are there",
			at, end, next, p.cfg.DB.Name()))
	}
	return next, nil
}

func (p *Projector) noteBegin(from map[topicPartition]int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = maps.Clone(from)
	p.notify()
	p.clearFailure()
}

// waitForPartitions returns when ctx ends. A projector without partitions isn't stuck if the tables
// exist. But a projector that has just joined its group has no partitions yet, and must not report
// an event as missing before it knows the positions of its partitions. So an earlier failure is
// kept for a while.
func (p *Projector) waitForPartitions(ctx context.Context) error {
	p.mu.Lock()
	p.next = nil
	p.notify()
	p.mu.Unlock()
	joined := time.NewTimer(joinMax)
	defer joined.Stop()
	select {
	case <-joined.C:
		if err := Migrate(ctx, p.cfg.DB); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		p.noteBegin(nil)
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

func (p *Projector) noteWritten(b *block) {
	p.reportDead(b.dead)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status.Facts += int64(b.records)
	p.status.Blocks++
	p.status.WrittenAt = p.cfg.Now()
	if b.oldestMillis > 0 {
		p.status.Delay = max(0, p.status.WrittenAt.Sub(time.UnixMilli(b.oldestMillis)))
	}
	maps.Copy(p.next, b.next)
	p.notify()
	p.clearFailure()
}

// clearFailure clears the failure of noteFailure. The lock must be held.
func (p *Projector) clearFailure() {
	if p.status.Err != nil {
		p.cfg.Logger.Info("writing the history again")
		p.status.Err = nil
	}
}

// noteFailure records why nothing is being written. It logs the failure once, until it is cleared.
func (p *Projector) noteFailure(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.Err == nil && !retry.IsPermanent(err) {
		p.cfg.Logger.Warn("cannot write the history; retrying. Deliveries continue", "error", err)
	}
	p.status.Err = err
}

// Status returns the projector's state.
func (p *Projector) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.status
	s.Partitions = slices.Clone(p.parts.list())
	return s
}

// Lag returns how many records of the assigned partitions, including control records, are not in
// the tables yet.
func (p *Projector) Lag(ctx context.Context) (records int64, err error) {
	by, err := p.LagByTopic(ctx)
	for _, n := range by {
		records += n
	}
	return records, err
}

// LagByTopic returns Lag for each topic.
func (p *Projector) LagByTopic(ctx context.Context) (records map[string]int64, err error) {
	records = make(map[string]int64)
	for _, topic := range Topics() {
		ends, err := p.ends.Of(ctx, topic)
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		for _, partition := range p.parts.list() {
			records[topic] += max(0, ends[partition]-p.next[topicPartition{topic, partition}])
		}
		p.mu.Unlock()
	}
	return records, nil
}
