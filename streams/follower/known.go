package follower

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// knownMax bounds the events that backfills keep in memory.
	knownMax = 1_000_000
	// clockSkew is how far the clock of the program that appended a match may be behind the network's.
	clockSkew = time.Hour
)

var (
	// errForgotten means that matches that a backfill needs may have been deleted.
	errForgotten = errors.New("the topic of matches no longer has all matches since then")
	errTooMany   = errors.New("the watch has too many events in these ledgers")
)

// knownEvents are a watch's events in ledgers that are matched against it again.
type knownEvents struct {
	domain.Range
	request uint64
	events  map[string]bool
}

// learnEvents reads which payments of a part already have an event, which means that their match is
// in the log.
//
// All matches for these ledgers are already there: the live follower is past them, and this
// backfiller has taken over from any other.
func (b *Backfiller) learnEvents(
	ctx context.Context, w domain.Watch, part domain.Part, first domain.Ledger,
) error {
	k := b.known[w.ID]
	if k.request == w.Backfill.Request && part.Within(k.Range) {
		return nil
	}
	delete(b.known, w.ID)
	others := 0
	for _, of := range b.known {
		others += 1 + len(of.events)
	}
	k = knownEvents{
		Range:   domain.Range{From: part.From, To: max(part.To, min(w.Backfill.Until, b.done.Load()))},
		request: w.Backfill.Request,
		events:  make(map[string]bool),
	}
	since, err := b.matchesSince(ctx, w, first)
	if err != nil {
		return err
	}
	ends, err := b.log.Of(ctx, schemas.TopicMatches)
	if err != nil {
		return err
	}
	partitionOf := b.log.PartitionOf(schemas.TopicMatches, len(ends))
	err = b.log.Read(ctx, schemas.TopicMatches, since, ends, func(rec kafka.Record) error {
		m, err := intake.Matched(rec, partitionOf)
		if err == nil && m.WatchID == w.ID && (m.Ledger == ofNoLedger ||
			k.From <= m.Ledger && m.Ledger <= k.To) {
			k.events[m.EventID] = true
		}
		if others > 0 && others+len(k.events) > knownMax { // they are read again
			clear(b.known)
			others = 0
		}
		if len(k.events) > knownMax {
			return errTooMany
		}
		return nil // an invalid match is not an event
	})
	if err != nil {
		return fmt.Errorf("follower: reading which events a watch has: %w", err)
	}
	b.known[w.ID] = k
	return nil
}

// matchesSince returns the offsets from which the topic of matches has all matches of a watch in a
// ledger and later ones, or errForgotten if some may be deleted.
//
// A match is appended after its ledger closed and its watch was created. So a partition has all of
// them if nothing was ever deleted from it, or if it still has a record from before both times.
// Otherwise, a cursor may prove it: the matches of later ledgers are after the offsets that it
// names.
func (b *Backfiller) matchesSince(
	ctx context.Context, w domain.Watch, of domain.Ledger,
) (since map[int32]int64, err error) {
	starts, err := b.log.Starts(ctx, schemas.TopicMatches)
	if err != nil {
		return nil, err
	}
	began := max(of.ClosedAtMillis, w.CreatedAtMillis) - clockSkew.Milliseconds()
	if since, err = b.log.Since(ctx, schemas.TopicMatches, began); err != nil {
		return nil, err
	}
	cut := slices.DeleteFunc(kafka.Partitions(starts), func(p int32) bool {
		return starts[p] == 0 || since[p] > starts[p]
	})
	if len(cut) == 0 {
		return since, nil
	}
	before, err := cursorBefore(ctx, b.log, of.Sequence)
	if err != nil {
		return nil, err
	}
	for _, p := range cut {
		if offset, named := before.MatchesOffsets[p]; !named || offset < starts[p] {
			return nil, fmt.Errorf("%w: partition %d begins at offset %d", errForgotten, p, starts[p])
		}
	}
	return since, nil
}
