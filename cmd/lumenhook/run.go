package main

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/projections"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/commands"
	"github.com/lumenhook/lumenhook/streams/directory"
	"github.com/lumenhook/lumenhook/streams/dispatcher"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/follower"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// runPartitions is the partition count of keyed topics of `run`.
const runPartitions = 4

func newRun() *cobra.Command {
	var s runSettings
	c := &cobra.Command{
		Use:   "run",
		Short: "Run everything on this machine: broker, ClickHouse, development network, service, demo",
		Long: `Starts a Kafka-protocol broker with its data on disk, a ClickHouse engine, a
development Stellar network, the service itself, and a demo: a receiver, an
endpoint, a watch, and a payment now and then. Ctrl-C stops it; started again on
the same --data-dir it goes on where it was.

Once everything is ready it writes run.json into the data folder: the addresses
and the API key.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return cli.Usage(err)
			}
			signal.Ignore(syscall.SIGPIPE) // a pager that was left does not stop a service
			return runAll(cmd.Context(), &s, cmd.OutOrStdout())
		},
	}
	s.register(c.Flags())
	return c
}

// service is everything that `run` starts. Parts are stopped in the reverse
// order of their start.
type service struct {
	s       *runSettings
	out     *printer
	logger  *slog.Logger
	dir     *dataDir
	logins  logins
	file    runFile
	cluster streams.Cluster
	ca      *pki.CA
	sealer  *sealing.Sealer
	keyText []byte // the master key's
	ids     devnet.Identities
	history *lateHistory
	urls    urlPolicy
	room    *room
	metrics *metrics
	failed  context.CancelCauseFunc

	mu        sync.Mutex // holds stops and published, and file once that is set
	stops     []func()
	published bool // run.json is there, and is kept up to date

	directory *directory.Directory
	commands  *commands.Client
	engine    *engine.Engine
	follower  *follower.Follower
}

// runAll starts everything, says so, and serves until ctx ends or a part fails.
func runAll(ctx context.Context, s *runSettings, out io.Writer) error {
	level, _ := parseLevel(s.logLevel)
	serving, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	shown := newTerminal(out)
	defer shown.Close()
	v := &service{
		metrics: newMetrics(),
		s:       s, out: &printer{w: shown}, failed: failed, history: &lateHistory{lagMax: s.history.lagMax},
		logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}
	quietGlobalLog(v.logger)
	err := v.start(serving)
	if err == nil {
		<-serving.Done()
		v.out.line("stopping: attempts under way are finished and everything is flushed")
	}
	v.stop()
	if cause := context.Cause(serving); ctx.Err() == nil && cause != nil && err == nil {
		return cause
	}
	if err != nil && ctx.Err() != nil {
		return nil // interrupted while starting
	}
	if err == nil {
		v.out.line("stopped")
	}
	return err
}

func (v *service) onStop(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.stops = append(v.stops, f)
}

// stop stops the part that was started last until there is none: one that is only
// just starting is among them.
func (v *service) stop() {
	next := func() (f func()) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if last := len(v.stops) - 1; last >= 0 {
			f, v.stops = v.stops[last], v.stops[:last]
		}
		return f
	}
	for f := next(); f != nil; f = next() {
		f()
	}
}

// goRun works a part until the service stops it. A part that ends by itself
// fails the service.
func (v *service) goRun(what string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := run(ctx)
		if ctx.Err() == nil {
			v.failed(fmt.Errorf("%s ended: %w", what, err))
		} else if err != nil && !errors.Is(err, context.Canceled) {
			v.logger.Warn("stopping "+what, "error", err)
		}
	}()
	v.onStop(func() { cancel(); <-ended })
}

func (v *service) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		v.openData, v.startBroker, v.startDevnet, v.startDirectory, v.startHistory,
		v.startEngine, v.startMailer, v.bootstrap, v.startFollower, v.startAPI, v.startMetrics, v.startDemo, v.ready,
	} {
		if err := step(ctx); err != nil {
			return err
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (v *service) openData(context.Context) (err error) {
	if v.dir, err = openDataDir(v.s.dataDir); err != nil {
		return err
	}
	v.onStop(func() { _ = v.dir.close() })
	v.room = &room{
		leastBytes: uint64(v.s.leastFreeMiB) << 20, free: func() (uint64, error) { return freeBytes(v.dir.path) },
		out: v.out, logger: v.logger,
	}
	if v.room.look(); v.room.check() != nil {
		return fmt.Errorf("--data-dir %s: %w, or name a folder on another disk", v.dir.path, v.room.check())
	}
	v.goRun("the watch over the disk", v.room.Run)
	if err := os.Remove(v.dir.join(runFileName)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := v.dir.secretsKept(); err != nil {
		return err
	}
	key := masterKeyPlace{target: target{dataDir: v.dir.path}}
	if v.sealer, v.keyText, err = key.open(); err != nil {
		return err
	}
	if v.logins, err = v.dir.logins(); err != nil {
		return err
	}
	if v.ids, err = devnet.LoadOrCreateIdentities(devnetSecrets(v.dir.path)); err != nil {
		return err
	}
	if v.file.APIKey, err = v.dir.apiKey(); err != nil {
		return err
	}
	v.file.AccountID = domain.DeriveID(domain.AccountPrefix, "run", string(domain.APIKeyHash(v.file.APIKey)))
	v.ca, err = pki.LoadOrCreateCA(v.dir.join("secrets"), v.dir.join("ca.pem"), time.Now)
	v.file.CAFile = v.dir.join("ca.pem")
	v.file.PID = os.Getpid()
	return err
}

// address is where to listen by a flag; a taken default is stepped over.
func (v *service) address(flag, address string) string {
	return freeAddress(address, v.s.changed(flag), func(from, to string) {
		v.out.line("%s is taken: --%s is %s this time", from, flag, to)
	})
}

func (v *service) startBroker(ctx context.Context) error {
	if v.s.holdFile != "" {
		v.logger.Warn("FAULTS ARE ON: --fault-hold-file is for tests and holds requests up",
			"file", v.s.holdFile)
	}
	b, err := broker.Start(broker.Config{
		Dir: v.dir.join("broker"), Listen: v.address("kafka-listen", v.s.kafkaListen), Sync: v.s.brokerSync,
		User: v.logins.Kafka.User, Password: v.logins.Kafka.Password,
		Failed: func(err error) { v.failed(err) }, Logger: v.logger, HoldFile: v.s.holdFile,
	})
	if err != nil {
		return fmt.Errorf("--kafka-listen: %w", err)
	}
	v.onStop(b.Close)
	v.file.KafkaBrokers, v.file.Kafka = []string{b.Addr()}, v.logins.Kafka
	v.cluster = streams.Cluster{Brokers: v.file.KafkaBrokers, Prefix: "lumenhook.", ClientID: "lumenhook", SASL: v.file.Kafka.sasl(), Logger: v.logger}
	return v.cluster.EnsureTopics(ctx, topology.Wanted(topology.Shape{Partitions: runPartitions, Replicas: 1}))
}

func (v *service) startDevnet(context.Context) error {
	n, err := devnet.Open(devnet.Config{
		Dir: v.dir.join("devnet"), Identities: v.ids, Listen: v.address("stellar-listen", v.s.stellarListen),
		Hosts: v.s.edge.hosts, Origins: v.s.edge.origins,
		CloseInterval: v.s.ledgerInterval, Sync: v.s.brokerSync, Hold: v.room.check, Logger: v.logger,
		RetentionLedgers: v.s.stellarRetention, Faults: v.s.faults, LakeDir: v.s.stellarLake,
	})
	if err != nil {
		return fmt.Errorf("--stellar-listen: %w", err)
	}
	v.onStop(func() {
		if err := n.Close(); err != nil {
			v.logger.Warn("stopping the development network", "error", err)
		}
	})
	v.goRun("the development network", n.Run)
	v.file.Stellar = runStellar{RPCURL: n.RPCURL(), NetworkPassphrase: n.Passphrase(), FriendbotURL: n.FriendbotURL()}
	v.s.source.ofDevnet(n, v.s)
	return nil
}

func (v *service) startDirectory(ctx context.Context) (err error) {
	v.directory, err = directory.Open(ctx, directory.Config{
		Cluster: v.cluster, Dir: v.dir.join("state", "directory"), OnUnreadable: v.metrics.deadLetter, Now: time.Now, Logger: v.logger,
	})
	if err != nil {
		return err
	}
	v.onStop(func() {
		if err := v.directory.Close(); err != nil {
			v.logger.Warn("closing the directory", "error", err)
		}
	})
	v.goRun("the directory", v.directory.Run)
	v.commands, err = commands.Open(ctx, commands.Config{Cluster: v.cluster, Wait: maxTestWait, Logger: v.logger})
	if err != nil {
		return err
	}
	v.onStop(func() { v.commands.Close() })
	v.goRun("the command client", v.commands.Run)
	return nil
}

// startHistory starts ClickHouse and the projector. Without ClickHouse the
// service runs all the same, and says once what is missing; while its engine is
// still being fetched, the history is to come.
func (v *service) startHistory(ctx context.Context) error {
	err := v.tryHistory(ctx)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if errors.Is(err, clickhouse.ErrNotInstalled) {
		v.history.lacks(historyFetched)
		v.out.line("the history comes later: its ClickHouse engine is fetched through npm, once (180 MB); until then GET /v1/events answers 503")
		v.goRun("the fetching of the ClickHouse engine", v.historyLater)
		return nil
	}
	var taken *clickhouse.PortTakenError
	switch {
	case errors.As(err, &taken) && taken.Setting == "HTTPAddr":
		return fmt.Errorf("--clickhouse-http-listen: %w", err)
	case errors.As(err, &taken):
		return fmt.Errorf("--clickhouse-native-listen: %w", err)
	case errors.Is(err, clickhouse.ErrDataDirInUse):
		return err
	}
	v.noHistory(err)
	return nil
}

func (v *service) tryHistory(ctx context.Context) error {
	dsn := v.s.clickhouseDSN
	if dsn == "" {
		e, err := v.startClickHouse(ctx)
		if err != nil {
			return err
		}
		dsn = e.DSN()
		v.mu.Lock()
		v.file.ClickHouse = &runClickHouse{
			Native: e.NativeAddr(), HTTP: e.HTTPURL(), Database: e.Database(),
			runLogin: v.logins.ClickHouse, Reader: v.logins.Reader,
		}
		v.mu.Unlock()
	}
	db, err := projections.Open(dsn)
	if err != nil {
		return fmt.Errorf("--clickhouse-dsn: %w", err)
	}
	v.onStop(func() { _ = db.Close() })
	if err := projections.Migrate(ctx, db); err != nil {
		if v.s.clickhouseDSN == "" {
			return err
		}
		// It is another's to start; the projector waits for it and makes the tables.
		v.out.line("ClickHouse does not answer yet; until it does, GET /v1/events answers 503 (--clickhouse-dsn): %v", err)
	} else if err := v.s.history.setRetention(ctx, db); err != nil {
		return err
	}
	ends, err := v.cluster.NewEnds()
	if err != nil {
		return err
	}
	v.onStop(ends.Close)
	p, err := projections.NewProjector(projections.ProjectorConfig{
		DB: db, Cluster: v.cluster, Now: time.Now, Logger: v.logger, BlockRows: v.s.history.blockRows, BlockWait: v.s.history.blockWait,
	})
	if err != nil {
		return err
	}
	v.onStop(p.Close)
	v.goRun("the projector", func(ctx context.Context) error { return v.project(ctx, p) })
	v.metrics.gauge("lumenhook_projector_facts", "Facts that this projector has written since its start, repeats included.", func() float64 { return float64(p.Status().Facts) })
	v.metrics.registry.MustRegister(newProjectionLag(p))
	v.history.set(p, projections.NewHistory(projections.HistoryConfig{DB: db, Ends: func(ctx context.Context) (map[int32]int64, error) {
		return ends.Of(ctx, schemas.TopicJournal)
	}}))
	return nil
}

// project keeps the service up when the projector cannot go on without a person:
// payments are observed and delivered without a history, which then answers 503.
func (v *service) project(ctx context.Context, p *projections.Projector) error {
	err := p.Run(ctx)
	if err != nil && ctx.Err() == nil {
		v.out.line("the history is not written any more (GET /v1/events answers 503 for what it lacks): %v", err)
		<-ctx.Done()
	}
	return err
}

func (v *service) startClickHouse(ctx context.Context) (*clickhouse.Engine, error) {
	program, err := clickhouse.Find(ctx, clickhouse.Options{InstalledOnly: true, Logger: v.logger})
	if err != nil {
		return nil, err
	}
	e, err := clickhouse.Start(ctx, clickhouse.Config{
		Program: program, DataDir: v.dir.join("clickhouse"), Database: "lumenhook", Logger: v.logger,
		Service: v.logins.ClickHouse.clickhouse(), Reader: v.logins.Reader.clickhouse(),
		NativeAddr: v.address("clickhouse-native-listen", v.s.clickhouseNative),
		HTTPAddr:   v.address("clickhouse-http-listen", v.s.clickhouseHTTP),
	})
	if err != nil {
		return nil, err
	}
	v.onStop(func() {
		if err := e.Stop(); err != nil {
			v.logger.Warn("stopping ClickHouse", "error", err)
		}
	})
	return e, nil
}

// newEgress makes the guarded client: it may reach this machine, and trusts the
// run's own authority beside the system's.
func (v *service) newEgress() (*egress.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	v.ca.AddTo(roots)
	roots.AppendCertsFromPEM(v.s.egressPEM)
	cfg := egress.Config{
		Policy:  egress.Policy{Allow: egress.LoopbackPrefixes(), Ports: v.s.ports},
		RootCAs: roots, AttemptTimeout: v.s.attemptTimeout,
		// As many as attempts may go to one host at once: a connection that is not
		// kept costs a TLS handshake, which costs more than twenty attempts.
		MaxIdlePerHost: 1024,
	}
	v.s.egress.apply(&cfg)
	return egress.New(cfg)
}

func (v *service) startEngine(context.Context) error {
	if err := v.allowReceiverPort(); err != nil {
		return err
	}
	client, err := v.newEgress()
	if err != nil {
		return err
	}
	v.onStop(client.Close)
	v.urls = urlPolicy{client}
	v.file.EgressPorts = v.s.ports.String()
	attempts, breakOff := context.WithCancel(context.Background())
	v.onStop(breakOff)
	e := engine.New(engine.Config{
		Cluster: v.cluster, StateDir: v.dir.join("state", "engine"), Policy: domain.Policy{Schedule: v.s.schedule, DisableAfter: v.s.disableAfter, HonourRetryAfter: v.s.honourRetryAfter},
		Dispatcher: dispatcher.New(attempts, client, time.Now),
		Unseal: func(sealed []byte, boundTo string) (domain.Secret, error) {
			plain, err := v.sealer.Open(sealed, boundTo)
			return domain.Secret(plain), err
		},
		AttemptsInFlight: v.s.attemptsInFlight, AttemptsPerEndpoint: v.s.attemptsPerEndpoint,
		DrainTimeout: v.s.attemptTimeout + 2*time.Second, OnFact: func(f domain.Fact) {
			v.metrics.fact(f)
			v.out.fact(f)
		},
		OnDeadLetter: v.metrics.deadLetter,
		Now:          time.Now, Logger: v.logger,
	})
	v.engine = e
	v.goRun("the engine", e.Run)
	return nil
}

// bootstrap opens the run's account with its key. Asked at every start, it
// changes something at the first only.
func (v *service) bootstrap(ctx context.Context) error {
	id := v.file.AccountID
	hash := domain.APIKeyHash(v.file.APIKey)
	command := domain.Command{
		ID: domain.DeriveID(domain.CommandPrefix, "run", id), AccountID: id, IssuedAtMillis: time.Now().UnixMilli(),
		Body: domain.CreateAccount{AccountID: id, Email: "you@localhost", Key: domain.Key{
			ID: domain.DeriveID(domain.KeyPrefix, "run", string(hash)), Name: "run", Hash: hash, Permissions: domain.Permissions(),
		}},
	}
	if _, exists, err := v.directory.Account(id); err != nil || exists {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		result, err := v.commands.Submit(ctx, command)
		if err == nil && result.Answer.Rejection != nil && result.Answer.Rejection.Code != domain.CodeAlreadyExists {
			return fmt.Errorf("opening the account: %s", result.Answer.Rejection.Detail)
		}
		if err == nil {
			return v.directory.AwaitAccount(ctx, id, 1)
		}
		if ctx.Err() != nil {
			return fmt.Errorf("opening the account: %w", err)
		}
	}
}

func (v *service) startFollower(ctx context.Context) error {
	source, err := v.s.source.open(v.logger)
	if err != nil {
		return err
	}
	source = &catchUpSource{Source: source, tell: v.out.line, now: time.Now}
	past, err := v.s.source.open(v.logger)
	if err != nil {
		return err
	}
	v.follower, err = follower.New(follower.Config{
		Cluster: v.cluster, Source: roomySource{source, v.room}, Watches: watches{v.directory}, Passphrase: v.file.Stellar.NetworkPassphrase,
		Start:    v.s.source.startAt,
		Backfill: follower.BackfillConfig{Source: roomySource{past, v.room}, Requests: v.directory, Commands: v.commands},
		OnLedger: func(l follower.LedgerSummary) {
			v.metrics.ledgerRead(l, time.Now())
			v.out.ledger(l)
		}, Now: time.Now, Logger: v.logger,
	})
	if err != nil {
		return err
	}
	v.goRun("the follower", v.follower.Run)
	select {
	case <-v.follower.Ready():
	case <-ctx.Done():
	}
	return nil
}

func (v *service) startAPI(context.Context) error {
	lookup, err := v.s.source.lookup(v.logger)
	if err != nil {
		return err
	}
	uses, err := newKeyUses(v.cluster, v.logger)
	if err != nil {
		return err
	}
	v.onStop(uses.close)
	handler, err := api.New(api.Config{
		Commands: submitter{v.commands, v.room}, Directory: reads{v.directory}, History: v.history, Sealer: v.sealer, Wallets: lookup,
		URLs: v.urls, Entropy: rand.Reader, Now: time.Now, Log: v.logger, Answered: v.metrics.request,
		Checks: v.checks(), Uses: uses, DeriveKey: deriver(v.keyText), Live: v.file.Stellar.NetworkPassphrase == publicPassphrase,
		RateLimit: api.RateLimit{PerSecond: v.s.apiRateLimit}, TestWait: testWait(v.s.attemptTimeout), TrustedProxies: v.s.edge.proxies,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", v.address("api-listen", v.s.apiListen))
	if err != nil {
		return fmt.Errorf("--api-listen: %w", err)
	}
	url, stop, err := v.s.edge.serveAPI(handler, v.s.apiListen, listener, v.logger, v.failed)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	v.file.APIURL = url
	v.onStop(stop)
	return nil
}

const (
	// publicPassphrase is the public network's: keys for it begin with whk_live_.
	publicPassphrase = "Public Global Stellar Network ; September 2015"
	// maxTestWait bounds the wait for the first attempt of a test.
	maxTestWait = 30 * time.Second
)

// testWait is the time of an attempt and a little.
func testWait(attempt time.Duration) time.Duration { return min(attempt+3*time.Second, maxTestWait) }

// checks are the conditions of /readyz.
func (v *service) checks() []api.Check {
	return []api.Check{
		{Name: "disk", Run: func(context.Context) error { return v.room.check() }},
		{Name: "engine", Run: func(context.Context) error { return v.engine.Check() }},
		{Name: "follower", Run: func(context.Context) error { return v.follower.Check() }},
		{Name: "history", Run: v.history.check, Detail: v.history.describe},
	}
}

// ready writes run.json and tells a person the same.
func (v *service) ready(context.Context) error {
	if err := v.publish(); err != nil {
		return err
	}
	v.onStop(v.unpublish)
	v.out.line("ready")
	v.out.line("  API        %s   key %s", v.file.APIURL, v.file.APIKey)
	if v.file.MetricsURL != "" {
		v.out.line("  metrics    %s", v.file.MetricsURL)
	}
	v.out.line("  Stellar    %s   friendbot %s", v.file.Stellar.RPCURL, v.file.Stellar.FriendbotURL)
	v.out.line("  Kafka      %s", v.file.KafkaBrokers[0])
	v.sayClickHouse()
	if v.file.Receiver != nil {
		v.out.line("  receiver   %s", v.file.Receiver.URL)
	}
	v.out.line("  all of it in %s", v.dir.join(runFileName))
	return nil
}

// lateHistory answers that there is no history until there is one.
type lateHistory struct {
	lagMax    int64 // records that it may be behind
	mu        sync.Mutex
	why       string // there is none
	of        *projections.History
	projector *projections.Projector
}

func (h *lateHistory) set(projector *projections.Projector, of *projections.History) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.of, h.projector = of, projector
}
