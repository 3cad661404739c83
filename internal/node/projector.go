package node

import (
	"context"
	"fmt"
	"time"

	"github.com/lumenhook/lumenhook/projections/writer"
)

// A block of the history is written after blockRows rows or after blockWait. Without readers, the
// wait is longer by unaskedFactor.
const (
	blockRows     = 50_000
	blockWait     = 200 * time.Millisecond
	unaskedFactor = 5
)

type projectorRole struct{ part }

func (r *projectorRole) Name() string { return string(RoleProjector) }

func (r *projectorRole) Start(ctx context.Context) error {
	cfg := r.node.cfg
	db, err := writer.Open(r.node.historyDSN())
	if err != nil {
		return fmt.Errorf("--clickhouse-dsn: %w", err)
	}
	r.OnStop(func() { _ = db.Close() })
	unasked := blockWait
	if cfg.History.OneProcess {
		unasked *= unaskedFactor
	}
	p, err := writer.NewProjector(writer.ProjectorConfig{
		DB:           db,
		Cluster:      r.clusterOf("projector"),
		Now:          cfg.Now,
		Logger:       cfg.Logger,
		BlockRows:    blockRows,
		BlockWait:    blockWait,
		UnaskedWait:  unasked,
		Retention:    cfg.History.Keep,
		OnDeadLetter: cfg.Metrics.deadLetterOf(readerProjector),
		OnRestart:    cfg.Metrics.restartedIn(RoleProjector),
	})
	if err != nil {
		return err
	}
	r.OnStop(p.Close)
	p.Prepare(ctx)
	closeReads, err := r.node.history.readFrom(db, r.clusterOf("history"), p)
	if err != nil {
		return err
	}
	r.OnStop(closeReads)
	r.Go("projector", p.Run)
	guarded := writer.RefoldConfig{
		DB: db, Cluster: r.clusterOf("history-guard"), Logger: cfg.Logger, Now: cfg.Now,
	}
	r.Go("history guard", func(ctx context.Context) error {
		return writer.Guard(ctx,
			writer.GuardConfig{RefoldConfig: guarded, Heal: r.node.ownHistory})
	})
	cfg.Metrics.projector(p)
	cfg.Metrics.damage(db)
	cfg.Metrics.registry.MustRegister(endpointsDown{r.node.history, cfg.Now})
	return nil
}

func (r *projectorRole) Ready(ctx context.Context) error { return r.node.history.check(ctx) }
