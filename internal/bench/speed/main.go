package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
)

// options are the flags. Those that a figure depends on are reported with it.
type options struct {
	settings
	service  string
	scratch  string
	profiles string
	cache    string
	json     string
	runs     string // the file of records
	markdown string
	update   string
	resume   bool
	lines    []line
	say      func(string)

	reps      int
	endpoints []int
	syncs     []bool
	rates     []float64
	shallow   int // the backlog that a deep one is compared with

	rest     time.Duration // how long a service has nothing to do before it is measured
	idle     time.Duration // the same, before its memory is
	ledgers  time.Duration // from one ledger of the development network to the next
	warmRuns int           // how often a folder that is warm is started
}

func main() {
	clickhouse.MaybeChild() // of a service that is profiled, or beside real brokers
	var err error
	if len(os.Args) > 1 && os.Args[1] == childArg {
		err = runChild(os.Args[2:])
	} else {
		err = start(os.Args[1:])
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
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
		err = errors.Join(err, r.print(os.Stdout), r.write(o))
	}
	if ctx.Err() != nil {
		fmt.Fprintln(os.Stderr, "interrupted; the same command with -resume goes on where this ended")
	}
	return err
}

func parse(args []string) (o options, err error) {
	o.say = func(what string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.TimeOnly), what) }
	o.rest, o.idle, o.ledgers, o.warmRuns = 2*time.Second, 5*time.Second, time.Second, 3
	f := flag.NewFlagSet("speed", flag.ContinueOnError)
	lists := o.register(f)
	f.Usage = func() {
		fmt.Fprintln(f.Output(), "speed measures the table of docs/benchmarks.md.")
		if o, err := parse(nil); err == nil {
			printPlan(f.Output(), o)
		}
		fmt.Fprintln(f.Output(), "\nflags:")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.reps < 1 || o.Warm < 1 || o.Deliveries < 1 || o.Backlog < 1 || o.Past < 1 ||
		o.Deep < 1 || f.NArg() > 0 {
		return o, errors.New("-reps, -warm, -deliveries, -backlog, -past, -deep: at least 1; " +
			"there are no arguments")
	}
	o.BodyBytes = len(paymentsTo("acc_1", "ep_1").Body("x", 1))
	return o, lists()
}

// register adds the flags, and returns what reads the lists of them when they are known.
func (o *options) register(f *flag.FlagSet) (lists func() error) {
	cache, _ := os.UserCacheDir()
	f.StringVar(&o.service, "service", "bin/lumenhook", "the program that is measured")
	f.StringVar(&o.scratch, "scratch", "",
		"where data folders are made; empty: the system's own place")
	f.StringVar(&o.cache, "cache", filepath.Join(cache, "lumenhook", "bench-history"),
		"where the deployment with a past is kept")
	f.StringVar(&o.profiles, "profiles", "",
		"a folder where profiles of the services stay, for go tool pprof, also of deliver, history "+
			"and backlog; empty: only those of profile are taken, and not kept")
	f.StringVar(&o.json, "json", "", "a file for the figures")
	f.StringVar(&o.runs, "runs", "", "a file that each finished step is appended to, for -resume")
	f.StringVar(&o.markdown, "markdown", "", "a file for the table as Markdown")
	f.StringVar(&o.update, "update", "",
		"a document whose table, between two marks, is replaced: docs/benchmarks.md")
	f.BoolVar(&o.resume, "resume", false,
		"go on with the latest run of -runs that has the same commit, machine and settings")
	names := f.String("lines", allLines, "what is measured, separated by commas")
	f.IntVar(&o.reps, "reps", 5, "how often")
	endpoints := f.String("endpoints", "1,8,100", "deliver: to how many endpoints")
	syncs := f.String("sync", "false,true", "the broker without fsync, with it, or both")
	rates := f.String("rates", "100,500", "latency: deliveries a second, at rest")
	o.registerSettings(f)
	return func() (err error) {
		if o.lines, err = chosen(*names); err == nil {
			o.endpoints, err = each("endpoints", *endpoints, strconv.Atoi)
		}
		if err == nil {
			o.syncs, err = each("sync", *syncs, strconv.ParseBool)
		}
		if err == nil {
			o.rates, err = each("rates", *rates,
				func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
		}
		return err
	}
}

func (o *options) registerSettings(f *flag.FlagSet) {
	f.IntVar(&o.Warm, "warm", 2000, "deliveries and posts that are not counted, before each run")
	f.IntVar(&o.Deliveries, "deliveries", 200_000, "deliveries of a run at full speed, at least")
	f.DurationVar(&o.Time, "time", time.Minute, "how long such a run appends, at least")
	f.IntVar(&o.Backlog, "backlog", 50_000, "matches that are appended ahead of the deliveries")
	f.DurationVar(&o.PaceTime, "pace-time", 20*time.Second, "latency: how long each rate is kept")
	f.DurationVar(&o.FloorTime, "floor-time", 5*time.Second, "how long each floor is measured")
	f.DurationVar(&o.CloseTime, "close-time", 40*time.Second, "close: how long is paid")
	f.IntVar(&o.Past, "past", 10_000_000, "history: deliveries that were made before")
	f.IntVar(&o.Deep, "deep", 1_000_000, "backlog: matches that are appended at once")
	f.IntVar(&o.shallow, "shallow", 10_000, "backlog: what it is compared with")
	f.IntVar(&o.Waiting, "waiting", 1_000_000, "waiting, memory: deliveries that wait")
	f.IntVar(&o.Healthy, "healthy", 3000, "hanging: a fifth of the deliveries to healthy endpoints")
	f.IntVar(&o.Watches, "watches", 1_000_000, "match: watches")
	f.IntVar(&o.Facts, "facts", 600_000, "rebuild: facts of the journal")
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
