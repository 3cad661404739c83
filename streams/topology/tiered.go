package topology

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// RemoteStorage is the broker setting that enables tiered storage.
const RemoteStorage = "remote.log.storage.system.enable"

// growing lists the topics that grow with every payment, and can be tiered or shortened. Kafka does
// not tier compacted topics, and snapshots are deleted soon.
var growing = []string{
	schemas.TopicCommands, schemas.TopicMatches, schemas.TopicPayments, schemas.TopicJournal,
}

func grows(topic string) bool { return slices.Contains(growing, topic) }

// localMillis is limited by the topic's retention, as Kafka requires.
func (s Shape) localMillis(t schemas.Topic) int64 {
	if t.RetentionMillis < 0 {
		return s.LocalMillis
	}
	return min(s.LocalMillis, t.RetentionMillis)
}

func (s Shape) tierable(ctx context.Context, c kafka.Cluster) (*Fault, error) {
	if s.LocalMillis == 0 {
		return nil, nil
	}
	values, err := c.BrokerSettings(ctx, RemoteStorage)
	if err != nil {
		return nil, err
	}
	for _, broker := range slices.Sorted(maps.Keys(values)) {
		if have := values[broker]; have != "true" {
			return notTierable(broker, have), nil
		}
	}
	return nil, nil
}

func notTierable(broker int32, have string) *Fault {
	if have == "" {
		have = "not set"
	}
	return &Fault{
		Name: RemoteStorage,
		What: fmt.Sprintf("%s of broker %d is %s and must be true: no topic can be tiered",
			RemoteStorage, broker, have),
		Do: "enable remote storage on every broker, or omit --topic-tiered",
	}
}

func (s Shape) refuseUntierable(ctx context.Context, c kafka.Cluster) error {
	fault, err := s.tierable(ctx, c)
	if err == nil && fault != nil {
		err = fmt.Errorf("%s", fault)
	}
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	return nil
}
