package node

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/follower"
)

type followerRole struct {
	part
	follower atomic.Pointer[follower.Follower] // nil before the role starts
}

func (r *followerRole) Name() string { return string(RoleFollower) }

func (r *followerRole) Start(context.Context) error {
	n, cfg := r.node, r.node.cfg
	live := &catchUp{Source: cfg.Follower.Live, say: cfg.Say, now: cfg.Now}
	f := follower.New(follower.Config{
		Cluster:    r.clusterOf("follower"),
		Source:     guardedSource{live, cfg.Disk},
		Watches:    watches{n.directory.Directory},
		Claims:     claims{n.commands},
		OpenParts:  n.directory.Directory,
		Probe:      cfg.Follower.Probe,
		Passphrase: cfg.Passphrase,
		Start:      cfg.Follower.Start,
		Trusted:    cfg.Follower.Trusted,
		Backfill: follower.BackfillConfig{
			Source:   guardedSource{cfg.Follower.Past, cfg.Disk},
			Requests: n.directory,
			Commands: n.commands,
		},
		CloseInterval: cfg.Follower.CloseInterval,

		Allowed:   mayTakeOver(r.clusterOf("follower")),
		OnMatched: cfg.Follower.OnMatched,
		OnLedger:  r.read,
		OnRestart: cfg.Metrics.restartedIn(RoleFollower),
		Now:       cfg.Now,
		Logger:    cfg.Logger,
	})
	r.follower.Store(f)
	if cfg.Follower.Standings != nil {
		cfg.Metrics.sources(n.ledgerSources)
	}
	r.Go("follower", f.Run)
	return nil
}

const claimsAtOnce = 64

// claims submits commands concurrently. Several engines may answer them.
type claims struct{ commands *commandsPart }

func (c claims) SubmitAll(ctx context.Context, all []domain.Command) ([]domain.Result, error) {
	results := make([]domain.Result, len(all))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(claimsAtOnce)
	for i, command := range all {
		asking.Go(func() (err error) {
			results[i], err = c.commands.Submit(ctx, command)
			return err
		})
	}
	return results, asking.Wait()
}

func (r *followerRole) read(l follower.LedgerSummary) {
	now := r.node.cfg.Now()
	r.node.cfg.Metrics.ledgerRead(l, now)
	r.node.cfg.Tracing.Ledger(l, now)
}

func (r *followerRole) Ready(context.Context) error { return r.follower.Load().Check() }

// follows reports whether this process reads ledgers, and not the follower of another process.
func (r *followerRole) follows() bool {
	f := r.follower.Load()
	return f != nil && f.Follows()
}
