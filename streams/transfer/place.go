package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// TargetConfig configures the target of a copy.
type TargetConfig struct {
	Cluster kafka.Cluster
	Log     Log // if set, it is written instead of the cluster
	Shape   topology.Shape
	// Scratch is an empty folder for the states.
	Scratch string
	// Progress is called with the progress of the current step, and its total.
	Progress func(done, total int64)
	Logger   *slog.Logger
}

// Placed is the result of placing a copy.
type Placed struct {
	Partitions int32            `json:"partitions"`
	Entries    int64            `json:"entries"` // of the states
	Digest     string           `json:"digest"`  // of the states, as they were read back
	Records    map[string]int64 `json:"records"` // by topic
}

// target is the topics that a copy is written to.
type target struct {
	TargetConfig
	log    Log
	states stores
	taken  map[int32]int64 // position in matches, by partition
	placed Placed
}

// PrepareTarget creates the topics and closes them. It fails if they have records.
func PrepareTarget(ctx context.Context, cfg TargetConfig) error {
	if err := checkEmpty(ctx, cfg.Cluster); err != nil {
		return err
	}
	if err := topology.Close(ctx, cfg.Cluster, topology.Filling, cfg.Shape.Replicas); err != nil {
		return err
	}
	_, err := topology.Create(ctx, cfg.Cluster, cfg.Shape)
	return err
}

func checkEmpty(ctx context.Context, c kafka.Cluster) error {
	if err := topology.CheckOpen(ctx, c); err != nil {
		return err
	}
	there, err := c.DescribeTopics(ctx, topology.TopicNames()...)
	if err != nil {
		return err
	}
	ends, err := c.NewEnds()
	if err != nil {
		return err
	}
	defer ends.Close()
	for _, topic := range slices.Sorted(maps.Keys(there)) {
		by, err := ends.Of(ctx, topic)
		if err != nil {
			return err
		}
		for p, end := range by {
			if end > 0 {
				return fmt.Errorf("transfer: partition %d of %s%s has records, but "+
					"the topics must be empty; use another --topic-prefix, or delete these topics",
					p, c.Prefix, topic)
			}
		}
	}
	return nil
}

// Place writes a copy into topics that PrepareTarget has created. It reads the states back from
// there and compares them with the copy's.
func Place(ctx context.Context, c *Copy, cfg TargetConfig) (_ Placed, err error) {
	t := &target{TargetConfig: cfg, taken: make(map[int32]int64)}
	t.placed.Records = make(map[string]int64)
	t.placed.Partitions = cfg.Shape.Partitions
	if t.log, err = openLog(cfg.Log, cfg.Cluster); err != nil {
		return t.placed, err
	}
	defer t.log.Close()
	dir := filepath.Join(cfg.Scratch, "divided")
	if t.states, err = openStores(dir, cfg.Shape.Partitions, cfg.Logger); err != nil {
		return t.placed, err
	}
	defer func() { err = errors.Join(err, t.states.Close()) }()
	return t.placed, t.place(ctx, c)
}

