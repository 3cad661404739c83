package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/intake"
)

// mostStanding bounds the matches that are read back. Behind the cursor stand
// those of one ledger at most, so more of them are not our own.
const mostStanding = 4_000_000

// standing are the matches that stand, by ledger.
type standing map[uint32]made

// ofNoLedger is under which ledger those stand that do not say of which they are.
const ofNoLedger = 0

// of gives what stands of a ledger.
func (s standing) of(ledger uint32) made {
	of := s[ledger]
	of.unplaced = s[ofNoLedger].events
	return of
}

// made are the matches that were made of a ledger.
type made struct {
	events   map[string]bool
	payments map[string]bool // that were matched
	unplaced map[string]bool // events of no known ledger
}

func (m made) stands(eventID string) bool { return m.events[eventID] || m.unplaced[eventID] }

// readBack finds the matches of ledgers behind the cursor. They were committed
// before the cursor could be, and they stand: with the endpoint and the body that
// they have.
func (f *Reading) readBack(ctx context.Context, cursor schemas.LedgerRead) error {
	from, err := f.log.Starts(ctx, schemas.TopicMatches)
	if err != nil {
		return err
	}
	if f.ends, err = f.log.Ends(ctx, schemas.TopicMatches); err != nil {
		return err
	}
	for p := range from {
		from[p] = max(from[p], cursor.MatchesOffsets[p])
	}
	f.standing = make(standing)
	partitionOf := f.log.PartitionOf(schemas.TopicMatches, len(from))
	n := 0
	err = f.log.Read(ctx, schemas.TopicMatches, from, f.ends, func(r streams.Record) error {
		m, err := intake.Matched(r, partitionOf)
		if err != nil { // the engine sets it aside: no delivery comes of it
			f.config.Logger.Warn("a record among the matches does not count and is passed over", "partition",
				r.Partition, "offset", r.Offset, "err", err)
			return nil
		}
		if m.Ledger != ofNoLedger && m.Ledger <= cursor.Sequence {
			return nil
		}
		if n++; n > mostStanding {
			return fatal{fmt.Errorf("the topic %q has more than %d matches of ledgers behind the cursor "+
				"%d: the topic %q has lost its last records; restore it, or begin with topics of another prefix",
				schemas.TopicMatches, mostStanding, cursor.Sequence, schemas.TopicLedgers)}
		}
		f.standing.add(m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("follower: reading back what was matched: %w", err)
	}
	return nil
}

func (s standing) add(m schemas.MatchMade) {
	of, found := s[m.Ledger]
	if !found {
		of = made{events: make(map[string]bool), payments: make(map[string]bool)}
		s[m.Ledger] = of
	}
	of.events[m.EventID], of.payments[m.PaymentID] = true, true
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
