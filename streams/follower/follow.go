package follower

import (
	"context"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/ledger"
)

// appendedAtOnce bounds the records that are handed to the log in one call.
const appendedAtOnce = 1000

// Follow reads ledgers from the cursor on, until something fails. advanced tells
// whether it read any.
func (f *Reading) Follow(ctx context.Context) (advanced bool, err error) {
	next, err := f.position(ctx)
	if err != nil {
		return false, err
	}
	f.at.Store(next - 1)
	f.started()
	defer f.way.leave()
	for {
		f.way.leave()
		page, err := f.config.Source.Next(ctx, next)
		f.way.take()
		if err != nil {
			return advanced, fatal{err}
		}
		// One barrier serves the page: all its ledgers closed before it.
		offsets, err := f.config.Watches.CatchUp(ctx)
		if err != nil {
			return advanced, fmt.Errorf("follower: catching up with the watches: %w", err)
		}
		for _, raw := range page {
			if err := f.read(ctx, raw, offsets); err != nil {
				return advanced, err
			}
			next, advanced = raw.Sequence+1, true
		}
	}
}

// position finds the ledger to read next.
func (f *Reading) position(ctx context.Context) (next uint32, err error) {
	cursor, found, err := f.readCursor(ctx)
	switch {
	case err != nil:
		return 0, err
	case found:
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

// anchor makes the newest ledger the cursor, so that a crash right after the
// first start does not begin later still, with ledgers in between that nobody
// read.
func (f *Reading) anchor(ctx context.Context) (next uint32, err error) {
	if !f.ours() {
		return 0, errNotOurs
	}
	latest, err := f.config.Source.Latest(ctx)
	if err != nil {
		return 0, fmt.Errorf("follower: asking for the newest ledger: %w", err)
	}
	page, err := f.config.Source.Next(ctx, latest)
	if err != nil {
		return 0, fatal{err}
	}
	l, err := f.extract(page[0])
	if err != nil {
		return 0, err
	}
	f.config.Source.Continue(l.Sequence, l.Hash) // the page may have held more
	if err := f.appendCursor(ctx, l, sifted{}, nil, f.config.Now().UnixMilli()); err != nil {
		return 0, err
	}
	f.config.Logger.Info("following the ledger from the newest one on", "ledger", l.Sequence+1)
	return l.Sequence + 1, nil
}

// read tells the log of one ledger: what it has for watched wallets, and then
// that it was read.
func (f *Reading) read(ctx context.Context, raw ledger.Raw, offsets map[int32]int64) error {
	if !f.ours() {
		return errNotOurs
	}
	l, err := f.extract(raw)
	if err != nil {
		return err
	}
	f.at.Store(l.Sequence)
	s, err := sift(l.Payments, f.config.Watches)
	if err != nil {
		return err
	}
	nowMillis := f.config.Now().UnixMilli()
	if err := f.appendSifted(ctx, s, nowMillis); err != nil {
		return err
	}
	if err := f.appendQuarantined(ctx, l, nowMillis); err != nil {
		return err
	}
	if err := f.appendCursor(ctx, l, s, offsets, nowMillis); err != nil {
		return err
	}
	f.config.OnLedger(LedgerSummary{Ledger: l, Observed: s.observed, Matches: s.matches})
	return nil
}

func (f *Reading) extract(raw ledger.Raw) (ledger.Ledger, error) {
	l, err := f.extractor.Read(raw)
	if err != nil {
		return l, fatal{fmt.Errorf("ledger %d cannot be read, and skipping it would miss its payments: a newer lumenhook may read it: %w", raw.Sequence, err)}
	}
	if l.Sequence != raw.Sequence {
		return l, fatal{fmt.Errorf("the source gave ledger %d where %d is due", l.Sequence, raw.Sequence)}
	}
	for _, q := range l.Quarantined {
		f.config.Logger.Error("a transaction cannot be read; payments in it, if any, are not reported", "ledger", l.Sequence, "txHash", q.TxHash, "reason", q.Reason)
	}
	return l, nil
}

func (f *Reading) appendSifted(ctx context.Context, s sifted, nowMillis int64) error {
	var batch []streams.Record
	for r := range s.eachRecord(nowMillis) {
		if batch = append(batch, r); len(batch) < appendedAtOnce {
			continue
		}
		if err := f.log.Append(ctx, batch...); err != nil {
			return err
		}
		batch = batch[:0]
	}
	if len(batch) == 0 {
		return nil
	}
	return f.log.Append(ctx, batch...)
}

// appendQuarantined keeps what could not be read where it can be looked into
// later. A ledger that is read again says it again, by the same hashes.
func (f *Reading) appendQuarantined(ctx context.Context, l ledger.Ledger, nowMillis int64) error {
	var records []streams.Record
	for _, q := range l.Quarantined {
		records = append(records, record(schemas.TopicQuarantine, q.TxHash, schemas.EncodeTransactionQuarantined(schemas.TransactionQuarantined{
			NetworkPassphrase: f.config.Passphrase, Ledger: l.Sequence, ClosedAtMillis: l.ClosedAtMillis,
			TxHash: q.TxHash, Order: q.Order, Reason: q.Reason, ReadAtMillis: nowMillis,
		})))
	}
	for part := range slices.Chunk(records, appendedAtOnce) {
		if err := f.log.Append(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}

func (f *Reading) appendCursor(ctx context.Context, l ledger.Ledger, s sifted, offsets map[int32]int64, nowMillis int64) error {
	return f.log.Append(ctx, record(schemas.TopicLedgers, f.config.Passphrase, schemas.EncodeLedgerRead(schemas.LedgerRead{
		NetworkPassphrase: f.config.Passphrase, Sequence: l.Sequence, Hash: l.Hash, ClosedAtMillis: l.ClosedAtMillis,
		Transactions: l.Transactions, Payments: len(l.Payments), Observed: len(s.observed), Matches: len(s.matches),
		WatchesOffsets: offsets, ReadAtMillis: nowMillis,
	})))
}
