package follower

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// chainPrefix is part of the names from which ids of later chains' balance moves are derived.
const chainPrefix = "chain"

// errFormerChain means that no source has the ledger any more.
var errFormerChain = errors.New("the ledger is from before the network was reset")

// numbered is a source that renumbers ledgers and everything derived from their numbers for the
// followed chain (see domain.LedgersPerChain).
type numbered struct {
	Source
	base *atomic.Uint32 // added to the source's numbers
}

// OfChain returns a source with the ledger numbers of the chain to which ledger belongs.
func OfChain(s Source, ledger uint32) Source {
	base := new(atomic.Uint32)
	base.Store(domain.ChainBase(ledger))
	return numbered{s, base}
}

// Latest returns the number of the newest ledger.
func (n numbered) Latest(ctx context.Context) (uint32, error) {
	latest, err := n.Source.Latest(ctx)
	return latest + n.base.Load(), err
}

// Continue sets the last ledger that was read.
func (n numbered) Continue(sequence uint32, hash string) {
	n.Source.Continue(sequence-min(sequence, n.base.Load()), hash)
}

// Next waits for a ledger, and returns it and those after it.
func (n numbered) Next(ctx context.Context, sequence uint32) ([]domain.Ledger, error) {
	base := n.base.Load()
	if domain.ChainBase(sequence) != base {
		return nil, fmt.Errorf("%w: %w: ledger %d was requested, but the current chain's ledgers have "+
			"numbers from %d on", domain.ErrBehindRetention, errFormerChain, sequence, base+1)
	}
	page, err := n.Source.Next(ctx, sequence-base)
	for i := range page {
		if base > 0 {
			page[i] = renumber(page[i], base)
		}
	}
	return page, err
}

func renumber(l domain.Ledger, base uint32) domain.Ledger {
	l.Sequence += base
	for i, p := range l.Payments {
		l.Payments[i].Ledger, l.Payments[i].ID = p.Ledger+base, renumberID(p.ID, base)
	}
	if moves := l.Moves; moves != nil {
		l.Moves = func(watched func(string) (bool, error)) (domain.LedgerMoves, error) {
			all, err := moves(watched)
			for i, m := range all.Moves {
				m.Ledger += base
				m.ID = domain.DeriveID(domain.MovePrefix, chainPrefix, decimal(base), m.ID)
				for j, id := range m.PaymentIDs {
					m.PaymentIDs[j] = renumberID(id, base)
				}
				all.Moves[i] = m
			}
			return all, err
		}
	}
	return l
}

// renumberID renumbers a payment's id, which begins with its operation's number (SEP-35).
func renumberID(id string, base uint32) string {
	operation, rest, more := strings.Cut(id, "-")
	n, err := strconv.ParseUint(operation, 10, 64)
	if err != nil { // not an id from a source
		return decimal(base) + ":" + id
	}
	operation = strconv.FormatUint(n+uint64(base)<<32, 10)
	if more {
		operation += "-" + rest
	}
	return operation
}

// ErrOtherChain means that the source's ledgers prove that it serves another chain of the network.
var ErrOtherChain = errors.New("the network was reset")

