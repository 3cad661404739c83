package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/lumenhook/lumenhook/internal/bench/measuring"
)

const latencyEndpoints = 8

// latencyRun is one run of a latency line.
type latencyRun struct {
	Line       string  `json:"line"`
	Sync       bool    `json:"brokerSync"`
	RealKafka  bool    `json:"realKafka"`
	Repetition int     `json:"repetition"`
	Half       bool    `json:"halfOfFullSpeed"`
	PerSecond  float64 `json:"perSecond"`

	Service times          `json:"service"`
	Bare    times          `json:"netHttpClient"`
	Commits times          `json:"kafkaTransactions,omitzero"` // on real brokers
	Load    measuring.Load `json:"load"`
}

// times are those from sending to arrival, in milliseconds.
type times struct {
	N    int     `json:"n"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
	Late float64 `json:"loadLateP99"` // behind the time at which it was to send

	warm int // sent before, by the same client
}

// latencySteps are a service with fsync, and one without.
func (l *lab) latencySteps() (steps []step) {
	each := 2*l.opt.PaceTime + l.opt.rest + 2*time.Second
	const startAndEnd = 14 * time.Second
	for _, sync := range l.opt.syncs {
		name := "latency"
		if sync {
			name += ", --broker-sync"
		}
		steps = append(steps, step{
			name: name,
			takes: time.Duration(len(l.opt.rates)+1)*each + 2*l.opt.FloorTime + startAndEnd +
				time.Duration(l.opt.Backlog/usualRate)*time.Second,
			run: func(ctx context.Context, n int) (record, error) {
				runs, err := l.latency(ctx, n, sync)
				return record{Latency: runs}, err
			},
		})
	}
	return steps
}

func latencyLine(rate float64, half, sync bool) string {
	name := fmt.Sprintf("latency at %.0f/s", rate)
	if half {
		name = "latency at half of full speed"
	}
	if sync {
		name += ", --broker-sync"
	}
	return name
}

// latency measures a service of its own: at rest, and then at half of its full speed.
func (l *lab) latency(
	ctx context.Context, repetition int, sync bool,
) (runs []latencyRun, err error) {
	s, err := l.serve(ctx, serving{sync: sync, endpoints: latencyEndpoints})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if err := l.warm(ctx, s); err != nil {
		return nil, err
	}
	if runs, err = l.atRates(ctx, s, latencyRun{Sync: sync, Repetition: repetition}); err != nil {
		return runs, err
	}
	l.say("full speed, for its half")
	full, err := l.deliverAll(ctx, s, task{
		Run:     l.ownRun("full"),
		AtLeast: l.opt.Warm,
		Time:    l.opt.FloorTime,
		Backlog: l.opt.Backlog,
	})
	if err != nil {
		return runs, err
	}
	half := float64(full.n) / full.inHistory.Sub(full.began).Seconds() / 2
	r := latencyRun{
		Line:       latencyLine(half, true, sync),
		Sync:       sync,
		Repetition: repetition,
		Half:       true,
		PerSecond:  half,
	}
	err = l.latencyBy(ctx, s, &r)
	return append(runs, r), err
}

// atRates measures a service that is warm and at rest, at each of the rates.
func (l *lab) atRates(
	ctx context.Context, s *service, like latencyRun,
) (runs []latencyRun, err error) {
	for _, rate := range l.opt.rates {
		r := like
		r.PerSecond, r.Line = rate, latencyLine(rate, false, like.Sync)
		if like.RealKafka {
			r.Line += ", " + realBrokers
		}
		if err := l.latencyBy(ctx, s, &r); err != nil {
			return runs, err
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// latencyBy measures a bare client and then the service, at one rate.
func (l *lab) latencyBy(ctx context.Context, s *service, r *latencyRun) (err error) {
	l.say(r.Line)
	during := measuring.Meanwhile()
	run := l.ownRun(r.Line)
	t := task{
		Rate:     r.PerSecond,
		Time:     l.opt.PaceTime,
		AtLeast:  int(r.PerSecond * l.opt.PaceTime.Seconds()),
		Counter:  l.receiver.Counter,
		Warm:     l.opt.Warm,
		Receiver: l.receiver.URL + "/0",
		Roots:    l.roots,
		Payments: s.payments,
		Cluster:  s.cluster(),
	}
	t.Kind, t.Run = loadPacedPosts, run+" bare"
	if r.Bare, err = l.paced(ctx, t); err != nil {
		return err
	}
	if err := rest(ctx, l.opt.rest); err != nil {
		return err
	}
	if r.RealKafka {
		if r.Commits, err = l.commits(ctx, t, run); err != nil {
			return err
		}
	}
	if err := l.arrived().expect(ctx, t.AtLeast); err != nil {
		return err
	}
	t.Kind, t.Run = loadPacedAppend, run
	if r.Service, err = l.paced(ctx, t); err != nil {
		return err
	}
	r.Load = during()
	return s.awaitHistory(ctx, r.Service.N+r.Service.warm)
}

// paced sends at a rate and waits until all has arrived.
func (l *lab) paced(ctx context.Context, t task) (took times, err error) {
	l.posts++
	t.Sent = filepath.Join(l.dir, "sent-"+strconv.Itoa(l.posts))
	done, err := l.load(ctx, t)
	if err != nil {
		return took, err
	}
	if _, err := l.arrived().await(ctx, done.n); err != nil {
		return took, err
	}
	sent, err := sentTimes(t.Sent)
	if err != nil {
		return took, err
	}
	arrivals, err := l.arrived().arrivals(ctx)
	if err != nil {
		return took, err
	}
	took, err = timesOf(t.Run, sent, arrivals)
	took.Late, took.warm = done.late, done.warm
	return took, err
}

// commits measures transactions alone, on the service's brokers, at the rate of t.
func (l *lab) commits(ctx context.Context, t task, run string) (took times, err error) {
	l.posts++
	t.Kind, t.Run = loadCommits, run+" commits"
	t.Sent = filepath.Join(l.dir, "committed-"+strconv.Itoa(l.posts))
	if _, err := l.load(ctx, t); err != nil {
		return took, err
	}
	text, err := os.ReadFile(t.Sent) // #nosec G703 -- the lab's own
	if err != nil {
		return took, err
	}
	var list []float64
	if err := json.Unmarshal(text, &list); err != nil {
		return took, err
	}
	if took, err = timesOfAll(list); err != nil {
		return took, err
	}
	return took, rest(ctx, l.opt.rest)
}

// timesOf returns the times of a run from sending to arrival.
func timesOf(run string, sent []int64, arrivals map[string]int64) (took times, err error) {
	list := make([]float64, len(sent))
	for n, at := range sent {
		arrived, is := arrivals[measuring.EventID(run, n)]
		if !is {
			return took, fmt.Errorf("the %dth of %s did not arrive", n, run)
		}
		list[n] = float64(arrived-at) / 1e6
	}
	return timesOfAll(list)
}

// timesOfAll returns how a list of times is spread.
func timesOfAll(list []float64) (took times, err error) {
	if len(list) == 0 {
		return took, errors.New("nothing was sent at this rate in this time")
	}
	slices.Sort(list)
	return times{
		N:   len(list),
		P50: percentile(list, 50),
		P99: percentile(list, 99),
		Max: list[len(list)-1],
	}, nil
}
