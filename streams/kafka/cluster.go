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
	Prefix   string   // of topics, groups and transactional ids, for example "lumenhook."
	ClientID string
	// InstanceID is the unique static group member name of this process (group.instance.id). A process
	// that restarts with the same name within SessionTimeout gets its partitions back, and no
	// partition moves in the meantime. If it is empty, a process that leaves gives up its partitions.
	InstanceID string
	SASL       SASL
	// Hooks apply to every client. They must be safe for concurrent use.
	Hooks []kgo.Hook
	TLS   TLS
	// Dial connects to a broker in this process. If nil, clients use TCP. It excludes TLS.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
	// Quiet suppresses the Kafka client's own messages, for commands that print the returned error.
	Quiet bool
}

func (c Cluster) fullName(topic string) string  { return c.Prefix + topic }
func (c Cluster) shortName(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// hungTimeout is how long a broker may leave a request unanswered beyond the time that the request
// allows. The kernel of a hung process still accepts connections.
const hungTimeout = 5 * time.Second

// maxBatchBytes bounds the decompressed size of a batch. Producers write at most 1 MiB per batch.
const maxBatchBytes = 16 << 20

// client opens a Kafka client that notices dead brokers within seconds.
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
		// We use Prometheus. The embedded broker would request all metrics from each client twice a
		// minute (KIP-714) and drop them.
		kgo.DisableClientMetrics(),
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

// Partitions returns the partitions of offsets in ascending order.
func Partitions(offsets map[int32]int64) []int32 {
	return slices.Sorted(maps.Keys(offsets))
}
