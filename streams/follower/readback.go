package follower

import (
	"context"
	"fmt"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/intake"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// maxReadBack bounds the records of a topic that are read back: those of one ledger, or of a few in
// a copy. If there are more, cursors were lost.
const maxReadBack = 4_000_000

type appendedByLedger map[uint32]appended

// ofNoLedger is the key of matches that do not name their ledger.
const ofNoLedger = 0

func (a appendedByLedger) of(ledger uint32) appended {
	of := a[ledger]
	of.unplaced = a[ofNoLedger].events
	return of
}

func (a appendedByLedger) entry(ledger uint32) appended {
	of, found := a[ledger]
	if !found {
		of = appended{
			observed: make(map[string]bool),
			moves:    make(map[string]bool),
			events:   make(map[string]bool),
			payments: make(map[string]bool),
			watches:  make(map[string]bool),
		}
		a[ledger] = of
	}
	return of
}

// behind reports whether there are records of a later ledger. A copy of a deployment has some,
// because its follower continued after the cursor was read (package transfer).
func (a appendedByLedger) behind(ledger uint32) bool {
	for of := range a {
		if of > ledger {
			return true
		}
	}
	return false
}

type appended struct {
	observed map[string]bool
	moves    map[string]bool
	events   map[string]bool
	payments map[string]bool // payments that were matched
	watches  map[string]bool // watches that have an event
	unplaced map[string]bool // events without a known ledger
}

func (a appended) has(eventID string) bool { return a.events[eventID] || a.unplaced[eventID] }

// readBack finds the payments and matches that were committed for ledgers after the cursor. They
// are kept: a payment is not appended again, and a match keeps its endpoint and body.
func (r *Reading) readBack(ctx context.Context, cursor schemas.LedgerRead) (err error) {
	r.appended = make(appendedByLedger)
	if r.ends, err = r.readEnds(ctx); err != nil {
		return err
	}
	if r.readFrom.payments, err = r.readBackPayments(ctx, cursor); err != nil {
		return err
	}
	r.readFrom.matches, err = r.readBackMatches(ctx, cursor)
	return err
}

type topicEnds struct{ matches, payments map[int32]int64 }

func (r *Reading) readEnds(ctx context.Context) (ends topicEnds, err error) {
	ends.matches, err = r.log.Of(ctx, schemas.TopicMatches)
	if err != nil {
		return ends, err
	}
	ends.payments, err = r.log.Of(ctx, schemas.TopicPayments)
	return ends, err
}

func (r *Reading) readBackMatches(
	ctx context.Context, cursor schemas.LedgerRead,
) (from map[int32]int64, err error) {
	partitionOf := r.log.PartitionOf(schemas.TopicMatches, len(r.ends.matches))
	return r.readBackTopic(ctx, schemas.TopicMatches, cursor, cursor.MatchesOffsets, r.ends.matches,
		func(rec kafka.Record) (ledger uint32, add func(appended), err error) {
			m, err := intake.Matched(rec, partitionOf)
			return m.Ledger, func(of appended) {
				of.events[m.EventID], of.payments[m.PaymentID], of.watches[m.WatchID] = true, true, true
			}, err
		})
}

func (r *Reading) readBackPayments(
	ctx context.Context, cursor schemas.LedgerRead,
) (from map[int32]int64, err error) {
	return r.readBackTopic(ctx, schemas.TopicPayments, cursor, cursor.PaymentsOffsets,
		r.ends.payments, func(rec kafka.Record) (ledger uint32, add func(appended), err error) {
			if schemas.IsBalanceMoved(rec) {
				m, err := intake.Move(rec)
				return m.Move.Ledger, func(of appended) { of.moves[m.Move.ID] = true }, err
			}
			p, err := intake.Payment(rec)
			return p.Payment.Ledger, func(of appended) { of.observed[p.Payment.ID] = true }, err
		})
}

// readBackTopic reads a topic's records of ledgers after the cursor, and returns where it started.
// read returns a record's ledger, and what to add to the ledger's entry.
func (r *Reading) readBackTopic(
	ctx context.Context, topic string, cursor schemas.LedgerRead, offsets, ends map[int32]int64,
	read func(kafka.Record) (ledger uint32, add func(appended), err error),
) (from map[int32]int64, err error) {
	if from, err = r.log.Starts(ctx, topic); err != nil {
		return nil, err
	}
	for p := range from {
		from[p] = max(from[p], offsets[p])
	}
	n := 0
	err = r.log.Read(ctx, topic, from, ends, func(rec kafka.Record) error {
		ledger, add, err := read(rec)
		if err != nil { // consumers make it a dead letter, so it has no effect
			r.config.Logger.Warn("skipping an invalid record", "topic", topic,
				"partition", rec.Partition, "offset", rec.Offset, "err", err)
			return nil
		}
		if ledger != ofNoLedger && ledger <= cursor.Sequence {
			return nil
		}
		if n++; n > maxReadBack {
			return fmt.Errorf("the topic %q has more than %d records of ledgers after "+
				"the cursor %d: the topic %q has lost its last records; restore it, or start over with "+
				"another topic prefix", topic, maxReadBack, cursor.Sequence, schemas.TopicLedgers)
		}
		add(r.appended.entry(ledger))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading back the records of topic %q after the cursor: %w", topic, err)
	}
	return from, nil
}
