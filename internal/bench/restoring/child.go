package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// event is what a child reports, as a line of JSON.
type event struct {
	Kind      string      `json:"kind"`
	Partition int32       `json:"partition,omitempty"`
	At        int64       `json:"at"` // Unix nanoseconds
	Owned     []int32     `json:"owned,omitempty"`
	Standing  []int32     `json:"standing,omitempty"`
	Needed    []int64     `json:"needed,omitempty"` // of the journals
	States    []stateSize `json:"states,omitempty"`
}

const (
	eventFirst = "first" // the first attempt of a partition
	eventState = "state" // which partitions are restored, and which are followed
	eventDone  = "done"  // what was to be folded is
)

// stateSize is a state as it was counted.
type stateSize struct {
	Partition int32  `json:"partition"`
	Next      int64  `json:"next"`
	Keys      int64  `json:"keys"`
	Bytes     int64  `json:"bytes"`
	Digest    uint64 `json:"digest"`
}

// reporter writes events to the standard output.
type reporter struct {
	mu   sync.Mutex
	seen map[int32]bool
}

func (r *reporter) report(e event) {
	if e.At == 0 {
		e.At = time.Now().UnixNano()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // it is made of numbers
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

// attempted reports the first attempt of each partition.
func (r *reporter) attempted(p int32) {
	r.mu.Lock()
	before := r.seen[p]
	r.seen[p] = true
	r.mu.Unlock()
	if !before {
		r.report(event{Kind: eventFirst, Partition: p})
	}
}

// reporting is a dispatcher whose attempts are reported.
type reporting struct {
	engine.Dispatcher
	partitionOf func(string) int32
	reports     *reporter
}

func (d reporting) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	d.reports.attempted(d.partitionOf(a.EndpointID))
	d.Dispatcher.Dispatch(a, done)
}

// instant succeeds at once, but for deliveries that are to wait.
type instant struct{ fails func(event string) bool }

func (d instant) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	result := domain.AttemptResult{SentAtMillis: time.Now().UnixMilli(), StatusCode: 200}
	if d.fails != nil && d.fails(a.EventID) {
		result.StatusCode = 404 // a 5xx would have it tried one at a time
	}
	done(result)
}

func (instant) Disconnect(string) {}

// patient is a policy by which what has failed once is due in ten years.
func patient() domain.Policy {
	const tenYearsMillis = 10 * 365 * 24 * 3_600_000
	return domain.Policy{Schedule: domain.Schedule{WaitsMillis: []int64{tenYearsMillis}}}
}

// childFlags are those of all children.
type childFlags struct {
	kind       string
	brokers    string
	dir        string // of the states
	partitions int
	replicas   int
	snapshots  bool
	retain     bool
	name       string // of the process in its group; empty: a member leaves with it
	receiver   string // its URL; empty: attempts succeed in process
	roots      string // a file with its certificate
}

func (c *childFlags) args() []string {
	return []string{
		"-child", c.kind, "-brokers", c.brokers, "-state", c.dir,
		"-partitions", strconv.Itoa(c.partitions), "-replicas", strconv.Itoa(c.replicas),
		"-snapshots=" + strconv.FormatBool(c.snapshots), "-retain=" + strconv.FormatBool(c.retain),
		"-name", c.name, "-receiver", c.receiver, "-roots", c.roots,
	}
}

func runChild(args []string) error {
	var c childFlags
	f := flag.NewFlagSet("child", flag.ContinueOnError)
	f.StringVar(&c.kind, "child", "", "")
	f.StringVar(&c.brokers, "brokers", "", "")
	f.StringVar(&c.dir, "state", "", "")
	f.IntVar(&c.partitions, "partitions", 0, "")
	f.IntVar(&c.replicas, "replicas", 0, "")
	f.BoolVar(&c.snapshots, "snapshots", true, "")
	f.StringVar(&c.name, "name", "", "")
	f.BoolVar(&c.retain, "retain", false, "")
	f.StringVar(&c.receiver, "receiver", "", "")
	f.StringVar(&c.roots, "roots", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if c.kind == "fold" {
		return c.fold(ctx)
	}
	return c.engine(ctx)
}

func clusterAt(brokers string, logger *slog.Logger) streams.Cluster {
	return streams.Cluster{
		Brokers:  []string{brokers},
		Prefix:   prefix,
		ClientID: "restoring",
		Logger:   logger,
	}
}

// engine runs an engine until it is terminated.
func (c *childFlags) engine(ctx context.Context) error {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	reports := &reporter{seen: make(map[int32]bool)}
	dispatcher, err := c.dispatcher(ctx)
	if err != nil {
		return err
	}
	cluster := clusterAt(c.brokers, logger)
	cluster.InstanceID = c.name
	cfg := engineConfig(cluster, c.dir)
	cfg.Dispatcher = reporting{dispatcher, streams.PartitionOf(c.partitions), reports}
	cfg.StandbyReplicas = c.replicas
	if !c.snapshots {
		cfg.SnapshotEvery = 1 << 62
	}
	if c.retain {
		cfg.Retained, cfg.Keep, cfg.RetainEvery = topology.Retained(), time.Millisecond, time.Second
	}
	e := engine.New(cfg)
	watching, end := context.WithCancel(context.Background())
	defer end()
	look := 5 * time.Millisecond
	if c.receiver != "" { // the deliver path is measured
		look = 250 * time.Millisecond
	}
	go watch(watching, e, look, reports)
	return e.Run(ctx)
}

// engineConfig is an engine as `lumenhook run` has it, but for its retries.
func engineConfig(cluster streams.Cluster, dir string) engine.Config {
	return engine.Config{
		Cluster:  cluster,
		StateDir: dir,
		Policy:   patient(),
		Unseal: func(sealed []byte, _ string) (domain.Secret, error) {
			return domain.Secret(sealed), nil
		},
		AttemptsInFlight:    512,
		AttemptsPerEndpoint: 128,
		DrainTimeout:        time.Second,
		Now:                 time.Now,
		Logger:              cluster.Logger,
	}
}

func (c *childFlags) dispatcher(ctx context.Context) (engine.Dispatcher, error) {
	if c.receiver == "" {
		return instant{}, nil
	}
	address, err := url.Parse(c.receiver)
	if err != nil {
		return nil, err
	}
	ports, err := egress.ParsePorts(address.Port())
	if err != nil {
		return nil, err
	}
	certificate, err := os.ReadFile(c.roots)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return nil, errors.New("the receiver's certificate cannot be read")
	}
	client, err := egress.New(egress.Config{
		Policy: egress.Policy{
			Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			Ports: ports,
		},
		RootCAs:        roots,
		MaxIdlePerHost: 1024,
	})
	if err != nil {
		return nil, err
	}
	return redirected{egress.NewDispatcher(context.WithoutCancel(ctx), client, time.Now), c.receiver},
		nil
}

