package follower

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const appendedAtOnce = 1000

// anchorWait bounds the wait for the ledger that a source reports as its newest.
const anchorWait = 15 * time.Second

// Follow reads ledgers from the cursor on until an error. advanced reports whether it read any.
func (r *Reading) Follow(ctx context.Context) (advanced bool, err error) {
	if !r.isElected() {
		return false, errNotElected
	}
	if err := r.log.TakeOver(ctx); err != nil {
		return false, err
	}
	r.pending = nil
	next, err := r.position(ctx)
	if err != nil {
		return false, err
	}
	r.at.Store(next - 1)
	r.done.Store(next - 1)
	r.started()
	if _, err := r.admit(ctx, next); err != nil {
		return false, err
	}
	defer r.priority.end()
	for {
		r.priority.end()
		page, err := r.source.Next(ctx, next)
		r.priority.begin()
		if err != nil {
			return advanced, err
		}
		// One catch-up is enough, because all ledgers of the page closed before it.
		offsets, err := r.admit(ctx, next)
		if err != nil {
			return advanced, err
		}
		if r.ends, err = r.readEnds(ctx); err != nil {
			return advanced, err
		}
		for i, l := range page {
			if err := r.commitLedger(ctx, l, next, offsets); err != nil {
				return advanced, err
			}
			page[i] = domain.Ledger{} // frees the data of its moves
			next, advanced = next+1, true
		}
	}
}

// position returns the ledger to read next, and reads back what was appended after the cursor.
func (r *Reading) position(ctx context.Context) (next uint32, err error) {
	cursor, found, err := readCursor(ctx, r.log, r.config.Passphrase)
	if err != nil {
		return 0, err
	}
	r.base.Store(domain.ChainBase(cursor.Sequence))
	r.last.Store(&cursor)
	r.known, r.from = r.from == cursor.Sequence+1, cursor.Sequence+1
	if found || r.config.Start.Sequence > 0 {
		r.positioned() // no ledger is skipped
	}
	if err := r.readBack(ctx, cursor); err != nil {
		return 0, err
	}
	r.covered = covered{cursor.Coverage, cursor.MovesSince, cursor.MovesSinceMillis}
	if found {
		if err := r.checkTrusted(ctx, cursor); err != nil {
			return 0, err
		}
		r.source.Continue(cursor.Sequence, followedHash(cursor))
		r.say(slog.LevelInfo, "following the ledger from its cursor", "ledger", cursor.Sequence+1)
		return cursor.Sequence + 1, nil
	}
	r.source.Continue(0, "")
	if r.config.Start.Sequence > 0 {
		r.say(slog.LevelInfo, "following the ledger from its start", "ledger", r.config.Start.Sequence)
		return r.config.Start.Sequence, nil
	}
	return r.anchor(ctx)
}

// say logs where following begins, once per position.
func (r *Reading) say(level slog.Level, message string, args ...any) {
	if r.known {
		level = slog.LevelDebug
	}
	r.config.Logger.Log(context.Background(), level, message, args...)
}

