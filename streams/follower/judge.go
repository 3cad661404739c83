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

// maxExisting bounds the records of a topic that are read back. After the cursor there are
// those of one ledger at most, so if there are more, others wrote them.
const maxExisting = 4_000_000

// existing are the payments and matches that were already appended, by ledger.
type existing map[uint32]written

// ofNoLedger is the key of matches that do not name their ledger.
const ofNoLedger = 0

// of returns what was already appended for a ledger.
func (e existing) of(ledger uint32) written {
	of := e[ledger]
	of.unplaced = e[ofNoLedger].events
	return of
}

// at returns the entry of a ledger, to add to.
func (e existing) at(ledger uint32) written {
	of, found := e[ledger]
	if !found {
		of = written{
			observed: make(map[string]bool),
			events:   make(map[string]bool),
			payments: make(map[string]bool),
		}
		e[ledger] = of
	}
	return of
}

// written is what was appended for a ledger.
type written struct {
	observed map[string]bool // payments
	events   map[string]bool
	payments map[string]bool // payments that were matched
	unplaced map[string]bool // events without a known ledger
}

func (w written) has(eventID string) bool { return w.events[eventID] || w.unplaced[eventID] }

// readBack finds the payments and matches of ledgers after the cursor. They were committed
// before the cursor could be, and are kept: a payment is not appended again, a match keeps
// its endpoint and body.
func (f *Reading) readBack(ctx context.Context, cursor schemas.LedgerRead) (err error) {
	f.existing = make(existing)
	if f.ends, err = f.readTopics(ctx); err != nil {
		return err
	}
	if err := f.readBackPayments(ctx, cursor); err != nil {
		return err
	}
	return f.readBackMatches(ctx, cursor)
}

// appended are the topics that a ledger's records are appended to before its cursor.
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
		func(r streams.Record) (ledger uint32, add func(written), err error) {
			m, err := intake.Matched(r, partitionOf)
			return m.Ledger, func(of written) {
				of.events[m.EventID], of.payments[m.PaymentID] = true, true
			}, err
		})
}

// readBackPayments skips what a cursor of an older version does not say: its ledger's
// payments are then appended again, under the same ids.
func (f *Reading) readBackPayments(ctx context.Context, cursor schemas.LedgerRead) error {
	if cursor.Sequence > 0 && len(cursor.PaymentsOffsets) == 0 {
		return nil
	}
	return f.readBackTopic(ctx, schemas.TopicPayments, cursor, cursor.PaymentsOffsets,
		f.ends.payments, func(r streams.Record) (ledger uint32, add func(written), err error) {
			p, err := intake.Payment(r)
			return p.Payment.Ledger, func(of written) { of.observed[p.Payment.ID] = true }, err
		})
}

// readBackTopic reads one topic's records of ledgers after the cursor. read returns the
// ledger of a record, and what to add to the entry of that ledger.
func (f *Reading) readBackTopic(
	ctx context.Context, topic string, cursor schemas.LedgerRead, offsets, ends map[int32]int64,
	read func(streams.Record) (ledger uint32, add func(written), err error),
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
		if err != nil { // consumers send it to dead letters: it has no effect
			f.config.Logger.Warn("a record does not count and is passed over", "topic", topic,
				"partition", r.Partition, "offset", r.Offset, "err", err)
			return nil
		}
		if ledger != ofNoLedger && ledger <= cursor.Sequence {
			return nil
		}
		if n++; n > maxExisting {
			return retry.Permanent(fmt.Errorf("the topic %q has more than %d records of ledgers behind "+
				"the cursor %d: the topic %q has lost its last records; restore it, or begin with topics of "+
				"another prefix", topic, maxExisting, cursor.Sequence, schemas.TopicLedgers))
		}
		add(f.existing.at(ledger))
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading back what the topic %q has behind the cursor: %w", topic, err)
	}
	return nil
}

// admit catches up with the watches, and has the engine record this ledger as the first one
// of each new watch. That is committed before the first of them is matched: after a crash
// in between, the ledger is read again with the watch present.
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

// errStopped ends a listing early.
var errStopped = errors.New("the listing was broken off")

// admission returns the command that records the first ledger of a watch. Its id is derived
// from both, and the first command of a watch is the one that counts.
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

// admitted are the watches that a ledger is matched against: those whose first ledger is
// recorded, or will be. Any other was acknowledged too late for it.
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
