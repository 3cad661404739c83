package standalone

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/lumenhook/lumenhook/internal/devnet"
	"github.com/lumenhook/lumenhook/internal/embedded/broker"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/runfile"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

const (
	// partitions is the partition count of keyed topics.
	partitions = 4
	// topicPrefix is the prefix of topic names.
	topicPrefix = "lumenhook."
	// nobodyHint is ClickHouse's answer to requests without a user.
	nobodyHint = "Name a user and a password, by headers (curl: -u USER:PASSWORD): those for " +
		"reading stand in " + runfile.Name + " of the data folder, at clickhouse.reader. " +
		"`lumenhook sql` finds them itself."
)

func (v *service) startBroker(ctx context.Context) error {
	if v.flags.holdFile != "" {
		v.Logger.Warn("FAULTS ARE ON: --fault-hold-file is for tests and holds requests up",
			"file", v.flags.holdFile)
	}
	b, err := broker.Start(broker.Config{
		Dir:      v.dir.Join(brokerFolder),
		Listen:   v.addresses["kafka-listen"],
		Sync:     v.flags.brokerSync,
		User:     v.logins.Kafka.User,
		Password: v.logins.Kafka.Password,
		Failed:   v.Failed,
		Logger:   v.Logger,
		HoldFile: v.flags.holdFile,
		AddToSnapshot: func(dir string) error {
			if n := v.devnet.Load(); n != nil {
				return n.Checkpoint(filepath.Join(dir, devnetFolder))
			}
			return nil
		},
	})
	if err != nil {
		return fmt.Errorf("--kafka-listen: %w", err)
	}
	v.OnStop(b.Close)
	v.file.KafkaBrokers, v.file.Kafka = []string{b.Addr()}, v.logins.Kafka
	v.cluster = brokerOf(b, v.logins, "lumenhook", v.Logger)
	shape := topology.Shape{
		Partitions: partitions,
		Replicas:   1,
		Shortened:  v.flags.node.ShortensTopics(),
	}
	return v.cluster.EnsureTopics(ctx, topology.RequiredTopics(shape))
}

// brokerOf returns the client settings of a broker.
func brokerOf(
	b *broker.Broker, logins runfile.Logins, clientID string, l *slog.Logger,
) kafka.Cluster {
	return kafka.Cluster{
		Brokers:  []string{b.Addr()},
		Prefix:   topicPrefix,
		ClientID: clientID,
		SASL:     logins.Kafka.SASL(),
		Dial:     b.Dial,
		Logger:   l,
	}
}

func (v *service) startDevnet(context.Context) (err error) {
	if !v.flags.ownNetwork() {
		v.file.Stellar.NetworkPassphrase = v.flags.source.Passphrase
		v.file.Stellar.RPCURL = v.flags.source.RPCURL()
		return nil
	}
	if v.ids, err = devnet.LoadOrCreateIdentities(runfile.IdentitiesFile(v.dir.Path())); err != nil {
		return err
	}
	sockets := v.flags.node.Set.API.Server
	n, err := devnet.Open(devnet.Config{
		Dir:           v.dir.Join(devnetFolder),
		Identities:    v.ids,
		Listen:        v.addresses["stellar-listen"],
		Hosts:         sockets.Hosts,
		Origins:       sockets.Origins,
		CloseInterval: v.flags.ledgerInterval,
		Hold:          v.disk.Check,
		Logger:        v.Logger,
		Faults:        v.flags.faults,
	})
	if err != nil {
		return fmt.Errorf("--stellar-listen: %w", err)
	}
	v.devnet.Store(n)
	v.OnStop(func() {
		v.devnet.Store(nil)
		if err := n.Close(); err != nil {
			v.Logger.Warn("stopping the development network", "error", err)
		}
	})
	v.Go("devnet", func(ctx context.Context) error {
		err := n.Run(ctx)
		if err != nil && ctx.Err() == nil {
			v.Failed(fmt.Errorf("the development network has failed: %w", err))
			<-ctx.Done()
		}
		return err
	})
	v.file.Stellar = runfile.Stellar{
		RPCURL:            n.RPCURL(),
		NetworkPassphrase: n.Passphrase(),
		FriendbotURL:      n.FriendbotURL(),
	}
	v.flags.source.Follow(n.RPCURL(), n.Passphrase(),
		min(v.flags.ledgerInterval/20, time.Second))
	return nil
}

