package streams

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// Cluster says how a Kafka cluster is reached. Its zero value is not usable:
// Brokers, Prefix and Logger must be set.
type Cluster struct {
	Brokers  []string // host:port
	Prefix   string   // of topics, groups and transactional ids, such as "lumenhook."
	ClientID string
	SASL     SASL
	Logger   *slog.Logger
}

// TopicSpec is what a topic must be like.
type TopicSpec struct {
	Name              string // without the prefix
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// ErrPartitionCount means that a topic exists with another partition count. The
// count is part of the data: records were placed by it.
var ErrPartitionCount = errors.New("the partition count is part of the data and cannot be changed here")

func (c Cluster) fullName(topic string) string  { return c.Prefix + topic }
func (c Cluster) shortName(topic string) string { return strings.TrimPrefix(topic, c.Prefix) }

// client opens a Kafka client. Dead brokers are noticed within seconds.
func (c Cluster) client(opts ...kgo.Opt) (*kgo.Client, error) {
	if err := c.SASL.Check(); err != nil {
		return nil, fmt.Errorf("streams: opening a Kafka client: %w", err)
	}
	base := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID),
		kgo.WithLogger(kslog.New(quiet(c.Logger))),
		kgo.DialTimeout(5 * time.Second),
		kgo.MetadataMinAge(250 * time.Millisecond),
		kgo.RetryTimeout(20 * time.Second),
		kgo.RequestTimeoutOverhead(10 * time.Second),
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

// EnsureTopics creates the topics that are missing and checks the partition
// counts of those that exist.
func (c Cluster) EnsureTopics(ctx context.Context, specs []TopicSpec) error {
	return c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		for _, s := range specs {
			if err := c.ensureTopic(ctx, admin, s); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c Cluster) ensureTopic(ctx context.Context, admin *kadm.Client, s TopicSpec) error {
	configs := make(map[string]*string, len(s.Configs))
	for k, v := range s.Configs {
		configs[k] = &v
	}
	name := c.fullName(s.Name)
	created, err := admin.CreateTopic(ctx, s.Partitions, s.ReplicationFactor, configs, name)
	if err == nil {
		err = created.Err
	}
	if err == nil {
		return nil
	}
	if !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("streams: creating topic %s: %w", name, err)
	}
	details, err := admin.ListTopics(ctx, name)
	if err != nil {
		return fmt.Errorf("streams: describing topic %s: %w", name, err)
	}
	if have := int32(len(details[name].Partitions)); have != s.Partitions {
		return fmt.Errorf("streams: topic %s has %s partitions and %s are configured: %w",
			name, strconv.Itoa(int(have)), strconv.Itoa(int(s.Partitions)), ErrPartitionCount)
	}
	return nil
}

// TopicIdentity is the identity that the cluster gave a topic when it was
// created. A topic that was deleted and made anew has another.
func (c Cluster) TopicIdentity(ctx context.Context, topic string) (identity string, partitions int, err error) {
	err = c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		name := c.fullName(topic)
		details, err := admin.ListTopics(ctx, name)
		if err == nil {
			err = details[name].Err
		}
		if err != nil {
			return fmt.Errorf("streams: describing topic %s: %w", name, err)
		}
		identity, partitions = details[name].ID.String(), len(details[name].Partitions)
		return nil
	})
	return identity, partitions, err
}

// Ends asks topics for their high watermarks: topic, partition, offset. An open
// transaction lies below the high watermark, so a read-committed reader that
// has passed it has seen all that was committed before the question.
type Ends struct {
	client  *kgo.Client
	admin   *kadm.Client
	cluster Cluster
}

// NewEnds opens a client for asking ends again and again.
func (c Cluster) NewEnds() (*Ends, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return &Ends{client: client, admin: kadm.NewClient(client), cluster: c}, nil
}

// Of gives the high watermark of each partition of a topic.
func (e *Ends) Of(ctx context.Context, topic string) (map[int32]int64, error) {
	return listed(e.admin.ListEndOffsets(ctx, e.cluster.fullName(topic)))
}

// Starts gives the first offset of each partition of a topic.
func (e *Ends) Starts(ctx context.Context, topic string) (map[int32]int64, error) {
	return listed(e.admin.ListStartOffsets(ctx, e.cluster.fullName(topic)))
}

// Close ends the client.
func (e *Ends) Close() { e.client.Close() }

func listed(offsets kadm.ListedOffsets, err error) (map[int32]int64, error) {
	if err == nil {
		err = offsets.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("streams: asking for the offsets of a topic: %w", err)
	}
	by := make(map[int32]int64)
	offsets.Each(func(o kadm.ListedOffset) { by[o.Partition] = o.Offset })
	if len(by) == 0 {
		return nil, errors.New("streams: the topic has no partitions: run `lumenhook topics create` first")
	}
	return by, nil
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

// quiet lowers the Kafka client's own messages: what matters comes back as an
// error and is logged by whoever handles it.
func quiet(l *slog.Logger) *slog.Logger {
	return slog.New(levelFloor{Handler: l.Handler(), floor: slog.LevelError})
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