// anchor makes the newest ledger the cursor, so that if the process crashes after the first start,
// it does not begin later and skip ledgers.
//
// A source may give one wrong answer, and there is no earlier ledger to check it against. So it
// must report this ledger or a later one twice, and the next ledger need not follow it
// ([followedHash]).
func (r *Reading) anchor(ctx context.Context) (next uint32, err error) {
	if !r.isElected() {
		return 0, errNotElected
	}
	latest, err := r.source.Latest(ctx)
	if err != nil {
		return 0, fmt.Errorf("follower: getting the newest ledger: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, anchorWait)
	defer cancel()
	page, err := r.source.Next(waiting, latest)
	if err != nil {
		return 0, fmt.Errorf("follower: waiting for ledger %d, the source's newest: %w",
			latest, err)
	}
	l := page[0]
	if err := r.check(l, latest); err != nil {
		return 0, err
	}
	again, err := r.source.Latest(ctx)
	if err != nil {
		return 0, fmt.Errorf("follower: getting the newest ledger again: %w", err)
	}
	if again < latest {
		return 0, fmt.Errorf("follower: finding the first ledger: the source reported ledger %d as "+
			"its newest, and then ledger %d", latest, again)
	}
	r.source.Continue(l.Sequence, "") // the page may have contained more
	// Its content was not read, so it is not covered.
	if err := r.commitCursor(ctx, l, matched{}, nil, r.config.Now().UnixMilli()); err != nil {
		return 0, err
	}
	r.positioned()
	r.config.Logger.Info("following the ledger from the newest one on", "ledger", l.Sequence+1)
	return l.Sequence + 1, nil
}

// commitLedger commits one ledger's payments and matches, and then the cursor.
func (r *Reading) commitLedger(
	ctx context.Context, l domain.Ledger, due uint32, offsets map[int32]int64,
) error {
	if !r.isElected() {
		return errNotElected
	}
	if err := r.check(l, due); err != nil {
		return err
	}
	r.at.Store(l.Sequence)
	s, err := match(l.Payments, admitted{r, l.Sequence}, r.appended.of(l.Sequence), claims{
		ask: r.claim(ctx), missing: r.missing, ledger: l.Sequence})
	if err != nil {
		return err
	}
	if s.moves, err = r.moves(l); err != nil {
		return err
	}
	covered := r.covered.with(l)
	l.Moves = nil // already read
	nowMillis := r.config.Now().UnixMilli()
	if err := r.commitParts(ctx, r.eachRecord(l, s, nowMillis)); err != nil {
		return err
	}
	summary := LedgerSummary{Ledger: l, Observed: s.observed, Matches: s.matches}
	r.config.OnMatched(summary)
	r.covered = covered
	if err := r.commitCursor(ctx, l, s, offsets, nowMillis); err != nil {
		return err
	}
	r.done.Store(l.Sequence)
	delete(r.appended, l.Sequence)
	r.config.OnLedger(summary)
	return nil
}

// check checks that a ledger is the expected one, and logs its unreadable transactions.
func (r *Reading) check(l domain.Ledger, due uint32) error {
	if l.Sequence != due {
		return fmt.Errorf("the source returned ledger %d, but ledger %d is due", l.Sequence, due)
	}
	for _, q := range l.Quarantined {
		r.config.Logger.Error("a transaction cannot be read; payments in it, if any, are not reported "+
			"(to deliver them later, see Protocol changes in docs/operate/troubleshoot.md)",
			"ledger", l.Sequence, "txHash", q.TxHash, "reason", q.Reason)
	}
	return nil
}

func (r *Reading) eachRecord(l domain.Ledger, s matched, nowMillis int64) iter.Seq[kafka.Record] {
	return func(yield func(kafka.Record) bool) {
		for _, records := range []iter.Seq[kafka.Record]{
			s.eachPayment(nowMillis), s.eachMove(nowMillis), s.eachMatch(nowMillis),
		} {
			for rec := range records {
				if !yield(rec) {
					return
				}
			}
		}
		for _, q := range l.Quarantined {
			m := schemas.EncodeTransactionQuarantined(schemas.TransactionQuarantined{
				NetworkPassphrase: r.config.Passphrase,
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

func inParts(records iter.Seq[kafka.Record], put func(part []kafka.Record) error) error {
	var part []kafka.Record
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

func (r *Reading) commitParts(ctx context.Context, records iter.Seq[kafka.Record]) error {
	return inParts(records, func(part []kafka.Record) error { return r.log.Commit(ctx, part...) })
}

func (r *Reading) commitCursor(
	ctx context.Context, l domain.Ledger, s matched, offsets map[int32]int64, nowMillis int64,
) error {
	behind := r.ends
	if r.appended.behind(l.Sequence) { // the active follower reads these back as well
		behind = r.readFrom
	}
	cursor := schemas.LedgerRead{
		NetworkPassphrase: r.config.Passphrase,
		Sequence:          l.Sequence,
		Hash:              l.Hash,
		ClosedAtMillis:    l.ClosedAtMillis,
		Transactions:      l.Transactions,
		Payments:          len(l.Payments),
		Observed:          len(s.observed),
		Matches:           len(s.matches) + len(s.already.events),
		WatchesOffsets:    offsets,
		MatchesOffsets:    behind.matches,
		PaymentsOffsets:   behind.payments,
		ReadAtMillis:      nowMillis,
		Coverage:          r.covered.ledgers,
		MovesSince:        r.covered.movesSince,
		MovesSinceMillis:  r.covered.movesSinceMillis,
	}
	err := r.log.Commit(ctx, record(schemas.TopicLedgers, r.config.Passphrase,
		schemas.EncodeLedgerRead(cursor)))
	if err == nil {
		r.last.Store(&cursor)
	}
	return err
}

// covered is the coverage that each cursor records, up to and including its own ledger.
type covered struct {
	ledgers          domain.Coverage
	movesSince       uint32 // 0 if no moves are recorded
	movesSinceMillis int64
}

// with returns the coverage including the next ledger.
func (c covered) with(l domain.Ledger) covered {
	c.ledgers = c.ledgers.Read(l.Sequence, l.Verified)
	switch {
	case l.Moves == nil:
		c.movesSince, c.movesSinceMillis = 0, 0
	case c.movesSince == 0:
		c.movesSince, c.movesSinceMillis = l.Sequence, l.ClosedAtMillis
	}
	return c
}
