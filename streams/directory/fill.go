package directory

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	fillBatch = 4096

	firstWait = 100 * time.Millisecond // before reading the tables again
	lastWait  = 5 * time.Second
)

func (d *Directory) fill(ctx context.Context) error {
	policy := retry.Policy{
		First: firstWait,
		Last:  lastWait,
		OnFailure: retry.Warn(d.cfg.Logger,
			"the directory could not read its tables; retrying"),
	}
	return retry.Forever(ctx, policy, func() (moved bool, err error) {
		if d.filled {
			if err := d.sameTables(ctx); err != nil {
				return false, retry.Permanent(err)
			}
		}
		d.filled = true
		return d.fillFromCheckpoints(ctx)
	})
}

// sameTables fails if the tables were recreated or truncated while the directory runs. The store
// must not be emptied while it is in use. An unavailable cluster is not an error.
func (d *Directory) sameTables(ctx context.Context) error {
	identity, err := identityOf(ctx, d.cfg.Cluster)
	if err != nil {
		return nil
	}
	if identity != d.identity {
		return fmt.Errorf("directory: its tables were recreated: %w", ErrRebuild)
	}
	if _, err := d.positions(ctx); errors.Is(err, ErrRebuild) {
		return err
	}
	return nil
}

func (d *Directory) fillFromCheckpoints(ctx context.Context) (moved bool, err error) {
	// Compaction removes only superseded or already read records (doc.go), so skipping is safe.
	r, err := d.cfg.Cluster.NewReader(kafka.ReaderConfig{From: d.progress.all(), SkipExpired: true})
	if err != nil {
		return false, err
	}
	defer r.Close()
	records := make([]kafka.Record, 0, fillBatch)
	for {
		records = records[:0]
		if err := r.Poll(ctx, fillBatch, func(rec kafka.Record) error {
			records = append(records, rec)
			return nil
		}); err != nil {
			return moved, d.distrust(err)
		}
		if err := d.Take(r, records); err != nil {
			return moved, retry.Permanent(err)
		}
		moved = true
		clear(records)
	}
}

// distrust marks the store to be refilled when it is next opened, if the tables do not have what
// was read from them.
func (d *Directory) distrust(err error) error {
	if !errors.Is(err, kafka.ErrAborted) && !errors.Is(err, kafka.ErrCut) {
		return err
	}
	return retry.Permanent(errors.Join(fmt.Errorf("directory: %w: %w", err, ErrRebuild),
		d.store.Distrust()))
}

func (d *Directory) passOver(rec kafka.Record, why error) {
	d.cfg.Logger.Error("a record of a table cannot be read and is skipped; the previous row "+
		"stays until the object changes",
		"topic", rec.Topic, "partition", rec.Partition, "offset", rec.Offset, "error", why)
	if d.cfg.OnUnreadable != nil {
		d.cfg.OnUnreadable(rec.Topic)
	}
}

// Positions are the positions of a reader of the tables.
type Positions interface {
	Position(topic string, partition int32) int64
	// Epoch returns the epoch of the leader that wrote the previous record, or a negative number.
	Epoch(topic string, partition int32) int32
}

// Take writes records, with the positions after them, and then publishes both. Run calls it.
func (d *Directory) Take(r Positions, records []kafka.Record) (err error) {
	batch := d.store.Begin()
	defer func() {
		if err != nil {
			batch.Discard()
		}
	}()
	changes := make([]change, 0, len(records))
	for _, rec := range records {
		c, err := apply(batch, rec)
		if _, dead := errors.AsType[unreadable](err); dead {
			d.passOver(rec, err)
			continue
		}
		if err != nil {
			return err
		}
		changes = append(changes, c)
	}
	moved, err := d.progress.ahead(r)
	if err != nil {
		return err
	}
	for topic, partitions := range moved {
		for p, at := range partitions {
			err := errors.Join(batch.SetCheckpoint(topic, p, at),
				batch.SetEpoch(topic, p, r.Epoch(topic, p)))
			if err != nil {
				return err
			}
		}
	}
	for _, c := range changes { // before the commit, so that a reader of the rows finds their wallets
		if c.wallet != "" {
			d.wallets.add([]byte(c.wallet))
		}
	}
	if err := batch.Commit(); err != nil {
		return err
	}
	d.drop(changes)
	d.progress.move(moved)
	d.waiters.wake(changes)
	return nil
}
