package follower

import (
	"context"
	"errors"
	"time"

	"github.com/lumenhook/lumenhook/internal/retry"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

const (
	// commitEvery is how often a follower commits from where on it needs its topics.
	commitEvery = time.Minute
	commitFirst = time.Second // between tries until the first succeeds
	commitMax   = 30 * time.Second
)

// keepCommitting commits to the group what the follower may yet read back, until the term
// ends: records below may be deleted (package retention). Where it continues is in the
// cursor alone.
func (f *Follower) keepCommitting(ctx context.Context) {
	pause := commitFirst
	for {
		err := f.commitNeeded(ctx)
		silent := errors.Is(err, errNotElected) || errors.Is(err, kafka.ErrNotMember)
		if err != nil && !silent && ctx.Err() == nil {
			f.config.Logger.Warn("the follower cannot commit what it needs of the topics; until it can, "+
				"no more is deleted", "err", err)
		}
		if err == nil {
			pause = commitEvery
		}
		if retry.Sleep(ctx, pause) != nil {
			return
		}
	}
}

func (f *Follower) commitNeeded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, commitMax)
	defer cancel()
	needed, err := Needed(ctx, f.config.Cluster, f.config.Passphrase, f.config.OpenParts)
	if err != nil {
		return err
	}
	m := f.membership.Load()
	if m == nil || !m.Fresh() {
		return errNotElected // yet, or the group is silent: the next time
	}
	return m.Commit(ctx, needed)
}
