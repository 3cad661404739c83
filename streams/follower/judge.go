package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/intake"
)

// mostStanding bounds the records of a topic that are read back. Behind the cursor
// stand those of one ledger at most, so more of them are not our own.
const mostStanding = 4_000_000

// standing are the payments and matches that stand, by ledger.
type standing map[uint32]made

// ofNoLedger is under which ledger those stand that do not say of which they are.
const ofNoLedger = 0

// of returns what stands of a ledger.
func (s standing) of(ledger uint32) made {
	of := s[ledger]
	of.unplaced = s[ofNoLedger].events
	return of
}

// at returns what stands of a ledger, to be added to.
func (s standing) at(ledger uint32) made {
	of, found := s[ledger]
	if !found {
		of = made{
			observed: make(map[string]bool),
			events:   make(map[string]bool),
			payments: make(map[string]bool),
		}
		s[ledger] = of
	}
	return of
}

// made is what was written of a ledger.
type made struct {
	observed map[string]bool // payments
	events   map[string]bool
	payments map[string]bool // that were matched
	unplaced map[string]bool // events of no known ledger
}

func (m made) stands(eventID string) bool { return m.events[eventID] || m.unplaced[eventID] }

// readBack finds the payments and matches of ledgers behind the cursor. They were
// committed before the cursor could be, and they stand: a payment is not written
// again, a match keeps the endpoint and the body that it has.
func (f *Reading) readBack(ctx context.Context, cursor schemas.LedgerRead) (err error) {
	f.standing = make(standing)
	if f.ends, err = f.readTopics(ctx); err != nil {
		return err
	}
	if err := f.readBackPayments(ctx, cursor); err != nil {
		return err
	}
	return f.readBackMatches(ctx, cursor)
}

// appended are the topics that reading a ledger writes to before its cursor.
type appended struct {
	matches, payments map[int32]int64 // their ends
}

func (f *Reading) readTopics(ctx context.Context) (at appended, err error) {
	if at.matches, err = f.log.Ends(ctx, schemas.TopicMatches); err != nil {
		return at, err
	}
	at.payments, err = f.log.Ends(ctx, schemas.TopicPayments)
	return at, err
}

func (f *Reading) readBackMatches(ctx context.Context, cursor schemas.LedgerRead) error {
	partitionOf := f.log.PartitionOf(schemas.TopicMatches, len(f.ends.matches))
	return f.readBackTopic(ctx, schemas.TopicMatches, cursor, cursor.MatchesOffsets, f.ends.matches,
		func(r streams.Record) (ledger uint32, add func(made), err error) {
			m, err := intake.Matched(r, partitionOf)
			return m.Ledger, func(of made) {
				of.events[m.EventID], of.payments[m.PaymentID] = true, true
			}, err
		})
}

// readBackPayments does without what a cursor of an older version does not say: its
// ledger's payments are then written again, under the ids that they have.
func (f *Reading) readBackPayments(ctx context.Context, cursor schemas.LedgerRead) error {
	if cursor.Sequence > 0 && len(cursor.PaymentsOffsets) == 0 {
		return nil
	}
	return f.readBackTopic(ctx, schemas.TopicPayments, cursor, cursor.PaymentsOffsets,
		f.ends.payments, func(r streams.Record) (ledger uint32, add func(made), err error) {
			p, err := intake.Payment(r)
			return p.Payment.Ledger, func(of made) { of.observed[p.Payment.ID] = true }, err
		})
}

// readBackTopic reads what one topic has of ledgers behind the cursor. read returns
// the ledger of a record, and what to add to what stands of it.
func (f *Reading) readBackTopic(
	ctx context.Context, topic string, cursor schemas.LedgerRead, offsets, ends map[int32]int64,
	read func(streams.Record) (ledger uint32, add func(made), err error),
) error {
	from, err := f.log.Starts(ctx, topic)
	if err != nil {
		return err
	}
	for p := range from {
		from[p] = max(from[p], offsets[p])
	}
	n := 0
	err = f.log.Read(ctx, topic, from, ends, func(r streams.Record) error {
		ledger, add, err := read(r)
		if err != nil { // its reader sets it aside: nothing comes of it
			f.config.Logger.Warn("a record does not count and is passed over", "topic", topic,
				"partition", r.Partition, "offset", r.Offset, "err", err)
			return nil
		}
		if ledger != ofNoLedger && ledger <= cursor.Sequence {
			return nil
		}
		if n++; n > mostStanding {
			return retry.Permanent(fmt.Errorf("the topic %q has more than %d records of ledgers behind "+
				"the cursor %d: the topic %q has lost its last records; restore it, or begin with topics of "+
				"another prefix", topic, mostStanding, cursor.Sequence, schemas.TopicLedgers))
		}
		add(f.standing.at(ledger))
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading back what the topic %q has behind the cursor: %w", topic, err)
	}
	return nil
}

// admit catches up with the watches, and has the engine record of each that is
// seen for the first time that it is held against every ledger from this one on.
// That is committed before the first of them is matched: a crash in between reads
// the ledger again with the watch present.
func (f *Reading) admit(ctx context.Context, ledger uint32) (offsets map[int32]int64, err error) {
	offsets, err = f.config.Watches.CatchUp(ctx)
	if err != nil {
		return nil, fmt.Errorf("follower: catching up with the watches: %w", err)
	}
	known, pending := f.pending, make(map[string]bool)
	nowMillis := f.config.Now().UnixMilli()
	var listing error
	err = f.commitParts(ctx, func(yield func(streams.Record) bool) {
		listing = f.config.Watches.EachUnadmitted(func(w domain.Watch) error {
			pending[w.ID] = true
			if !known[w.ID] && !yield(admission(w, ledger, nowMillis)) {
				return errStopped
			}
			return nil
		})
	})
	if err = cmp.Or(err, listing); err != nil {
		return nil, fmt.Errorf("follower: admitting new watches: %w", err)
	}
	f.pending = pending
	return offsets, nil
}

// errStopped ends a listing whose reader wants no more.
var errStopped = errors.New("the listing was broken off")

// admission is the command that says from which ledger on a watch is seen. Its id
// is a function of both, and the first of a watch is the one that counts.
func admission(w domain.Watch, ledger uint32, nowMillis int64) streams.Record {
	c := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "live", w.ID,
			strconv.FormatUint(uint64(ledger), 10)),
		AccountID:      w.AccountID,
		IssuedAtMillis: nowMillis,
		Body:           domain.RecordCoverage{WatchID: w.ID, LiveSince: ledger},
	}
	return record(schemas.TopicCommands, w.ID, schemas.EncodeCommand(c))
}

// admitted are the watches that a ledger is held against: those of which it is
// recorded, or will be, that they see it. Another was acknowledged too late for it.
type admitted struct {
	reading *Reading
	ledger  uint32
}

func (a admitted) ByWallet(wallet string) ([]domain.Watch, error) {
	watches, err := a.reading.config.Watches.ByWallet(wallet)
	return slices.DeleteFunc(watches, func(w domain.Watch) bool {
		return !a.reading.pending[w.ID] && (w.LiveSince == 0 || w.LiveSince > a.ledger)
	}), err
}
