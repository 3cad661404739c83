package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
)

const prefix = "restoring."

// madeBy is incremented when the deployment is made in another way.
const madeBy = 1

type options struct {
	past, waiting, partitions int
	cache, scratch            string
	steps                     string
	times, pairs, cycles      int
	json                      string
}

func main() {
	var err error
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		err = runChild(os.Args[1:])
	} else {
		err = run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "restoring:", err)
		os.Exit(1)
	}
}

func parse() (o options, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return o, err
	}
	flag.IntVar(&o.past, "past", 10_000_000, "deliveries that were made")
	flag.IntVar(&o.waiting, "waiting", 100_000, "deliveries that wait")
	flag.IntVar(&o.partitions, "partitions", 4, "partitions of each keyed topic")
	flag.StringVar(&o.cache, "cache", filepath.Join(cache, "lumenhook", "bench-restore"),
		"where deployments are kept")
	flag.StringVar(&o.scratch, "scratch", "", "where copies are made; empty: beside the deployments")
	flag.StringVar(&o.steps, "steps", "cold,local,takeover,fold,topics,cost",
		"what is measured; empty: the deployment is only made")
	flag.IntVar(&o.times, "times", 5, "how often a restore and a take-over are measured")
	flag.IntVar(&o.pairs, "pairs", 5, "how often the cost is measured, with snapshots and without")
	flag.IntVar(&o.cycles, "cycles", 2, "for how many snapshots of each partition it is measured")
	flag.StringVar(&o.json, "json", "", "a file for the figures")
	flag.Parse()
	if o.past < 1 || o.waiting < 1 || o.partitions < 2 {
		return o, errors.New("-past, -waiting: at least 1; -partitions: at least 2")
	}
	if o.scratch == "" {
		o.scratch = o.cache
	}
	return o, os.MkdirAll(o.cache, 0o700)
}

// lab is a running broker with a copy of the deployment.
type lab struct {
	opt      options
	dir      string
	broker   *broker.Broker
	cluster  streams.Cluster
	producer *streams.Producer
	journal  *os.File // what the broker and our own clients log
	results  results
	children int
	appended int // matches beside those of the deployment
}

func (l *lab) open(folder string) (err error) {
	l.journal, err = os.OpenFile(filepath.Join(l.dir, "parent.log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(l.journal, &slog.HandlerOptions{Level: slog.LevelWarn}))
	l.broker, err = broker.Start(broker.Config{
		Dir:    filepath.Join(folder, "broker"),
		Listen: "127.0.0.1:0",
		Logger: logger,
	})
	if err != nil {
		return err
	}
	l.cluster = clusterAt(l.broker.Addr(), logger)
	l.producer, err = l.cluster.NewProducer()
	return err
}

func (l *lab) close() {
	if l.producer != nil {
		l.producer.Close()
	}
	if l.broker != nil {
		l.broker.Close()
	}
	_ = l.journal.Close()
}

func run() error {
	o, err := parse()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	kept, err := made(ctx, o)
	if err != nil || o.steps == "" {
		return err
	}
	scratch, err := os.MkdirTemp(o.scratch, "run-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	original, copied := filepath.Join(kept.Folder, "broker"), filepath.Join(scratch, "broker")
	if err := clone(original, copied); err != nil {
		return err
	}
	o.past = kept.Past
	l := &lab{opt: o, dir: scratch}
	defer l.close()
	say("opening the broker's folder")
	if err := l.open(scratch); err != nil {
		return err
	}
	l.results.begin(o)
	steps := strings.Split(o.steps, ",")
	for _, step := range l.all() {
		if slices.Contains(steps, step.name) {
			say(step.says)
			if err := step.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
		}
	}
	return l.results.end(os.Stdout, o.json)
}

type step struct {
	name, says string
	run        func(context.Context) error
}

func (l *lab) all() []step {
	return []step{
		{"cold", "restoring without local state", l.cold},
		{"local", "restoring with local state", l.local},
		{"takeover", "taking over by standbys", l.takeOvers},
		{"fold", "folding the whole journal", l.fold},
		{"topics", "deleting what nobody needs, while deliveries are made", l.topics},
		{"cost", "delivering over HTTP, with and without snapshots", l.cost},
	}
}

func say(what string) { fmt.Fprintln(os.Stderr, what+" …") }

// deployment is what is kept of one beside the broker's folder.
type deployment struct {
	Stamp  string `json:"stamp"` // of the formats
	Made   bool   `json:"made"`  // its endpoints are there, and what is to wait does
	Past   int    `json:"past"`  // deliveries that were made then
	Folder string `json:"-"`
}

func (d deployment) save() error {
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.Folder, "deployment.json"), text, 0o600)
}

// made returns the deployment, with as many past deliveries as are asked for, or more. What
// is missing of them is made; that may be interrupted, and goes on with the next run.
func made(ctx context.Context, o options) (d deployment, err error) {
	stamp, err := json.Marshal(map[string]any{
		"madeBy":   madeBy,
		"identity": engine.Snapshots(o.partitions).Identity,
		"topics":   schemas.Topics(),
	})
	if err != nil {
		return d, err
	}
	folder := filepath.Join(o.cache, fmt.Sprintf("waiting-%d-partitions-%d", o.waiting, o.partitions))
	if have, err := os.ReadFile(filepath.Join(folder, "deployment.json")); err == nil {
		_ = json.Unmarshal(have, &d) // what cannot be read has another stamp
	}
	d.Folder = folder
	if d.Stamp != string(stamp) {
		d = deployment{Stamp: string(stamp), Folder: folder}
		if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
			return d, err
		}
	}
	if d.Made && d.Past >= o.past {
		return d, nil
	}
	say(fmt.Sprintf("making %d past deliveries, beside %d that wait, in %s", o.past, o.waiting,
		folder))
	l := &lab{opt: o, dir: folder}
	if err = l.open(folder); err == nil {
		err = l.fill(ctx, &d)
	}
	l.close()
	if err == nil {
		err = ctx.Err()
	}
	if err := errors.Join(err, d.save()); err != nil {
		return d, fmt.Errorf("making the deployment: %w", err)
	}
	return d, nil
}
