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

// endsMax bounds the backfills whose last ledger is remembered.
const endsMax = 10_000

// errNotFollowed means that a ledger was followed live with another hash.
var errNotFollowed = errors.New(
	"the source has another history than the one that was followed",
)

type chainEnd struct {
	sequence uint32
	hash     string
}

// followed contains the hashes of ledgers in the cursor topic. The backfill source is checked
// against them, because the live source may have been another one, or have reported other ledgers.
type followed map[uint32]string // hashes by sequence

// check checks a page. A page is a chain, so one wrong ledger invalidates all of it.
func (f followed) check(page []domain.Ledger) error {
	for _, l := range page {
		if hash := f[l.Sequence]; hash != "" && hash != l.Hash {
			return fmt.Errorf("%w: %w: ledger %d has hash %s, but was followed with %s; earlier "+
				"ledgers of the same backfill may be from that history as well", domain.ErrForked,
				errNotFollowed, l.Sequence, l.Hash, hash)
		}
	}
	return nil
}

// followed returns the available hashes of a part's ledgers. Old ledgers have none.
func (b *Backfiller) followed(ctx context.Context, part domain.Range) (followed, error) {
	if part.To < b.keptSince {
		return nil, nil
	}
	hashes, oldest, err := hashesRead(ctx, b.log, part)
	if err != nil {
		return nil, fmt.Errorf("follower: reading the hashes of followed ledgers: %w", err)
	}
	b.keptSince = oldest
	return hashes, nil
}

// resume makes the source continue after the end of the backfill's previous part, if it is known.
func (b *Backfiller) resume(watchID string, from uint32) {
	if end := b.ends[watchID]; end.hash != "" && end.sequence+1 == from {
		b.Source.Continue(end.sequence, end.hash)
		return
	}
	b.Source.Continue(0, "")
}

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

// hashesRead returns the hashes of ledgers in a range that the compacted topic still has. oldest is
// the first ledger in the topic, or 0.
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

// Trusted is a ledger whose hash is known from another source. The zero value means none.
type Trusted struct {
	Sequence uint32
	Hash     string // 64 lowercase hex characters
}

// checkTrusted checks the trusted ledger, if it is not after the cursor, against the followed
// ledgers, because no source is queried for it any more. It logs if the compacted topic no longer
// has its hash.
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
			"hash: it is not checked. To check the history, set a ledger after the cursor",
			"trusted", trusted.Sequence, "cursor", cursor.Sequence)
	default:
		return fmt.Errorf("%w: ledger %d was followed with hash %s, but the trusted one "+
			"has %s: correct --trusted-ledger or, if it is right, start over with other data and topics, "+
			"because the followed ledgers have another history", domain.ErrForked, trusted.Sequence, hash,
			trusted.Hash)
	}
	return nil
}

func (r *Reading) hashRead(ctx context.Context, sequence uint32) (hash string, err error) {
	hashes, _, err := hashesRead(ctx, r.log, domain.Range{From: sequence, To: sequence})
	return hashes[sequence], err
}