// CheckChain returns ErrOtherChain if the source proves that it serves another chain than the
// cursor's: it has another hash for the cursor's ledger, or an earlier ledger that closed later. A
// source that lags, or was restored from an old copy, proves neither. Any other error means that
// the source did not answer.
func CheckChain(ctx context.Context, source Source, cursor schemas.LedgerRead) error {
	last := domain.OnChain(cursor.Sequence)
	latest, err := source.Latest(ctx)
	if err != nil {
		return err
	}
	source.Continue(0, "")
	page, err := source.Next(ctx, min(latest, last))
	if err != nil {
		return err
	}
	l := page[0]
	closed := func(millis int64) string { return time.UnixMilli(millis).UTC().Format(time.RFC3339) }
	const remedy = "no ledgers are read until `lumenhook ledger reset` starts the new chain, or " +
		"the source serves the previous one again"
	switch {
	case l.Sequence == last && followedHash(cursor) != "" && l.Hash != cursor.Hash:
		return fmt.Errorf("%w: ledger %d of the source has hash %s, but was read with %s; %s",
			ErrOtherChain, l.Sequence, l.Hash, cursor.Hash, remedy)
	case l.Sequence < last && l.ClosedAtMillis > cursor.ClosedAtMillis:
		return fmt.Errorf("%w: ledger %d of the source closed at %s, later than ledger %d, which was "+
			"read and closed at %s; %s", ErrOtherChain, l.Sequence, closed(l.ClosedAtMillis), last,
			closed(cursor.ClosedAtMillis), remedy)
	}
	return nil
}

// errNotProved means that a backfill's page may be from another chain than the followed one.
var errNotProved = errors.New("the source does not prove that it serves the chain that is followed")

// sameChain checks that a page that was just read is from the followed chain: the source must still
// have the newest followed ledger, with the same hash. After a network reset, a source serves the
// new chain under the old numbers until StartChain is called, which nothing else reveals while the
// new chain has fewer ledgers or no follower is running.
func (b *Backfiller) sameChain(ctx context.Context, page []domain.Ledger) error {
	cursor, end := b.last.Load(), page[len(page)-1]
	if cursor == nil || cursor.Sequence == 0 { // nothing was followed yet
		return nil
	}
	if cursor.Hash == "" || domain.ChainBase(cursor.Sequence) != domain.ChainBase(page[0].Sequence) {
		return fmt.Errorf("%w: no ledger of it was followed yet", errNotProved)
	}
	b.Source.Continue(0, "")
	newest, err := b.page(ctx, cursor.Sequence)
	switch {
	case err != nil: // not a reason to end a backfill
		return fmt.Errorf("%w: %v", errNotProved, err)
	case newest[0].Hash != cursor.Hash:
		return fmt.Errorf("%w: its ledger %d has hash %s, but was followed with %s", errNotProved,
			cursor.Sequence, newest[0].Hash, cursor.Hash)
	}
	b.Source.Continue(end.Sequence, end.Hash)
	return nil
}

// StartChain makes the deployment's follower continue with another chain of the network from the
// given ledger, and returns the ledger's new number. A running follower notices. closedAtMillis is
// when the ledger closed.
func StartChain(
	ctx context.Context, c kafka.Cluster, passphrase string, first uint32,
	closedAtMillis, nowMillis int64,
) (number uint32, err error) {
	log, err := openLog(c, liveProducer)
	if err != nil {
		return 0, err
	}
	defer log.close()
	r := NewReading(Config{Passphrase: passphrase}, log, func() bool { return true })
	if err := log.TakeOver(ctx); err != nil {
		return 0, err
	}
	cursor, found, err := readCursor(ctx, log, passphrase)
	if err != nil {
		return 0, err
	}
	chain := cursor.Sequence/domain.LedgersPerChain + 1
	switch {
	case !found:
		return 0, errors.New("no ledger was read yet: start with --start")
	case chain > domain.ChainsMax || first < domain.FirstLedger || first >= domain.LedgersPerChain:
		return 0, fmt.Errorf("ledger %d of chain %d cannot be numbered: start over with a new data "+
			"folder, or another topic prefix", first, chain+1)
	}
	if r.ends, err = r.readEnds(ctx); err != nil {
		return 0, err
	}
	number = chain*domain.LedgersPerChain + first
	// The new chain has no recorded moves, and nothing was appended.
	r.covered = covered{ledgers: cursor.Coverage}
	before := domain.Ledger{Sequence: number - 1, ClosedAtMillis: closedAtMillis}
	return number, r.commitCursor(ctx, before, matched{}, cursor.WatchesOffsets, nowMillis)
}
