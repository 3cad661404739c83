package follower

import (
	"context"
	"fmt"
	"iter"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// appendedAtOnce bounds the records that are passed to the log in one call.
const appendedAtOnce = 1000

// Follow reads ledgers from the cursor on, until something fails. advanced reports whether
// it read any.
func (f *Reading) Follow(ctx context.Context) (advanced bool, err error) {
	if !f.isElected() {
		return false, errNotElected
	}
	if err := f.log.TakeOver(ctx); err != nil {
		return false, err
	}
	f.pending = nil
	next, err := f.position(ctx)
	if err != nil {
		return false, err
	}
	f.at.Store(next - 1)
	f.started()
	if _, err := f.admit(ctx, next); err != nil {
		return false, err
	}
	defer f.priority.leave()
	for {
		f.priority.leave()
		page, err := f.config.Source.Next(ctx, next)
		f.priority.take()
		if err != nil {
			return advanced, retry.Permanent(err)
		}
		// One catch-up serves the page: all its ledgers closed before it.
		offsets, err := f.admit(ctx, next)
		if err != nil {
			return advanced, err
		}
		if f.ends, err = f.readTopics(ctx); err != nil {
			return advanced, err
		}
		for _, l := range page {
			if err := f.read(ctx, l, next, offsets); err != nil {
				return advanced, err
			}
			next, advanced = next+1, true
		}
	}
}

// position returns the ledger to read next, and reads back what was appended after the
// cursor.
func (f *Reading) position(ctx context.Context) (next uint32, err error) {
	cursor, found, err := f.readCursor(ctx)
	if err != nil {
		return 0, err
	}
	if err := f.readBack(ctx, cursor); err != nil {
		return 0, err
	}
	if found {
		f.config.Source.Continue(cursor.Sequence, cursor.Hash)
		f.config.Logger.Info("following the ledger from its cursor", "ledger", cursor.Sequence+1)
		return cursor.Sequence + 1, nil
	}
	f.config.Source.Continue(0, "")
	if f.config.Start.Sequence > 0 {
		f.config.Logger.Info("following the ledger from its start", "ledger", f.config.Start.Sequence)
		return f.config.Start.Sequence, nil
	}
	return f.anchor(ctx)
}

// anchor makes the newest ledger the cursor, so that after a crash right after the first
// start, following does not begin later and skip ledgers in between.
func (f *Reading) anchor(ctx context.Context) (next uint32, err error) {
	if !f.isElected() {
		return 0, errNotElected
	}
	latest, err := f.config.Source.Latest(ctx)
	if err != nil {
		return 0, fmt.Errorf("follower: asking for the newest ledger: %w", err)
	}
	page, err := f.config.Source.Next(ctx, latest)
	if err != nil {
		return 0, retry.Permanent(err)
	}
	l := page[0]
	if err := f.check(l, latest); err != nil {
		return 0, err
	}
	f.config.Source.Continue(l.Sequence, l.Hash) // the page may have held more
	if err := f.commitCursor(ctx, l, matched{}, nil, f.config.Now().UnixMilli()); err != nil {
		return 0, err
	}
	f.config.Logger.Info("following the ledger from the newest one on", "ledger", l.Sequence+1)
	return l.Sequence + 1, nil
}

// read appends one ledger's payments and matches, and then the cursor. What was already
// matched of it is kept.
func (f *Reading) read(
	ctx context.Context, l domain.Ledger, due uint32, offsets map[int32]int64,
) error {
	if !f.isElected() {
		return errNotElected
	}
	if err := f.check(l, due); err != nil {
		return err
	}
	f.at.Store(l.Sequence)
	s, err := match(l.Payments, admitted{f, l.Sequence}, f.existing.of(l.Sequence))
	if err != nil {
		return err
	}
	nowMillis := f.config.Now().UnixMilli()
	if err := f.commitParts(ctx, f.eachRecord(l, s, nowMillis)); err != nil {
		return err
	}
	summary := LedgerSummary{Ledger: l, Observed: s.observed, Matches: s.matches}
	f.config.OnMatched(summary)
	if err := f.commitCursor(ctx, l, s, offsets, nowMillis); err != nil {
		return err
	}
	delete(f.existing, l.Sequence)
	f.config.OnLedger(summary)
	return nil
}

// check checks that a ledger is the one that is due, and logs which of its transactions
// cannot be read.
func (f *Reading) check(l domain.Ledger, due uint32) error {
	if l.Sequence != due {
		return retry.Permanent(fmt.Errorf("the source gave ledger %d where %d is due", l.Sequence, due))
	}
	for _, q := range l.Quarantined {
		f.config.Logger.Error("a transaction cannot be read; payments in it, if any, are not reported: "+
			"docs/operations.md (Protocol changes) says how to deliver them later", "ledger", l.Sequence,
			"txHash", q.TxHash, "reason", q.Reason)
	}
	return nil
}

// eachRecord iterates over the records to append for a ledger before its cursor.
func (f *Reading) eachRecord(l domain.Ledger, s matched, nowMillis int64) iter.Seq[streams.Record] {
	return func(yield func(streams.Record) bool) {
		for r := range s.eachRecord(nowMillis) {
			if !yield(r) {
				return
			}
		}
		for _, q := range l.Quarantined {
			m := schemas.EncodeTransactionQuarantined(schemas.TransactionQuarantined{
				NetworkPassphrase: f.config.Passphrase,
				Ledger:            l.Sequence,
				ClosedAtMillis:    l.ClosedAtMillis,
				TxHash:            q.TxHash,
				Order:             q.Order,
				Reason:            q.Reason,
				ReadAtMillis:      nowMillis,
			})
			if !yield(record(schemas.TopicQuarantine, q.TxHash, m)) {
				return
			}
		}
	}
}

// inParts passes records on in bounded slices.
func inParts(records iter.Seq[streams.Record], put func(part []streams.Record) error) error {
	var part []streams.Record
	for r := range records {
		if part = append(part, r); len(part) < appendedAtOnce {
			continue
		}
		if err := put(part); err != nil {
			return err
		}
		part = part[:0]
	}
	if len(part) == 0 {
		return nil
	}
	return put(part)
}

func (f *Reading) commitParts(ctx context.Context, records iter.Seq[streams.Record]) error {
	return inParts(records, func(part []streams.Record) error { return f.log.Commit(ctx, part...) })
}

func (f *Reading) commitCursor(
	ctx context.Context, l domain.Ledger, s matched, offsets map[int32]int64, nowMillis int64,
) error {
	return f.log.Commit(ctx, record(schemas.TopicLedgers, f.config.Passphrase,
		schemas.EncodeLedgerRead(schemas.LedgerRead{
			NetworkPassphrase: f.config.Passphrase,
			Sequence:          l.Sequence,
			Hash:              l.Hash,
			ClosedAtMillis:    l.ClosedAtMillis,
			Transactions:      l.Transactions,
			Payments:          len(l.Payments),
			Observed:          len(s.observed),
			Matches:           len(s.matches) + len(s.before.events),
			WatchesOffsets:    offsets,
			MatchesOffsets:    f.ends.matches,
			PaymentsOffsets:   f.ends.payments,
			ReadAtMillis:      nowMillis,
		})))
}
