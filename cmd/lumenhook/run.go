package main

import (
	"context"
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
	"github.com/stellar/go-stellar-sdk/network"

	"github.com/lumenhook/lumenhook/api"
	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/cli"
	"github.com/lumenhook/lumenhook/internal/egress"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/devnet"
	"github.com/lumenhook/lumenhook/internal/node"
	"github.com/lumenhook/lumenhook/internal/pki"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/internal/sealing"
	"github.com/lumenhook/lumenhook/internal/startstop"
	"github.com/lumenhook/lumenhook/internal/terminal"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/mailer"
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

With --network it follows that network in place of one of its own, and keeps what it
was told by fsync: the whole service for one merchant, on one machine.

Once everything is ready it writes run.json into the data folder: the addresses
and the API key.`,
		Example: `  lumenhook run
  lumenhook run --network testnet --no-demo`,
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

// service is everything that `run` starts: embedded parts, and a node on them.
type service struct {
	*startstop.Stack
	s        *runSettings
	terminal io.Writer
	out      *printer
	dir      *runfile.Folder
	logins   runfile.Logins
	cluster  streams.Cluster
	ca       *pki.CA
	sealer   *sealing.Sealer
	keyText  []byte // the master key's
	ids      devnet.Identities
	disk     *node.DiskGuard
	node     *node.Node
	demo     *demo // nil with --no-demo

	mu        sync.Mutex // holds published, and file once that is set
	published bool       // run.json is there, and is kept up to date
	file      runfile.File
}

// runAll starts everything, says so, and serves until ctx ends or a part fails.
func runAll(ctx context.Context, s *runSettings, out io.Writer) error {
	level, _ := parseLevel(s.logLevel)
	shown := terminal.NewQueue(out)
	defer shown.Close()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	printed := &printer{terminal.NewLines(shown)}
	return work(ctx, logger, printed.Say, func(ctx context.Context, stack *startstop.Stack) error {
		v := &service{Stack: stack, s: s, terminal: shown, out: printed}
		return v.start(ctx)
	})
}

// work starts a process, and lets it work until ctx ends or a part of it fails. Then
// everything is stopped that was started.
func work(ctx context.Context, logger *slog.Logger, say func(string, ...any), start func(context.Context, *startstop.Stack) error) error {
	quietGlobalLog(logger)
	serving, failed := context.WithCancelCause(ctx)
	defer failed(nil)
	stack := &startstop.Stack{Failed: failed, Logger: logger}
	err := start(serving, stack)
	if err == nil {
		<-serving.Done()
		say("stopping: attempts under way are finished and everything is flushed")
	}
	stack.Stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil // interrupted while starting
	case err == nil && ctx.Err() == nil:
		return context.Cause(serving) // a part failed
	case err == nil:
		say("stopped")
	}
	return err
}

func (v *service) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		v.openData, v.startBroker, v.startDevnet, v.assemble, v.startHistory, v.startWork,
		v.bootstrap, v.startFollower, v.startAPI, v.startMetrics, v.startDemo, v.ready,
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
	if v.dir, err = runfile.Open(v.s.dataDir); err != nil {
		return err
	}
	v.OnStop(func() { _ = v.dir.Close() })
	v.disk = node.NewDiskGuard(v.dir.Path(), uint64(v.s.leastFreeMiB)<<20, v.out.Say, v.Logger)
	if err := v.disk.Check(); err != nil {
		return fmt.Errorf("--data-dir %s: %w, or name a folder on another disk", v.dir.Path(), err)
	}
	v.Go("the watch over the disk", v.disk.Run)
	if err := v.dir.Unpublish(); err != nil {
		return err
	}
	if err := v.dir.CheckSecrets(); err != nil {
		return err
	}
	if v.sealer, v.keyText, err = v.dir.MasterKey().Open(); err != nil {
		return err
	}
	if v.logins, err = v.dir.Logins(); err != nil {
		return err
	}
	if v.file.APIKey, err = v.dir.APIKey(v.s.source.Passphrase == network.PublicNetworkPassphrase); err != nil {
		return err
	}
	v.file.AccountID = domain.DeriveID(domain.AccountPrefix, "run", string(domain.APIKeyHash(v.file.APIKey)))
	v.ca, err = pki.LoadOrCreateCA(v.dir.Join("secrets"), v.dir.Join("ca.pem"), time.Now)
	v.file.CAFile = v.dir.Join("ca.pem")
	v.file.PID = os.Getpid()
	return err
}

// address is where to listen by a flag; a taken default is stepped over.
func (v *service) address(flag, address string) string {
	return freeAddress(address, v.s.changed(flag), func(from, to string) {
		v.out.Say("%s is taken: --%s is %s this time", from, flag, to)
	})
}

func (v *service) startBroker(ctx context.Context) error {
	if v.s.holdFile != "" {
		v.Logger.Warn("FAULTS ARE ON: --fault-hold-file is for tests and holds requests up",
			"file", v.s.holdFile)
	}
	b, err := broker.Start(broker.Config{
		Dir: v.dir.Join("broker"), Listen: v.address("kafka-listen", v.s.kafkaListen), Sync: v.s.brokerSync,
		User: v.logins.Kafka.User, Password: v.logins.Kafka.Password,
		Failed: v.Failed, Logger: v.Logger, HoldFile: v.s.holdFile,
	})
	if err != nil {
		return fmt.Errorf("--kafka-listen: %w", err)
	}
	v.OnStop(b.Close)
	v.file.KafkaBrokers, v.file.Kafka = []string{b.Addr()}, v.logins.Kafka
	v.cluster = streams.Cluster{
		Brokers: v.file.KafkaBrokers, Prefix: "lumenhook.", ClientID: "lumenhook",
		SASL: v.file.Kafka.SASL(), Logger: v.Logger,
	}
	return v.cluster.EnsureTopics(ctx, topology.Wanted(topology.Shape{Partitions: runPartitions, Replicas: 1}))
}

func (v *service) startDevnet(context.Context) (err error) {
	if !v.s.ownNetwork() {
		v.file.Stellar.NetworkPassphrase = v.s.source.Passphrase
		v.file.Stellar.RPCURL = v.s.source.RPCURL()
		return nil
	}
	if v.ids, err = devnet.LoadOrCreateIdentities(devnetSecrets(v.dir.Path())); err != nil {
		return err
	}
	n, err := devnet.Open(devnet.Config{
		Dir: v.dir.Join("devnet"), Identities: v.ids, Listen: v.address("stellar-listen", v.s.stellarListen),
		Hosts: v.s.edge.hosts, Origins: v.s.edge.origins,
		CloseInterval: v.s.ledgerInterval, Sync: v.s.brokerSync, Hold: v.disk.Check, Logger: v.Logger,
		RetentionLedgers: v.s.stellarRetention, Faults: v.s.faults, LakeDir: v.s.stellarLake,
	})
	if err != nil {
		return fmt.Errorf("--stellar-listen: %w", err)
	}
	v.OnStop(func() {
		if err := n.Close(); err != nil {
			v.Logger.Warn("stopping the development network", "error", err)
		}
	})
	v.Go("the development network", n.Run)
	v.file.Stellar = runfile.Stellar{RPCURL: n.RPCURL(), NetworkPassphrase: n.Passphrase(), FriendbotURL: n.FriendbotURL()}
	v.s.source.Follow(n.RPCURL(), n.Passphrase(), v.s.stellarLake,
		min(v.s.ledgerInterval/20, time.Second))
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
		v.node.History().Lacks(historyFetched)
		v.out.Say("the history comes later: its ClickHouse engine is fetched through npm, once (180 MB); until then GET /v1/events answers 503")
		v.Go("the fetching of the ClickHouse engine", v.historyLater)
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
	dsn := v.s.clickhouse.address
	if dsn == "" {
		e, err := v.startClickHouse(ctx)
		if err != nil {
			return err
		}
		dsn = e.DSN()
		v.mu.Lock()
		v.file.ClickHouse = &runfile.ClickHouse{
			Native: e.NativeAddr(), HTTP: e.HTTPURL(), Database: e.Database(),
			Login: v.logins.ClickHouse, Reader: v.logins.Reader,
		}
		v.mu.Unlock()
	}
	v.node.UseHistory(dsn)
	return v.node.Start(ctx, node.RoleProjector)
}

func (v *service) startClickHouse(ctx context.Context) (*clickhouse.Engine, error) {
	program, err := clickhouse.Find(ctx, clickhouse.Options{InstalledOnly: true, Logger: v.Logger})
	if err != nil {
		return nil, err
	}
	e, err := clickhouse.Start(ctx, clickhouse.Config{
		Program: program, DataDir: v.dir.Join("clickhouse"), Database: "lumenhook", Logger: v.Logger,
		Service: clickhouse.Login(v.logins.ClickHouse), Reader: clickhouse.Login(v.logins.Reader),
		NativeAddr: v.address("clickhouse-native-listen", v.s.clickhouseNative),
		HTTPAddr:   v.address("clickhouse-http-listen", v.s.clickhouseHTTP),
	})
	if err != nil {
		return nil, err
	}
	v.OnStop(func() {
		if err := e.Stop(); err != nil {
			v.Logger.Warn("stopping ClickHouse", "error", err)
		}
	})
	return e, nil
}

// assemble makes the node on the embedded parts.
func (v *service) assemble(ctx context.Context) error {
	if err := v.startDemoReceiver(); err != nil {
		return err
	}
	sender, err := v.sender()
	if err != nil {
		return err
	}
	lookup, err := v.s.source.Lookup(v.Logger)
	if err != nil {
		return err
	}
	live, past, err := v.s.source.OpenBoth(v.Logger)
	if err != nil {
		return err
	}
	tracing, err := v.s.tracing.start(ctx, v.Stack, "run", v.Logger)
	if err != nil {
		return err
	}
	v.file.EgressPorts = v.s.ports.String()
	v.node = node.New(node.Config{
		Cluster: v.cluster, StateDir: v.dir.Join("state"), Disk: v.disk, Metrics: node.NewMetrics(),
		Tracing: tracing, Now: time.Now, Logger: v.Logger, Say: v.out.Say,
		Policy: v.s.policy(), AttemptTimeout: v.s.attemptTimeout, Passphrase: v.file.Stellar.NetworkPassphrase,
		Sealer: v.sealer, MasterKey: v.keyText, Egress: v.egress(), Sender: sender,
		API: node.APIConfig{
			Edge: v.s.edge.config(v.address("api-listen", v.s.apiListen)), Wallets: lookup,
			RateLimit: api.RateLimit{PerSecond: v.s.apiRateLimit},
		},
		Engine: node.EngineConfig{
			AttemptsInFlight: v.s.attemptsInFlight, AttemptsPerEndpoint: v.s.attemptsPerEndpoint,
			OnFact: v.out.fact,
		},
		Follower: node.FollowerConfig{
			Live: live, Past: past, Start: v.s.source.StartAt, OnLedger: v.out.ledger,
		},
		History: v.s.history.config(v.s.clickhouse.dsn != ""),
	}, v.Stack)
	return nil
}

// egress is the guarded client's configuration. With a development network it may
// reach this machine, and trusts the run's own authority beside the system's.
func (v *service) egress() egress.Config {
	cfg := v.s.egressConfig()
	if !v.s.ownNetwork() {
		return cfg
	}
	cfg.Policy.Allow = append(cfg.Policy.Allow, egress.LoopbackPrefixes()...)
	v.ca.AddTo(cfg.RootCAs)
	return cfg
}

// sender takes mails over: the configured server, or a folder where there is none.
func (v *service) sender() (mailer.Sender, error) {
	if v.s.mail.addr != "" {
		return v.s.mail.sender()
	}
	return mailer.NewFolder(v.dir.Join("mail"), "lumenhook@localhost", v.out.mail)
}

func (v *service) startWork(ctx context.Context) error {
	return v.node.Start(ctx, node.RoleEngine, node.RoleMailer)
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
	return v.node.OpenAccount(ctx, command)
}

func (v *service) startFollower(ctx context.Context) error {
	if err := v.node.Start(ctx, node.RoleFollower); err != nil {
		return err
	}
	select {
	case <-v.node.FollowerReady():
	case <-ctx.Done():
	}
	return nil
}

func (v *service) startAPI(ctx context.Context) error {
	err := v.node.Start(ctx, node.RoleAPI)
	v.file.APIURL = v.node.APIURL()
	return err
}

func (v *service) startMetrics(context.Context) error {
	if v.s.metricsListen == "" {
		return nil
	}
	address, err := v.node.ServeOperations(v.address("metrics-listen", v.s.metricsListen))
	v.file.MetricsURL = "http://" + address + "/metrics"
	return err
}

// ready writes run.json and tells a person the same.
func (v *service) ready(context.Context) error {
	if err := v.publish(); err != nil {
		return err
	}
	v.OnStop(v.unpublish)
	v.out.Say("ready")
	v.out.Say("  API        %s   key %s", v.file.APIURL, v.file.APIKey)
	if v.file.MetricsURL != "" {
		v.out.Say("  metrics    %s", v.file.MetricsURL)
	}
	v.sayNetwork()
	v.out.Say("  Kafka      %s", v.file.KafkaBrokers[0])
	v.sayClickHouse()
	if v.file.Receiver != nil {
		v.out.Say("  receiver   %s", v.file.Receiver.URL)
	}
	v.out.Say("  all of it in %s", v.dir.Join(runfile.Name))
	return nil
}

func (v *service) sayNetwork() {
	if v.s.ownNetwork() {
		v.out.Say("  Stellar    %s   friendbot %s", v.file.Stellar.RPCURL, v.file.Stellar.FriendbotURL)
		return
	}
	v.out.Say("  Stellar    %s", v.file.Stellar.NetworkPassphrase)
}

// freeAddress is the address to listen on: a default one that is taken is
// stepped over to a free port, one that was asked for is left to fail.
func freeAddress(address string, asked bool, note func(from, to string)) string {
	l, err := net.Listen("tcp", address)
	if err == nil {
		_ = l.Close()
		return address
	}
	if asked || !errors.Is(err, syscall.EADDRINUSE) {
		return address
	}
	host, _, _ := net.SplitHostPort(address)
	other, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return address
	}
	defer other.Close()
	note(address, other.Addr().String())
	return other.Addr().String()
}
