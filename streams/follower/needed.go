package follower

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// OpenParts finds open parts of backfills.
type OpenParts interface {
	CatchUp(ctx context.Context) (offsets map[int32]int64, err error)
	EachOpenPart(take func(domain.Part) error) error
}

// Needed returns the first offset that a follower may still read back in each partition of the
// topics "matches" and "payments". No reader needs earlier records.
//
// A part that the directory does not have after catching up has no matches yet: they will be after
// the ends in the cursor, which was read before.
func Needed(
	ctx context.Context, c kafka.Cluster, passphrase string, parts OpenParts,
) (kafka.Offsets, error) {
	log, err := openLog(c, liveProducer) // nothing is appended
	if err != nil {
		return nil, err
	}
	defer log.close()
	cursor, _, err := readCursor(ctx, log, passphrase)
	if err != nil {
		return nil, err
	}
	needed := make(kafka.Offsets)
	for topic, named := range map[string]map[int32]int64{
		schemas.TopicMatches:  cursor.MatchesOffsets,
		schemas.TopicPayments: cursor.PaymentsOffsets,
	} {
		if needed[topic], err = log.Starts(ctx, topic); err != nil {
			return nil, err
		}
		for p, start := range needed[topic] {
			needed[topic][p] = max(start, named[p])
		}
	}
	if _, err := parts.CatchUp(ctx); err != nil {
		return nil, fmt.Errorf("follower: catching up with the watches: %w", err)
	}
	of := needed[schemas.TopicMatches]
	partitionOf := log.PartitionOf(schemas.TopicMatches, len(of))
	return needed, parts.EachOpenPart(func(part domain.Part) error {
		at := partitionOf(part.EndpointID)
		of[at] = min(of[at], part.MatchesFrom)
		return nil
	})
}

const (
	commitEvery = time.Minute
	commitFirst = time.Second // between tries until the first succeeds
	commitMax   = 30 * time.Second
)

// keepCommitting commits to the group the first offsets that the follower may still read back, so
// that earlier records may be deleted. The follower's position is only in the cursor.
func (f *Follower) keepCommitting(ctx context.Context) {
	pause := commitFirst
	for {
		err := f.commitNeeded(ctx)
		silent := errors.Is(err, errNotElected) || errors.Is(err, kafka.ErrNotMember)
		if err != nil && !silent && ctx.Err() == nil {
			f.config.Logger.Warn("the follower cannot commit which records it needs; until it can, no "+
				"more are deleted", "err", err)
		}
		if err == nil {
			pause = commitEvery
		}
		if retry.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (f *Follower) commitNeeded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	needed, err := Needed(ctx, f.config.Cluster, f.config.Passphrase, f.config.OpenParts)
	if err != nil {
		return err
	}
	m := f.membership.Load()
	if m == nil || !m.Fresh() {
		return errNotElected // not yet, or the group is silent
	}
	return m.Commit(ctx, needed)
}
