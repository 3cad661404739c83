package main

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

const aimStart = 1.5 // seconds

// memorySteps are two: what one endpoint takes (one delivery that waits is in the line waiting,
// and one watch in match), and the real program, at rest, at full speed and when it is started
// again.
func (l *lab) memorySteps() []step {
	of := func(row string, unit string) told {
		return told{row: row, unit: "bytes", of: []string{unit}}
	}
	steps := l.goStep("memory, endpoints", 20*time.Second, goBench{
		dir:  benchFolder,
		name: "^BenchmarkEndpoints$",
		args: []string{"-test.benchtime=1x"},
	}, reads("Endpoints",
		of("an endpoint, in the engine's memory", "memory-bytes/endpoint"),
		of("an endpoint, on the engine's disk", "disk-bytes/endpoint")))
	return append(steps, step{
		name:  "memory, run",
		takes: 40*time.Second + l.opt.idle,
		run: func(ctx context.Context, _ int) (got record, err error) {
			got.Figures, err = l.memory(ctx)
			return got, err
		},
	})
}

// memory measures the real program.
func (l *lab) memory(ctx context.Context) (list []figure, err error) {
	s, err := l.serve(ctx, serving{endpoints: latencyEndpoints})
	if err != nil {
		return nil, err
	}
	s.kept = true // it is started again
	add := func(when string, by map[string]float64) {
		for _, process := range []string{ofService, ofClickHouse} {
			list = append(list,
				figure{Row: "memory " + when + ", " + process, Unit: "MiB", Value: by[process]})
		}
	}
	err = rest(ctx, l.opt.idle)
	if err == nil {
		var by map[string]float64
		by, err = s.resident()
		add("at rest", by)
	}
	if err == nil {
		_, err = l.deliverAll(ctx, s, task{
			Run:     l.ownRun("memory"),
			AtLeast: min(l.opt.Deliveries, l.opt.Backlog+2*l.opt.Warm),
			Time:    min(l.opt.Time, 2*l.opt.FloorTime),
			Backlog: l.opt.Backlog,
		})
	}
	if err == nil {
		var by map[string]float64
		by, err = s.most()
		add("at full speed, at most", by)
	}
	if err := errors.Join(err, s.stop()); err != nil {
		return nil, err
	}
	started, err := l.warmStarts(ctx, s.dir)
	return append(list, figure{
		Row:   "start of run until ready, warm",
		Unit:  "s",
		Value: measuring.SpreadOf(started...).Median,
		Aim:   atMost(ofFigure, aimStart, "s"),
	}), err
}

// warmStarts starts the program on a folder that it has used, and returns how long it took each
// time until it was ready and its history answered.
func (l *lab) warmStarts(ctx context.Context, dir string) (seconds []float64, err error) {
	for n := range l.opt.warmRuns {
		s, err := l.startRun(ctx, serving{dir: dir})
		if err != nil {
			return nil, err
		}
		seconds = append(seconds, time.Since(s.process.Began).Seconds())
		s.kept = n < l.opt.warmRuns-1
		if err := s.stop(); err != nil {
			return nil, err
		}
	}
	return seconds, nil
}

// most is the memory that was in use at most, in MiB.
func (s *service) most() (by map[string]float64, err error) {
	by = make(map[string]float64)
	if by[ofService], err = measuring.MostResidentMiB(s.process.PID()); err != nil {
		return nil, err
	}
	for _, pid := range s.others() {
		mib, err := measuring.MostResidentMiB(pid)
		if err != nil && !errors.Is(err, syscall.ENOENT) { // it has ended
			return nil, err
		}
		by[ofClickHouse] += mib
	}
	return by, nil
}
