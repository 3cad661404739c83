package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/bench/measuring"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	runWaiting = "waiting"
	runPast    = "past"
	// ahead is how many matches are appended before they are taken.
	ahead = 40_000
	chunk = 2000
	// stalled is how long no delivery may be made.
	stalled = time.Minute
)

// fill makes the deployment: an engine takes matches, and makes each attempt at once. Those
// of the first are refused, and wait. When ctx ends, what was begun is finished.
func (l *lab) fill(ctx context.Context, d *deployment) error {
	shape := topology.Shape{
		Partitions: int32(l.opt.partitions), // #nosec G115 -- a few
		Replicas:   1,
		Shortened:  true,
	}
	if _, err := topology.Create(ctx, l.cluster, shape); err != nil {
		return err
	}
	refused := make(map[string]bool)
	for n := range l.opt.waiting {
		refused[measuring.EventID(runWaiting, n)] = true
	}
	var made atomic.Int64
	dir, err := os.MkdirTemp(l.dir, "state")
	if err != nil {
		return err
	}
	cfg := engineConfig(l.cluster, dir)
	cfg.Dispatcher = instant{fails: func(event string) bool { return refused[event] }}
	cfg.AttemptsInFlight, cfg.AttemptsPerEndpoint = 4096, 1024
	cfg.OnFact = func(f domain.Fact) {
		if _, is := f.Body.(domain.AttemptMade); is {
			made.Add(1)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	e := engine.New(cfg)
	go func() { ended <- e.Run(running) }()
	err = l.makeAll(ctx, d, made.Load)
	stop()
	return errors.Join(err, <-ended, os.RemoveAll(dir))
}

// makeAll makes what the deployment lacks, while an engine runs.
func (l *lab) makeAll(ctx context.Context, d *deployment, made func() int64) error {
	total, before := int64(l.opt.past), int64(d.Past)
	if !d.Made {
		total += int64(l.opt.waiting)
	}
	defer l.waited(total, func() int64 { return before + made() })()
	if !d.Made {
		if err := l.createEndpoints(ctx, "https://shop.example/hooks"); err != nil {
			return err
		}
		if _, err := l.feed(ctx, runWaiting, 0, l.opt.waiting, made); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		d.Made = true
	}
	fed, err := l.feed(ctx, runPast, d.Past, l.opt.past-d.Past, made)
	d.Past += fed
	return err
}

// feed appends the matches of a run, and waits until all are taken. When ctx ends, it appends
// no more. It returns how many it has appended, and that were taken.
func (l *lab) feed(
	ctx context.Context, run string, from, n int, taken func() int64,
) (fed int, err error) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	base := taken()
	latest, at := 0, time.Now()
	for {
		if ctx.Err() != nil {
			n = fed
		}
		done := int(taken() - base)
		switch {
		case done >= n:
			return fed, nil
		case done > latest:
			latest, at = done, time.Now()
		case time.Since(at) > stalled:
			return fed, fmt.Errorf("%d of %d deliveries were made, and for %s none", done, n, stalled)
		}
		if fed >= n || fed-done >= ahead {
			<-tick.C
			continue
		}
		var records []streams.Record
		for range min(chunk, n-fed) {
			records = append(records, match(run, from+fed))
			fed++
		}
		if err := l.producer.Append(context.WithoutCancel(ctx), records...); err != nil {
			return fed, err
		}
	}
}

// createEndpoints asks the running engine for the endpoints.
func (l *lab) createEndpoints(ctx context.Context, url string) error {
	asker, err := commands.Open(ctx, commands.Config{
		Cluster: l.cluster,
		Wait:    time.Minute,
		Logger:  l.cluster.Logger,
	})
	if err != nil {
		return err
	}
	defer asker.Close()
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- asker.Run(running) }()
	for n, id := range payments.Endpoints {
		var result domain.Result
		result, err = asker.Submit(ctx, domain.Command{
			ID:        "cmd_restoring" + strconv.Itoa(n),
			AccountID: account,
			Body: domain.CreateEndpoint{
				EndpointID:       id,
				AccountID:        account,
				EndpointSettings: domain.EndpointSettings{URL: url},
				SealedSecret:     []byte("whsec_of_the_benchmark"),
			},
		})
		if err == nil && result.Answer.Rejection != nil {
			err = errors.New(result.Answer.Rejection.Detail)
		}
		if err != nil {
			err = fmt.Errorf("creating an endpoint: %w", err)
			break
		}
	}
	stop()
	<-ended
	return err
}
