package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TopicSpec is the required configuration of a topic.
type TopicSpec struct {
	Name              string // without the prefix
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string
}

// ErrPartitionCount means that a topic exists with a different partition count. The count cannot
// change, because records were partitioned by it.
var ErrPartitionCount = errors.New("records were partitioned by this count, so it cannot be " +
	"changed")

// EnsureTopics creates missing topics, checks the partition counts of existing ones, and waits
// until every running broker knows all of them, which takes a while after a topic's creation is
// acknowledged. Several processes may call it concurrently. If no topic is missing, the user does
// not need the permission to create topics.
func (c Cluster) EnsureTopics(ctx context.Context, specs []TopicSpec) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	exist, err := whileTransient(ctx, func() (map[string]TopicState, error) {
		return c.topicsThatExist(ctx, client, namesOf(specs))
	})
	if err != nil {
		return err
	}
	admin := kadm.NewClient(client)
	for _, s := range specs {
		if _, found := exist[s.Name]; found {
			continue
		}
		if err := c.createTopic(ctx, admin, s); err != nil {
			return err
		}
	}
	return c.awaitTopics(ctx, client, specs)
}

func namesOf(specs []TopicSpec) (names []string) {
	for _, s := range specs {
		names = append(names, s.Name)
	}
	return names
}

func (c Cluster) createTopic(ctx context.Context, admin *kadm.Client, s TopicSpec) error {
	configs := make(map[string]*string, len(s.Configs))
	for k, v := range s.Configs {
		configs[k] = &v
	}
	name := c.fullName(s.Name)
	_, err := whileTransient(ctx, func() (kadm.CreateTopicResponse, error) {
		created, err := admin.CreateTopic(ctx, s.Partitions, s.ReplicationFactor, configs, name)
		if err == nil {
			err = created.Err
		}
		return created, err
	})
	if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("streams: creating topic %s: %w", name, err)
	}
	return nil
}

func (c Cluster) awaitTopics(ctx context.Context, client *kgo.Client, specs []TopicSpec) error {
	return c.everyBroker(ctx, client, namesOf(specs), func(topics topicsByName) error {
		return c.checkTopics(topics, specs)
	})
}

type topicsByName map[string]kmsg.MetadataResponseTopic

func (c Cluster) everyBroker(
	ctx context.Context, client *kgo.Client, names []string, ok func(topicsByName) error,
) error {
	brokers, err := whileTransient(ctx, func() ([]kmsg.MetadataResponseBroker, error) {
		resp, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err != nil {
			return nil, err
		}
		return resp.Brokers, nil
	})
	if err != nil {
		return fmt.Errorf("streams: asking for the brokers of the cluster: %w", err)
	}
	for _, b := range brokers {
		if err := c.requestBroker(ctx, client.Broker(int(b.NodeID)), names, ok); err != nil {
			return err
		}
	}
	return nil
}

// requestBroker queries one broker until ok returns nil. It skips a broker that does not answer,
// which will learn of changed topics before it leads any of them.
func (c Cluster) requestBroker(
	ctx context.Context, broker *kgo.Broker, names []string, ok func(topicsByName) error,
) error {
	req := c.metadataRequest(names)
	err := doWhileTransient(ctx, func() error {
		resp, err := broker.Request(ctx, req)
		if err != nil {
			return fmt.Errorf("%w: %w", errBrokerAway, err)
		}
		topics := make(topicsByName)
		for _, t := range resp.(*kmsg.MetadataResponse).Topics {
			if unknown := kerr.UnknownTopicOrPartition.Code; t.Topic != nil && t.ErrorCode != unknown {
				topics[*t.Topic] = t
			}
		}
		return ok(topics)
	})
	if errors.Is(err, errBrokerAway) && ctx.Err() == nil {
		return nil
	}
	return err
}

var errBrokerAway = errors.New("streams: a broker does not answer")

func (c Cluster) checkTopics(topics topicsByName, specs []TopicSpec) error {
	for _, s := range specs {
		name := c.fullName(s.Name)
		t, found := topics[name]
		var err error = kerr.UnknownTopicOrPartition
		if found {
			err = kerr.ErrorForCode(t.ErrorCode)
		}
		if err != nil {
			return fmt.Errorf("streams: describing topic %s: %w", name, err)
		}
		if have := int32(len(t.Partitions)); have != s.Partitions {
			return fmt.Errorf("streams: topic %s has %d partitions and %d are configured: %w",
				name, have, s.Partitions, ErrPartitionCount)
		}
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("streams: describing partition %d of topic %s: %w", p.Partition, name, err)
			}
		}
	}
	return nil
}

// TopicIdentity returns the id that the cluster assigned to a topic when it was created. A
// recreated topic has a different id.
func (c Cluster) TopicIdentity(
	ctx context.Context, topic string,
) (identity string, partitions int, err error) {
	err = c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		name := c.fullName(topic)
		detail, err := whileTransient(ctx, func() (kadm.TopicDetail, error) {
			details, err := admin.ListTopics(ctx, name)
			if err != nil {
				return kadm.TopicDetail{}, err
			}
			return details[name], details[name].Err
		})
		if err != nil {
			return fmt.Errorf("streams: describing topic %s: %w", name, err)
		}
		identity, partitions = detail.ID.String(), len(detail.Partitions)
		return nil
	})
	return identity, partitions, err
}
