package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// admit catches up with the watches, and has the engine record this ledger as the first one of each
// new watch. This is committed before the ledger is matched against them: after a crash in between,
// the ledger is read again, and the watch is known.
func (r *Reading) admit(ctx context.Context, ledger uint32) (offsets map[int32]int64, err error) {
	offsets, err = r.config.Watches.CatchUp(ctx)
	if err != nil {
		return nil, fmt.Errorf("follower: catching up with the watches: %w", err)
	}
	known, pending := r.pending, make(map[string]bool)
	nowMillis := r.config.Now().UnixMilli()
	var listing error
	err = r.commitParts(ctx, func(yield func(kafka.Record) bool) {
		listing = r.config.Watches.EachUnadmitted(func(w domain.Watch) error {
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
	r.pending = pending
	return offsets, nil
}

var errStopped = errors.New("the listing was stopped")

// admission returns the command that records the first ledger of a watch. Its id depends on the
// watch's revision, because a watch that missed ledgers without an endpoint is admitted again. If
// there are several such commands, the first one counts.
func admission(w domain.Watch, ledger uint32, nowMillis int64) kafka.Record {
	c := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "live", w.ID,
			decimal(ledger), decimal(w.Revision)),
		AccountID:      w.AccountID,
		IssuedAtMillis: nowMillis,
		Body:           domain.RecordCoverage{WatchID: w.ID, LiveSince: ledger},
	}
	return record(schemas.TopicCommands, w.ID, schemas.EncodeCommand(c))
}

// admitted selects the watches that see a ledger: those whose first ledger is recorded, or will be.
// All others were acknowledged too late for it.
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
