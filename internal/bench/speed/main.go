package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

const (
	lineDeliver = "deliver"
	lineLatency = "latency"
	lineProfile = "profile"
)

// options are the flags. Those that a figure depends on are reported with it.
type options struct {
	service string
	scratch string
	json    string
	lines   []string
	say     func(string)

	reps       int
	warm       int // deliveries and posts that are not counted, before those that are
	deliveries int
	time       time.Duration
	backlog    int
	endpoints  []int
	syncs      []bool
	rates      []float64
	paceTime   time.Duration
	floorTime  time.Duration
}

func main() {
	clickhouse.MaybeChild() // of a service that is profiled
	var err error
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = runChild(os.Args[2:])
	} else {
		err = start(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func start(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, o)
	if r != nil { // what was measured before something failed
		err = errors.Join(err, r.print(os.Stdout), r.write(o.json))
	}
	return err
}

func parse(args []string) (o options, err error) {
	o.say = func(what string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), what) }
	f := flag.NewFlagSet("speed", flag.ExitOnError)
	f.StringVar(&o.service, "service", "bin/lumenhook", "the program that is measured")
	f.StringVar(&o.scratch, "scratch", "",
		"where data folders are made; empty: the system's own place")
	f.StringVar(&o.json, "json", "", "a file for the figures")
	lines := f.String("lines", lineDeliver+","+lineLatency,
		"what is measured; profile tells where the service's processor time goes")
	f.IntVar(&o.reps, "reps", 5, "how often")
	f.IntVar(&o.warm, "warm", 2000, "deliveries and posts that are not counted, before each run")
	f.IntVar(&o.deliveries, "deliveries", 200_000, "deliveries of a run at full speed, at least")
	f.DurationVar(&o.time, "time", time.Minute, "how long such a run appends, at least")
	f.IntVar(&o.backlog, "backlog", 50_000, "matches that are appended ahead of the deliveries")
	endpoints := f.String("endpoints", "1,8,100", "to how many endpoints")
	syncs := f.String("sync", "false,true", "the broker without fsync, with it, or both")
	rates := f.String("rates", "100,500", "deliveries a second of the latency lines, at rest")
	f.DurationVar(&o.paceTime, "pace-time", 30*time.Second, "how long each of them takes")
	f.DurationVar(&o.floorTime, "floor-time", 5*time.Second, "how long each floor is measured")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.lines = strings.Split(*lines, ",")
	for _, line := range o.lines {
		if !slices.Contains([]string{lineDeliver, lineLatency, lineProfile}, line) {
			return o, fmt.Errorf("-lines: there is no line %q", line)
		}
	}
	if o.reps < 1 || o.warm < 1 || o.deliveries < 1 || o.backlog < 1 || f.NArg() > 0 {
		return o, errors.New("-reps, -warm, -deliveries, -backlog: at least 1; there are no arguments")
	}
	o.endpoints, err = each("endpoints", *endpoints, strconv.Atoi)
	if err == nil {
		o.syncs, err = each("sync", *syncs, strconv.ParseBool)
	}
	if err == nil {
		o.rates, err = each("rates", *rates,
			func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	}
	return o, err
}

// each parses a list.
func each[T any](name, text string, parse func(string) (T, error)) (list []T, err error) {
	for part := range strings.SplitSeq(text, ",") {
		v, err := parse(part)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", name, err)
		}
		list = append(list, v)
	}
	return list, nil
}

// run measures. Its results are those until something failed.
func run(ctx context.Context, o options) (r *results, err error) {
	if o.service, err = filepath.Abs(o.service); err != nil {
		return nil, err
	}
	// The service would fetch the engine in the background.
	if _, err := clickhouse.Ensure(ctx, clickhouse.Options{Progress: os.Stderr}); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(o.scratch, "speed-")
	if err != nil {
		return nil, err
	}
	l, err := openLab(o, dir)
	if err != nil {
		return nil, err
	}
	r = newResults(ctx, o)
	for n := range o.reps {
		o.say(fmt.Sprintf("repetition %d of %d", n+1, o.reps))
		if err = l.repetition(ctx, n+1, r); err != nil {
			break
		}
	}
	err = errors.Join(err, l.close())
	if err != nil {
		return r, fmt.Errorf("%w; what the processes said is in %s", err, dir)
	}
	return r, os.RemoveAll(dir)
}

// repetition measures every line once; every other one in the opposite order, so that a
// machine that gets slower or faster meanwhile favours none.
func (l *lab) repetition(ctx context.Context, n int, r *results) error {
	var steps []func() error
	for _, sync := range l.opt.syncs {
		if slices.Contains(l.opt.lines, lineDeliver) {
			for _, endpoints := range l.opt.endpoints {
				steps = append(steps, func() error {
					run, err := l.deliver(ctx, n, endpoints, sync)
					if err != nil {
						return fmt.Errorf("%s: %w", run.Line, err)
					}
					r.addDeliver(run)
					return nil
				})
			}
		}
		if slices.Contains(l.opt.lines, lineLatency) {
			steps = append(steps, func() error {
				runs, err := l.latency(ctx, n, sync)
				r.addLatency(runs...)
				return err
			})
		}
		if slices.Contains(l.opt.lines, lineProfile) {
			steps = append(steps, func() error {
				runs, err := l.profile(ctx, n, sync)
				r.Profile = append(r.Profile, runs...)
				return err
			})
		}
	}
	if n%2 == 0 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
