package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster holds the connection settings of a Kafka cluster. Brokers, Prefix and Logger are
// required.
type Cluster struct {
	Brokers  []string // host:port
	Prefix   string   // of topics, groups and transactional ids, such as "lumenhook."
	ClientID string
	// InstanceID is this process' static group member name (group.instance.id). It must be unique.
	// A process that restarts under the same name within SessionTimeout gets its partitions back,
	// and no partition moves in the meantime. If it is empty, a process that leaves gives up its
	// partitions.
	InstanceID string
	SASL       SASL
	// Hooks of every client, such as metrics and traces. They are shared and must be safe for
	// concurrent use.
	Hooks []kgo.Hook
	TLS   TLS
	// Dial opens each connection, to a broker in this process; nil: TCP. It excludes TLS.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
	// Quiet suppresses the Kafka client's own log messages, for commands whose user sees the
	// returned error.
	Quiet bool
}

func (c Cluster) fullName(topic string) string  { return c.Prefix + topic }
func (c Cluster) shortName(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// hungTimeout is how long a broker may leave requests unanswered, in addition to the time that the
// request itself allows. If a process hangs, its kernel still accepts connections.
const hungTimeout = 5 * time.Second

// maxBatchBytes bounds the decompressed size of a batch. Producers write batches of at most 1 MiB.
const maxBatchBytes = 16 << 20

// client opens a Kafka client. It notices dead brokers within seconds.
func (c Cluster) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if err := errors.Join(c.SASL.Check(), c.TLS.Check()); err != nil {
		return nil, fmt.Errorf("streams: opening a Kafka client: %w", err)
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(c.clientLogger()),
		c.dialer(),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryTimeout(30 * time.Second),
		kgo.RequestTimeoutOverhead(hungTimeout),
		// We use Prometheus. The embedded broker would ask each client for all its metrics twice a
		// minute (KIP-714), and drop them.
		kgo.DisableClientMetrics(),
		// docs/decisions/topics.md explains why Snappy.
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()),
		kgo.MaxDecompressBatchBytes(maxBatchBytes),
		kgo.WithHooks(c.Hooks...),
	}
	base = append(base, c.SASL.Option()...)
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("streams: opening a Kafka client: %w", err)
	}
	return client, nil
}

// dialer returns the client option that opens connections.
func (c Cluster) dialer() kgo.Opt {
	if c.Dial != nil {
		return kgo.Dialer(c.Dial)
	}
	return c.TLS.option(c.Logger)
}

// WithAdmin runs f with an admin client.
func (c Cluster) WithAdmin(ctx context.Context, f func(context.Context, *kadm.Client) error) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, kadm.NewClient(client))
}

// Partitions returns the partitions in ascending order.
func Partitions(offsets map[int32]int64) []int32 {
	return slices.Sorted(maps.Keys(offsets))
}
