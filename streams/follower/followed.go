package follower

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// endsMax bounds the number of backfills whose last ledger is remembered.
const endsMax = 10_000

// errNotFollowed is the error for a ledger that was followed live with another hash.
var errNotFollowed = errors.New(
	"the source has another history than the one that was followed",
)

// chainEnd is the last ledger that a backfill has appended.
type chainEnd struct {
	sequence uint32
	hash     string
}

// followed holds the hashes that the cursor topic has for a part's ledgers. The backfill source is
// checked against them: the live source may be a different one, or may have reported different
// ledgers.
type followed map[uint32]string // hashes, by sequence

// check checks a page against the followed hashes. A page is a chain, so one wrong ledger
// invalidates the whole page.
func (f followed) check(page []domain.Ledger) error {
	for _, l := range page {
		if hash := f[l.Sequence]; hash != "" && hash != l.Hash {
			return fmt.Errorf("%w: %w: ledger %d has hash %s, and was followed with %s; what the same "+
				"backfill read of earlier ledgers may be of that history, too", domain.ErrForked,
				errNotFollowed, l.Sequence, l.Hash, hash)
		}
	}
	return nil
}

// followed returns the available hashes of a part's ledgers. Old ledgers have no hashes.
func (b *Backfiller) followed(ctx context.Context, part domain.Range) (followed, error) {
	if part.To < b.keptSince {
		return nil, nil
	}
	hashes, oldest, err := hashesRead(ctx, b.log, part)
	if err != nil {
		return nil, fmt.Errorf("follower: reading the hashes that ledgers were followed with: %w", err)
	}
	b.keptSince = oldest
	return hashes, nil
}

// resume sets which ledger the source must continue after: the end of the previous part of the same
// backfill, if it is known.
func (b *Backfiller) resume(watchID string, from uint32) {
	if end := b.ends[watchID]; end.hash != "" && end.sequence+1 == from {
		b.Source.Continue(end.sequence, end.hash)
		return
	}
	b.Source.Continue(0, "")
}

// cameTo records the last appended ledger of a page.
func (b *Backfiller) cameTo(watchID string, page []domain.Ledger, last uint32) {
	for _, l := range page {
		if l.Sequence != last {
			continue
		}
		if len(b.ends) >= endsMax {
			clear(b.ends)
		}
		b.ends[watchID] = chainEnd{l.Sequence, l.Hash}
	}
}

// hashesRead returns the hashes with which ledgers of a range were followed, as far as the
// compacted topic still has them. oldest is the first ledger in the topic; 0: the topic is empty.
func hashesRead(
	ctx context.Context, log Log, ledgers domain.Range,
) (hashes followed, oldest uint32, err error) {
	hashes = followed{}
	err = eachCursor(ctx, log, func(read schemas.LedgerRead) {
		if oldest == 0 || read.Sequence < oldest {
			oldest = read.Sequence
		}
		if ledgers.From <= read.Sequence && read.Sequence <= ledgers.To {
			hashes[read.Sequence] = read.Hash
		}
	})
	return hashes, oldest, err
}

// cursorBefore returns the last available cursor before a ledger, or the zero value.
func cursorBefore(
	ctx context.Context, log Log, ledger uint32,
) (before schemas.LedgerRead, err error) {
	return before, eachCursor(ctx, log, func(read schemas.LedgerRead) {
		if before.Sequence < read.Sequence && read.Sequence < ledger {
			before = read
		}
	})
}

// eachCursor reads the cursors in the topic.
func eachCursor(ctx context.Context, log Log, take func(schemas.LedgerRead)) error {
	ctx, cancel := context.WithTimeout(ctx, cursorTimeout)
	defer cancel()
	starts, err := log.Starts(ctx, schemas.TopicLedgers)
	if err != nil {
		return err
	}
	ends, err := log.Of(ctx, schemas.TopicLedgers)
	if err != nil {
		return err
	}
	return log.Read(ctx, schemas.TopicLedgers, starts, ends, func(rec kafka.Record) error {
		read, err := schemas.DecodeLedgerRead(schemas.Read(rec.Value, rec))
		if err == nil {
			take(read)
		}
		return err
	})
}

// Trusted is a ledger whose hash is known from elsewhere. The zero value means no ledger.
type Trusted struct {
	Sequence uint32
	Hash     string // 64 lowercase hex characters
}

// checkTrusted checks the trusted ledger against the followed ledgers, if it is not after the
// cursor: no source is asked for it any more. The topic is compacted, so the hash may be gone. Then
// it cannot be checked, and the log says so.
func (r *Reading) checkTrusted(ctx context.Context, cursor schemas.LedgerRead) error {
	trusted := r.config.Trusted
	if trusted.Hash == "" || trusted.Sequence > cursor.Sequence {
		return nil
	}
	hash := cursor.Hash
	if trusted.Sequence < cursor.Sequence {
		var err error
		if hash, err = r.hashRead(ctx, trusted.Sequence); err != nil {
			return err
		}
	}
	switch hash {
	case trusted.Hash:
		r.say(slog.LevelInfo, "the trusted ledger is the one that was followed", "ledger",
			trusted.Sequence, "hash", hash)
	case "":
		r.say(slog.LevelWarn, "the trusted ledger is before the cursor, and the topic no longer has its "+
			"hash: it is not checked. To check what is followed, name a ledger after the cursor",
			"trusted", trusted.Sequence, "cursor", cursor.Sequence)
	default:
		return fmt.Errorf("%w: ledger %d was followed with hash %s, but the trusted one "+
			"has %s: correct --trusted-ledger or, if it is right, start over with other data and topics, "+
			"because the followed ledgers have another history", domain.ErrForked, trusted.Sequence, hash,
			trusted.Hash)
	}
	return nil
}

// hashRead returns the hash that a ledger was followed with, or "" if it is no longer in the topic.
func (r *Reading) hashRead(ctx context.Context, sequence uint32) (hash string, err error) {
	hashes, _, err := hashesRead(ctx, r.log, domain.Range{From: sequence, To: sequence})
	return hashes[sequence], err
}
