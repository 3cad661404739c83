package node

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// drainSlack is how long a stop waits beyond an attempt's timeout.
const drainSlack = 2 * time.Second

type engineRole struct {
	part
	engine *engine.Engine
}

func (r *engineRole) Name() string { return string(RoleEngine) }

func (r *engineRole) Start(context.Context) error {
	cfg := r.node.cfg
	attempts, breakOff := context.WithCancel(context.Background())
	r.OnStop(breakOff)
	r.engine = engine.New(engine.Config{
		Cluster:             r.clusterOf("engine"),
		StateDir:            filepath.Join(cfg.StateDir, "engine"),
		Policy:              cfg.Policy,
		Dispatcher:          egress.NewDispatcher(attempts, r.node.receivers.client, cfg.Now),
		Unseal:              r.unseal,
		SigningKeys:         cfg.SigningKeys.EndpointSigners,
		AttemptsInFlight:    cfg.Engine.AttemptsInFlight,
		AttemptsPerEndpoint: cfg.Engine.AttemptsPerEndpoint,
		StandbyReplicas:     cfg.Engine.StandbyReplicas,
		Rack:                cfg.Engine.Rack,
		DrainTimeout:        cfg.AttemptTimeout + drainSlack,
		Retained:            topology.Retained(),
		Keep:                cfg.Engine.Keep,
		KeepBytes:           cfg.Engine.KeepBytes,
		Allowed:             mayTakeOver(r.clusterOf("engine")),
		OnFact:              r.committed,
		OnTurn:              cfg.Metrics.turn,
		OnDeadLetter:        cfg.Metrics.deadLetterOf(readerEngine),
		OnRestart:           cfg.Metrics.restartedIn(RoleEngine),
		Now:                 cfg.Now,
		Logger:              cfg.Logger,
	})
	cfg.Metrics.registry.MustRegister(engineStats{
		stats:    r.engine.Stats,
		standbys: r.engine.StandbyStats,
		now:      cfg.Now,
	}, retainedTopics(r.engine.Retained))
	r.Go("engine", r.engine.Run)
	return nil
}

func (r *engineRole) unseal(sealed []byte, boundTo string) (domain.Secret, error) {
	plain, err := r.node.cfg.Sealer.Open(sealed, boundTo)
	return domain.Secret(plain), err
}

func (r *engineRole) committed(f domain.Fact) {
	r.node.cfg.Metrics.fact(f)
	r.node.cfg.Tracing.Fact(f)
	if tell := r.node.cfg.Engine.OnFact; tell != nil {
		tell(f)
	}
}

func (r *engineRole) Ready(context.Context) error {
	return errors.Join(r.engine.Check(), r.node.cfg.Sealer.Check())
}
