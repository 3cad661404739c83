package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is the connection settings of a Kafka cluster. Brokers, Prefix and Logger must be
// set.
type Cluster struct {
	Brokers  []string // host:port
	Prefix   string   // of topics, groups and transactional ids, such as "lumenhook."
	ClientID string
	// InstanceID is this process' static group member name (group.instance.id), which must
	// be unique. A process that restarts under the same name within SessionTimeout gets its
	// partitions back, and none moves meanwhile. Empty: a process that leaves gives its
	// partitions up.
	InstanceID string
	SASL       SASL
	// of every client, such as metrics and traces; they are shared and must be safe for
	// that
	Hooks []kgo.Hook
	TLS   TLS
	// Dial opens each connection, to a broker within this process; nil: by TCP. It excludes TLS.
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
	// Quiet suppresses the Kafka client's own log messages, for commands whose user sees
	// the returned error.
	Quiet bool
}

func (c Cluster) fullName(topic string) string  { return c.Prefix + topic }
func (c Cluster) shortName(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// hungTimeout is how long a broker may leave requests unanswered, beyond the time that the
// request itself allows. The kernel of a process that hangs still accepts connections for
// it.
const hungTimeout = 5 * time.Second

// maxBatchBytes bounds what a batch may take when it is decompressed: producers make them of
// at most 1 MiB.
const maxBatchBytes = 16 << 20

// client opens a Kafka client. Dead brokers are noticed within seconds.
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
		// Metrics are Prometheus's to fetch: the embedded broker asks each client for all that it
		// has twice a minute (KIP-714), and drops it.
		kgo.DisableClientMetrics(),
		// Why Snappy: docs/decisions/topics.md.
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

// dialer returns the client's option of how connections are opened.
func (c Cluster) dialer() kgo.Opt {
	if c.Dial != nil {
		return kgo.Dialer(c.Dial)
	}
	return c.TLS.option(c.Logger)
}

// WithAdmin runs f with a client for administration.
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
	list := make([]int32, 0, len(offsets))
	for p := range offsets {
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return list
}