const databaseName = "lumenhook"

func (v *service) startClickHouse(ctx context.Context) (*clickhouse.Engine, error) {
	program, err := clickhouse.Find(ctx, clickhouse.Options{InstalledOnly: true, Logger: v.Logger})
	if err != nil {
		return nil, err
	}
	e, err := clickhouse.Start(ctx, clickhouse.Config{
		Program:    program,
		DataDir:    v.dir.Join("clickhouse"),
		Database:   databaseName,
		Grants:     writer.Grants(databaseName),
		Logger:     v.Logger,
		NobodyHint: nobodyHint,
		Service:    clickhouse.Login(v.logins.ClickHouse),
		Reader:     clickhouse.Login(v.logins.Reader),
		NativeAddr: v.addresses["clickhouse-native-listen"],
		HTTPAddr:   v.addresses["clickhouse-http-listen"],
		// Its merges come in bursts of several threads, which would delay deliveries. At 10 it gets
		// so little next to four threads of the service that the history falls behind.
		Niceness: 7,
		// As much as the heap of this process, by which node.Tune takes a container into account.
		MaxMemoryBytes: clickhouse.MemoryWithin(debug.SetMemoryLimit(-1)),
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

// Topics is the broker of a data folder: that of the running service, or one that was started for
// this purpose.
type Topics struct {
	Cluster kafka.Cluster
	Running bool // a service runs there, and continues to write
	close   func()
}

// Close stops the broker if it was started here.
func (t *Topics) Close() { t.close() }

// OpenTopics connects to the broker of a data folder. The caller closes it.
func OpenTopics(dir string, logger *slog.Logger) (*Topics, error) {
	c, notRunning := runningTopics(dir, logger)
	if notRunning == nil {
		return &Topics{Cluster: c, Running: true, close: func() {}}, nil
	}
	if _, err := os.Stat(filepath.Join(dir, "broker")); err != nil {
		return nil, fmt.Errorf("--data-dir %s: there are no topics to copy: %w", dir, notRunning)
	}
	folder, err := runfile.Open(dir)
	if err != nil {
		return nil, err
	}
	t, err := startTopics(folder, logger)
	if err != nil {
		_ = folder.Close()
	}
	return t, err
}

// runningTopics is the broker of a data folder's running service.
func runningTopics(dir string, logger *slog.Logger) (kafka.Cluster, error) {
	run, err := runfile.Read(dir)
	return kafka.Cluster{
		Brokers:  run.KafkaBrokers,
		Prefix:   topicPrefix,
		ClientID: "lumenhook-cli",
		SASL:     run.Kafka.SASL(),
		Logger:   logger,
		Quiet:    true,
	}, err
}

func startTopics(folder *runfile.Folder, logger *slog.Logger) (*Topics, error) {
	logins, err := folder.Logins()
	if err != nil {
		return nil, err
	}
	b, err := broker.Start(broker.Config{
		Dir:      folder.Join("broker"),
		Listen:   "127.0.0.1:0",
		User:     logins.Kafka.User,
		Password: logins.Kafka.Password,
		Sync:     true, // closing it writes the service's logs
		Failed:   func(err error) { logger.Error("the broker of the data folder failed", "err", err) },
		Logger:   logger,
	})
	if err != nil {
		return nil, err
	}
	c := brokerOf(b, logins, "lumenhook-cli", logger)
	c.Quiet = true
	return &Topics{Cluster: c, close: func() { b.Close(); _ = folder.Close() }}, nil
}
