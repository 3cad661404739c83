package node

import (
	"context"
	"fmt"

	"github.com/lumenhook/lumenhook/projections"
)

// unaskedFactor is how much longer a block of history waits while nobody reads.
const unaskedFactor = 5

type projectorRole struct{ part }

func (r *projectorRole) Name() string { return string(RoleProjector) }

func (r *projectorRole) Start(ctx context.Context) error {
	cfg := r.node.cfg
	db, err := projections.Open(r.node.historyDSN())
	if err != nil {
		return fmt.Errorf("--clickhouse-dsn: %w", err)
	}
	r.OnStop(func() { _ = db.Close() })
	if err := r.prepare(ctx, db); err != nil {
		return err
	}
	unasked := cfg.History.BlockWait
	if cfg.History.OneProcess {
		unasked *= unaskedFactor
	}
	p, err := projections.NewProjector(projections.ProjectorConfig{
		DB:           db,
		Cluster:      r.clusterOf("projector"),
		Now:          cfg.Now,
		Logger:       cfg.Logger,
		BlockRows:    cfg.History.BlockRows,
		BlockWait:    cfg.History.BlockWait,
		UnaskedWait:  unasked,
		Retention:    cfg.History.Keep,
		OnDeadLetter: cfg.Metrics.deadLetterOf(readerProjector),
	})
	if err != nil {
		return err
	}
	r.OnStop(p.Close)
	closeReads, err := r.node.history.readFrom(db, r.clusterOf("history"), p.Ask)
	if err != nil {
		return err
	}
	r.OnStop(closeReads)
	r.node.history.writtenBy(p)
	r.Go("the projector", func(ctx context.Context) error { return r.project(ctx, p) })
	cfg.Metrics.projector(p)
	cfg.Metrics.registry.MustRegister(endpointsDown{r.node.history, cfg.Now})
	return nil
}

// prepare creates the tables. An external ClickHouse may be unavailable: the projector
// waits for it and creates them then.
func (r *projectorRole) prepare(ctx context.Context, db *projections.DB) error {
	cfg := r.node.cfg
	err := projections.Migrate(ctx, db)
	if err != nil && cfg.History.MayBeAway {
		cfg.Say("the history cannot be written yet; until it can, GET /v1/events answers 503 "+
			"(--clickhouse-dsn): %v", err)
		return nil
	}
	return err
}

// project keeps the process running when the projector needs a person: payments are
// observed and delivered without a history, which then answers 503.
func (r *projectorRole) project(ctx context.Context, p *projections.Projector) error {
	err := p.Run(ctx)
	if err != nil && ctx.Err() == nil {
		r.node.cfg.Say("the history is not written any more (GET /v1/events answers 503 for what it "+
			"lacks): %v", err)
		<-ctx.Done()
	}
	return err
}

func (r *projectorRole) Ready(ctx context.Context) error { return r.node.history.check(ctx) }
