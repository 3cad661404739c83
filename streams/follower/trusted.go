package follower

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
)

// Trusted is a ledger whose hash is known from elsewhere. The zero value is none.
type Trusted struct {
	Sequence uint32
	Hash     string // 64 lowercase hex characters
}

// checkTrusted holds the trusted ledger against what was followed, where it does not lie ahead of
// the cursor: no source is asked for it any more. The topic is compacted, so that it may have been
// forgotten; then nothing can be said of it, and the log does.
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
		r.say(slog.LevelWarn, "the trusted ledger lies behind the cursor, and its hash as it was read "+
			"is no longer kept: nothing is held against it. To have following proved, name the hash of a "+
			"ledger from the cursor on", "trusted", trusted.Sequence, "cursor", cursor.Sequence)
	default:
		return fmt.Errorf("%w: ledger %d was followed with hash %s, but the trusted one "+
			"has %s: correct --trusted-ledger or, if it is right, begin anew with data and topics of their "+
			"own, for what was followed is of another history", domain.ErrForked, trusted.Sequence, hash,
			trusted.Hash)
	}
	return nil
}

// hashRead returns the hash that a ledger was followed with; empty: it is no longer kept.
func (r *Reading) hashRead(ctx context.Context, sequence uint32) (hash string, err error) {
	hashes, _, err := hashesRead(ctx, r.log, domain.Range{From: sequence, To: sequence})
	return hashes[sequence], err
}
