package transfer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Source is a deployment that is copied. The service may keep running.
type Source struct {
	cfg      SourceConfig
	ends     Log
	replicas []*replica
	journal  map[int32]int64 // the journal's ends, up to which the states are folded
}

// SourceConfig configures a source and its progress reports.
type SourceConfig struct {
	Cluster kafka.Cluster
	// Log, if set, is read instead of the cluster.
	Log Log
	// Scratch is an empty folder for the states.
	Scratch string
	Program string // version of this program
	Now     func() time.Time
	// Progress is called with the progress of the current step, and its total.
	Progress func(done, total int64)
	Logger   *slog.Logger
}

// OpenSource opens empty states for the partitions of a deployment.
func OpenSource(ctx context.Context, cfg SourceConfig) (*Source, error) {
	s := &Source{cfg: cfg}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Source) open(ctx context.Context) (err error) {
	cfg := s.cfg
	if s.ends, err = openLog(cfg.Log, cfg.Cluster); err != nil {
		return err
	}
	ends, err := s.ends.Of(ctx, schemas.TopicJournal)
	if err != nil {
		return err
	}
	for p := range int32(len(ends)) { // #nosec G115 -- a partition count
		r, err := s.ends.Replica(replicaConfig(cfg.Scratch, p, len(ends), cfg.Logger))
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
	}
	return nil
}

func (s *Source) states() (list []*store.Store) {
	for _, r := range s.replicas {
		list = append(list, r.Store())
	}
	return list
}

// replicaConfig configures a state in a scratch folder, for one of that many partitions.
func replicaConfig(
	dir string, partition int32, partitions int, logger *slog.Logger,
) task.CoreConfig[engine.Effect, engine.Outcome] {
	return task.CoreConfig[engine.Effect, engine.Outcome]{
		Partition: partition,
		Journal:   schemas.TopicJournal,
		Inputs:    engine.Inputs(),
		Store:     scratchConfig(dir, partition, logger),
		NewHandler: func() task.Handler[engine.Effect, engine.Outcome] {
			return engine.NewHandler(engine.Config{Logger: logger}, nil)
		},
		Snapshots: engine.Snapshots(partitions),
		Logger:    logger,
	}
}

// Partitions returns how many partitions the deployment has.
func (s *Source) Partitions() int32 {
	return int32(len(s.replicas)) // #nosec G115 -- a partition count
}

// State returns the state of a partition, up to where it is folded.
func (s *Source) State(partition int32) *store.Store { return s.replicas[partition].Store() }

// Close closes the states.
func (s *Source) Close() (err error) {
	for _, r := range s.replicas {
		err = errors.Join(err, r.Close())
	}
	if s.ends != nil {
		s.ends.Close()
	}
	return err
}

// holder is the group that holds the records that are read. Its name matches the group prefix that
// the rights allow.
const holder = "history-copy"

const releaseMax = 10 * time.Second

// holding runs read while the current records of the topics are protected from deletion.
func (s *Source) holding(ctx context.Context, read func() error) error {
	from := make(kafka.Offsets)
	for _, topic := range append(engine.Inputs(), schemas.TopicJournal, schemas.TopicSnapshots,
		schemas.TopicPayments) {
		starts, err := s.ends.Starts(ctx, topic)
		if err != nil {
			return err
		}
		from[topic] = starts
	}
	if err := s.cfg.Cluster.Hold(ctx, holder, from); err != nil {
		return err
	}
	err := read()
	releasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseMax)
	defer cancel()
	return errors.Join(err, s.cfg.Cluster.Release(releasing, holder))
}

// Fold folds the journals up to their current ends.
func (s *Source) Fold(ctx context.Context) error {
	starts, err := s.ends.Starts(ctx, schemas.TopicJournal)
	if err != nil {
		return err
	}
	ends, err := s.ends.Of(ctx, schemas.TopicJournal)
	if err != nil {
		return err
	}
	var done, total int64
	for p, r := range s.replicas {
		total += max(0, ends[int32(p)]-r.Folded())
	}
	for p, r := range s.replicas {
		s.cfg.Progress(done, total)
		before := r.Folded()
		if err := r.CatchUp(ctx, starts[int32(p)], ends[int32(p)]); err != nil {
			return err
		}
		done += max(0, r.Folded()-before)
	}
	s.journal = ends
	s.cfg.Progress(total, total)
	return nil
}

// Capture copies the deployment as it is now. Records that are not part of the states are written
// to files in dir. The states belong to the source, which must stay open as long as the copy is
// used.
func (s *Source) Capture(ctx context.Context, dir string) (*Copy, error) {
	cursor, found, err := s.readCursor(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.inputEnds(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.foldToEnd(ctx); err != nil {
		return nil, err
	}
	c := &Copy{dir: dir, states: s.states(), closer: s}
	c.about = Manifest{
		Format:      copyFormat,
		MadeAt:      s.cfg.Now().UTC(),
		Program:     s.cfg.Program,
		Prefix:      s.cfg.Cluster.Prefix,
		StateFormat: engine.StateFormat,
		Partitions:  s.Partitions(),
	}
	if found {
		c.about.Cursor = &Cursor{
			Network:          cursor.NetworkPassphrase,
			Ledger:           cursor.Sequence,
			Hash:             cursor.Hash,
			ClosedAtMillis:   cursor.ClosedAtMillis,
			Coverage:         cursorRanges(cursor.Coverage),
			MovesSince:       cursor.MovesSince,
			MovesSinceMillis: cursor.MovesSinceMillis,
		}
	}
	for p, r := range s.replicas {
		end := max(r.Folded(), s.journal[int32(p)]) // #nosec G115 -- a partition
		c.about.Journal = append(c.about.Journal, r.Folded())
		c.about.JournalEnds = append(c.about.JournalEnds, end)
	}
	digest, err := digestOf(c.states)
	if err != nil {
		return nil, err
	}
	c.about.Entries, c.about.Digest = digest.Entries, digest.String()
	parts, err := s.remains(ctx, cursor, before)
	if err != nil {
		return nil, err
	}
	c.about.Records, err = s.copyParts(ctx, dir, parts)
	return c, err
}

func (s *Source) readCursor(
	ctx context.Context,
) (newest schemas.LedgerRead, found bool, err error) {
	starts, err := s.ends.Starts(ctx, schemas.TopicLedgers)
	if err != nil {
		return newest, false, err
	}
	ends, err := s.ends.Of(ctx, schemas.TopicLedgers)
	if err != nil {
		return newest, false, err
	}
	err = s.read(ctx, schemas.TopicLedgers, starts, ends, func(r kafka.Record) error {
		read, err := schemas.DecodeLedgerRead(schemas.Read(r.Value, r))
		if err != nil {
			return fmt.Errorf("transfer: the follower's cursor: %w", err)
		}
		if !found || read.Sequence > newest.Sequence {
			newest, found = read, true
		}
		return nil
	})
	return newest, found, err
}

func (s *Source) read(
	ctx context.Context, topic string, from, to map[int32]int64, take func(kafka.Record) error,
) error {
	return s.ends.Read(ctx, topic, from, to, func(r kafka.Record) error {
		if r.Offset >= to[r.Partition] {
			return nil
		}
		return take(r)
	})
}
