package node

import (
	"context"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/streams/mailer"
)

type mailerRole struct {
	part
	mailer *mailer.Mailer
}

func (r *mailerRole) Name() string { return string(RoleMailer) }

func (r *mailerRole) Start(context.Context) error {
	cfg := r.node.cfg
	r.mailer = mailer.New(mailer.Config{
		Cluster:      r.clusterOf("mailer"),
		Directory:    r.node.directory,
		Sender:       cfg.Sender,
		DisableAfter: cfg.Policy.DisableAfter,
		RunTime:      runTime(cfg.Policy.Schedule, cfg.AttemptTimeout),
		OnDeadLetter: cfg.Metrics.deadLetterOf(readerMailer),
		Now:          cfg.Now,
		Logger:       cfg.Logger,
	})
	r.Go("mailer", r.mailer.Run)
	return nil
}

func (r *mailerRole) Ready(context.Context) error { return r.mailer.Check() }

// runTime returns the maximum duration of a run with all its attempts: every wait has the maximum
// jitter of a fifth, and every response arrives at the last moment.
func runTime(s domain.Schedule, attemptTimeout time.Duration) time.Duration {
	total := time.Duration(s.Attempts()) * attemptTimeout
	for _, wait := range s.WaitsMillis {
		total += time.Duration(wait) * time.Millisecond * 6 / 5
	}
	return total
}
