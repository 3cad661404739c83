package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Cluster says how a Kafka cluster is reached. Its zero value is not usable:
// Brokers, Prefix and Logger must be set.
type Cluster struct {
	Brokers  []string // host:port
	Prefix   string   // of topics, groups and transactional ids, such as "lumenhook."
	ClientID string
	// InstanceID is this process' name in its groups, of which no other process may
	// have the same: one that is restarted under it has its partitions back, and
	// none moves meanwhile, for SessionTimeout. Empty: what leaves gives them up.
	InstanceID string
	SASL       SASL
	// of every client, such as metrics and traces; shared, so they must allow that
	Hooks  []kgo.Hook
	TLS    TLS
	Logger *slog.Logger
	// Quiet has nothing logged that the Kafka client says of its own: a command of a
	// person, who is told by its error, needs no lines before it.
	Quiet bool
}

func (c Cluster) fullName(topic string) string  { return c.Prefix + topic }
func (c Cluster) shortName(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// hungTimeout is after how long a broker that takes requests and answers none is
// given up, beside the time that the request itself allows. The kernel of a
// process that stands still goes on accepting connections for it.
const hungTimeout = 5 * time.Second

// client opens a Kafka client. Dead brokers are noticed within seconds.
func (c Cluster) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if err := errors.Join(c.SASL.Check(), c.TLS.Check()); err != nil {
		return nil, fmt.Errorf("streams: opening a Kafka client: %w", err)
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(kslog.New(c.clientLogger())),
		c.TLS.option(c.Logger),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryTimeout(30 * time.Second),
		kgo.RequestTimeoutOverhead(hungTimeout),
		kgo.WithHooks(c.Hooks...),
	}
	base = append(base, c.SASL.Option()...)
	client, err := kgo.NewClient(append(base, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("streams: opening a Kafka client: %w", err)
	}
	return client, nil
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

// Partitions lists the partitions in order.
func Partitions(offsets map[int32]int64) []int32 {
	list := make([]int32, 0, len(offsets))
	for p := range offsets {
		list = append(list, p)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	return list
}

// clientLogger takes the Kafka client's own messages, of which errors alone are kept:
// what matters comes back as an error and is logged by whoever handles it.
func (c Cluster) clientLogger() *slog.Logger {
	if c.Quiet {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(levelFloor{Handler: c.Logger.Handler(), floor: slog.LevelError})
}

type levelFloor struct {
	slog.Handler
	floor slog.Level
}

func (h levelFloor) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.floor && h.Handler.Enabled(ctx, l)
}

func (h levelFloor) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelFloor{Handler: h.Handler.WithAttrs(attrs), floor: h.floor}
}

func (h levelFloor) WithGroup(name string) slog.Handler {
	return levelFloor{Handler: h.Handler.WithGroup(name), floor: h.floor}
}