// place writes the inputs before the states: a task that found a state before its inputs would skip
// them.
func (t *target) place(ctx context.Context, c *Copy) error {
	want, err := divide(c.states, t.states, func(n int64) { t.Progress(n, c.about.Entries) })
	if err != nil {
		return err
	}
	steps := []func(context.Context, *Copy) error{
		t.placeBarrier, t.placeTaken, t.placeRest, t.placeRows, t.placeCursor, t.placeStates,
	}
	for _, step := range steps {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	return t.compare(ctx, want)
}

// placeBarrier begins each partition of matches with a filler after a deleted one. The follower
// concludes from it that the matches before the copy are missing (streams/follower/known.go).
func (t *target) placeBarrier(ctx context.Context, _ *Copy) error {
	below := make(kafka.Offsets)
	for p := range t.Shape.Partitions {
		for offset := range int64(2) {
			filler := kafka.NewFiller(schemas.TopicMatches, p)
			filler.Offset = offset
			if err := t.log.Place(ctx, filler); err != nil {
				return err
			}
		}
		below.Set(schemas.TopicMatches, p, 1)
	}
	return t.log.DeleteBefore(ctx, below)
}

// placeTaken writes the inputs that the states have taken. The states continue after them.
func (t *target) placeTaken(ctx context.Context, c *Copy) (err error) {
	if err := t.placeRecords(ctx, c, true); err != nil {
		return err
	}
	t.taken, err = t.log.Of(ctx, schemas.TopicMatches)
	return err
}

func (t *target) placeRest(ctx context.Context, c *Copy) error {
	return t.placeRecords(ctx, c, false)
}

// placeRecords appends the records of files, by their keys.
func (t *target) placeRecords(ctx context.Context, c *Copy, taken bool) error {
	for _, f := range c.about.Records {
		if f.Taken != taken {
			continue
		}
		b := t.appending(f.Tuples)
		err := readTuples(filepath.Join(c.dir, f.Name), func(fields [][]byte) error {
			r, err := recordOf(f.Topic, fields)
			if err != nil {
				return err
			}
			return b.add(ctx, r)
		})
		if err == nil {
			err = b.flush(ctx)
		}
		if err != nil {
			return fmt.Errorf("transfer: writing the records of %s: %w", f.Topic, err)
		}
	}
	return nil
}

// placeRows writes the rows of tables: their readers must know every key and watch when the service
// starts.
func (t *target) placeRows(ctx context.Context, c *Copy) error {
	b := t.appending(c.about.Entries)
	for _, s := range t.states {
		err := s.Each(func(key, value []byte) (bool, error) {
			r, is, err := engine.Row(key, value)
			if err != nil || !is {
				return err == nil && !engine.IsDelivery(key), err
			}
			return true, b.add(ctx, r)
		})
		if err != nil {
			return fmt.Errorf("transfer: writing the tables: %w", err)
		}
	}
	return b.flush(ctx)
}

// placeCursor writes the follower's cursor. Records that were appended after it start at the
// beginning of the new topics.
func (t *target) placeCursor(ctx context.Context, c *Copy) error {
	from := c.about.Cursor
	if from == nil {
		return nil
	}
	start := make(map[int32]int64)
	for p := range t.Shape.Partitions {
		start[p] = 0
	}
	m := schemas.EncodeLedgerRead(schemas.LedgerRead{
		NetworkPassphrase: from.Network,
		Sequence:          from.Ledger,
		Hash:              from.Hash,
		ClosedAtMillis:    from.ClosedAtMillis,
		MatchesOffsets:    start,
		PaymentsOffsets:   start,
		ReadAtMillis:      c.about.MadeAt.UnixMilli(),
		Coverage:          from.coverage(),
		MovesSince:        from.MovesSince,
		MovesSinceMillis:  from.MovesSinceMillis,
	})
	b := t.appending(1)
	err := b.add(ctx, kafka.NewRecord(schemas.TopicLedgers, from.Network, m.Value, m.EachHeader))
	if err != nil {
		return err
	}
	return b.flush(ctx)
}

// batches passes records on in batches of bounded size.
type batches struct {
	put   func(context.Context, ...kafka.Record) error
	out   []kafka.Record
	bytes int
}

const (
	batchRecords = 2_000
	batchBytes   = 4 << 20
)

func (b *batches) add(ctx context.Context, r kafka.Record) error {
	b.out = append(b.out, r)
	b.bytes += len(r.Key) + len(r.Value)
	if len(b.out) < batchRecords && b.bytes < batchBytes {
		return nil
	}
	return b.flush(ctx)
}

func (b *batches) flush(ctx context.Context) error {
	if err := b.put(ctx, b.out...); err != nil {
		return err
	}
	b.out, b.bytes = b.out[:0], 0
	return nil
}

// appending returns batches that are appended, with their progress towards a total.
func (t *target) appending(total int64) *batches {
	var done int64
	return &batches{put: func(ctx context.Context, records ...kafka.Record) error {
		if err := t.log.Append(ctx, records...); err != nil {
			return err
		}
		for _, r := range records {
			t.placed.Records[r.Topic]++
		}
		done += int64(len(records))
		t.Progress(min(done, total), total)
		return nil
	}}
}

// journalBegins is the first offset of a new journal. There is a note before it, so that a reader
// does not treat it as a journal that can be folded from the beginning.
const journalBegins = 1

// placeStates begins each journal, and writes each state as a snapshot.
func (t *target) placeStates(ctx context.Context, _ *Copy) error {
	below := make(kafka.Offsets)
	for p, s := range t.states {
		partition := int32(p) // #nosec G115 -- a partition
		taken := map[string]int64{
			schemas.TopicCommands: 0,
			schemas.TopicMatches:  t.taken[partition],
		}
		note := task.TakenRecord(schemas.TopicJournal, partition, taken)
		if err := t.log.Place(ctx, note); err != nil {
			return err
		}
		below.Set(schemas.TopicJournal, partition, journalBegins)
		if err := t.placeState(ctx, s, partition, taken); err != nil {
			return fmt.Errorf("transfer: writing the state of partition %d: %w", p, err)
		}
		t.Progress(int64(p+1), int64(len(t.states)))
	}
	return t.log.DeleteBefore(ctx, below)
}

func (t *target) placeState(
	ctx context.Context, s *store.Store, partition int32, taken map[string]int64,
) error {
	batch := s.Begin()
	err := task.SetTaken(batch, schemas.TopicJournal, partition, journalBegins, taken)
	if err != nil {
		batch.Discard()
		return err
	}
	if err := batch.Commit(); err != nil {
		return err
	}
	var offset int64
	return task.EachSnapshotRecord(s, engine.Snapshots(len(t.states)), schemas.TopicJournal, partition,
		func(r kafka.Record) error {
			r.Offset = offset
			offset++
			return t.log.Place(ctx, r)
		})
}

// compare reads the states back from the new topics, and compares them with the wanted digest.
func (t *target) compare(ctx context.Context, want Digest) (err error) {
	back := &Source{cfg: SourceConfig{
		Cluster:  t.Cluster,
		Log:      t.Log,
		Scratch:  filepath.Join(t.Scratch, "read-back"),
		Progress: t.Progress,
		Logger:   t.Logger,
	}}
	if err := back.open(ctx); err != nil {
		return errors.Join(err, back.Close())
	}
	defer func() { err = errors.Join(err, back.Close()) }()
	if err := back.Fold(ctx); err != nil {
		return err
	}
	have, err := digestOf(back.states())
	if err != nil {
		return err
	}
	t.placed.Entries, t.placed.Digest = have.Entries, have.String()
	if have != want {
		return fmt.Errorf("transfer: the new topics have another state than the old ones: %d entries "+
			"with the digest %.16s… in place of %d with %.16s…: please report this", have.Entries, have,
			want.Entries, want)
	}
	return nil
}