// redirected sends everything to one receiver: endpoints were made before its port was known.
type redirected struct {
	engine.Dispatcher
	to string
}

func (d redirected) Dispatch(a domain.Attempt, done func(domain.AttemptResult)) {
	a.URL = d.to
	d.Dispatcher.Dispatch(a, done)
}

// watch reports which partitions an engine has, as often as it looks: that takes processor
// time, of which the cost of a delivery is to be free.
func watch(ctx context.Context, e *engine.Engine, every time.Duration, reports *reporter) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var latest event
	for ctx.Err() == nil {
		now := event{Kind: eventState}
		for _, p := range e.Stats() {
			if p.Restored {
				now.Owned = append(now.Owned, p.Partition)
				now.Needed = append(now.Needed, p.Needed.Journal)
			}
		}
		for _, s := range e.StandbyStats() {
			if s.Following {
				now.Standing = append(now.Standing, s.Partition)
			}
		}
		if !slices.Equal(now.Owned, latest.Owned) || !slices.Equal(now.Standing, latest.Standing) ||
			!slices.Equal(now.Needed, latest.Needed) {
			latest = now
			reports.report(now)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// fold folds every partition's journal into an empty state, by a standby, and counts the
// states: with snapshots from the newest, else from the journal's beginning.
func (c *childFlags) fold(ctx context.Context) error {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	reports := &reporter{seen: make(map[int32]bool)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var following, ended sync.WaitGroup
	errs := make([]error, c.partitions)
	for p := range c.partitions {
		following.Add(1)
		task := c.standby(p, logger, following.Done)
		ended.Go(func() { errs[p] = task.Run(ctx) })
	}
	following.Wait()
	reports.report(event{Kind: eventDone})
	cancel()
	ended.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	counted := event{Kind: eventState}
	for p := range c.partitions {
		size, err := count(c.store(p, logger), int32(p)) // #nosec G115 -- a few
		if err != nil {
			return err
		}
		counted.States = append(counted.States, size)
	}
	reports.report(counted)
	return nil
}

func (c *childFlags) standby(p int, logger *slog.Logger, following func()) streams.Standby {
	cluster := clusterAt(c.brokers, logger)
	core := streams.CoreConfig[engine.Effect, engine.Outcome]{
		Partition: int32(p), // #nosec G115 -- a few
		Journal:   schemas.TopicJournal,
		Inputs:    engine.Inputs(),
		Store:     c.store(p, logger),
		NewHandler: func() streams.Handler[engine.Effect, engine.Outcome] {
			return engine.NewHandler(engineConfig(cluster, c.dir), nil)
		},
		Logger: logger,
	}
	if c.snapshots {
		core.Snapshots = engine.Snapshots(c.partitions)
	}
	return streams.NewStandbyTask(streams.StandbyTaskConfig[engine.Effect, engine.Outcome]{
		CoreConfig:  core,
		Cluster:     cluster,
		OnFollowing: following,
	})
}

// store is a partition's as an engine opens it.
func (c *childFlags) store(p int, logger *slog.Logger) streams.StoreConfig {
	return streams.StoreConfig{
		Dir:           filepath.Join(c.dir, strconv.Itoa(p)),
		Identity:      "restoring",
		CacheBytes:    16 << 20,
		MemTableBytes: 16 << 20,
		Unlogged:      true,
		Logger:        logger,
	}
}

// ownOfStore begins the one key of an engine's state that is no function of the journal: how
// far its rows are published again.
const ownOfStore = 0x17

// count counts a state. The digest does not depend on the order.
func count(cfg streams.StoreConfig, p int32) (size stateSize, err error) {
	s, err := streams.OpenStore(cfg)
	if err != nil {
		return size, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	size.Partition = p
	if size.Next, err = s.Checkpoint(schemas.TopicJournal, p); err != nil {
		return size, err
	}
	err = s.Each(func(key, value []byte) (bool, error) {
		if key[0] == ownOfStore {
			return true, nil
		}
		hash := fnv.New64a()
		fmt.Fprintf(hash, "%d\n", len(key))
		_, _ = hash.Write(key)
		_, _ = hash.Write(value)
		size.Keys++
		size.Bytes += int64(len(key) + len(value))
		size.Digest += hash.Sum64()
		return true, nil
	})
	return size, err
}
