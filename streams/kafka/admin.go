package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/retry"
)

// TopicState is the configuration of an existing topic.
type TopicState struct {
	Partitions int
	Replicas   int               // of the partition with the fewest
	Configs    map[string]string // without secret settings
}

// DescribeTopics returns the topics that exist, by name.
func (c Cluster) DescribeTopics(
	ctx context.Context, names ...string,
) (map[string]TopicState, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return whileTransient(ctx, func() (map[string]TopicState, error) {
		states, err := c.topicsThatExist(ctx, client, names)
		if err != nil || len(states) == 0 {
			return states, err
		}
		return states, c.describeConfigs(ctx, kadm.NewClient(client), states)
	})
}

// topicsThatExist queries any broker, which may not know a recently created topic yet.
func (c Cluster) topicsThatExist(
	ctx context.Context, client *kgo.Client, names []string,
) (map[string]TopicState, error) {
	resp, err := c.metadataRequest(names).RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("streams: describing the topics: %w", err)
	}
	states := make(map[string]TopicState)
	for _, t := range resp.Topics {
		err := kerr.ErrorForCode(t.ErrorCode)
		if errors.Is(err, kerr.UnknownTopicOrPartition) || t.Topic == nil {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("streams: describing topic %s: %w", *t.Topic, err)
		}
		state := TopicState{Partitions: len(t.Partitions), Configs: make(map[string]string)}
		for i, p := range t.Partitions {
			if n := len(p.Replicas); i == 0 || n < state.Replicas {
				state.Replicas = n
			}
		}
		states[c.shortName(*t.Topic)] = state
	}
	return states, nil
}

func (c Cluster) metadataRequest(names []string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(c.fullName(name))
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (c Cluster) describeConfigs(
	ctx context.Context, admin *kadm.Client, states map[string]TopicState,
) error {
	var full []string
	for name := range states {
		full = append(full, c.fullName(name))
	}
	described, err := admin.DescribeTopicConfigs(ctx, full...)
	if err != nil {
		return fmt.Errorf("streams: reading the settings of the topics: %w", err)
	}
	for _, topic := range described {
		if topic.Err != nil {
			return fmt.Errorf("streams: reading the settings of topic %s: %w", topic.Name, topic.Err)
		}
		for _, setting := range topic.Configs {
			states[c.shortName(topic.Name)].Configs[setting.Key] = setting.MaybeValue()
		}
	}
	return nil
}

// AlterTopic changes the given settings of a topic and leaves the others unchanged.
func (c Cluster) AlterTopic(ctx context.Context, name string, settings map[string]string) error {
	var changes []kadm.AlterConfig
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		value := settings[key]
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: key, Value: &value})
	}
	return c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		err := doWhileTransient(ctx, func() error {
			altered, err := admin.AlterTopicConfigs(ctx, changes, c.fullName(name))
			for _, a := range altered {
				err = errors.Join(err, a.Err)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("streams: changing the settings of topic %s: %w", c.fullName(name), err)
		}
		return nil
	})
}

// BrokerSettings returns a setting of each broker, by broker id; empty if the broker has no such
// setting.
func (c Cluster) BrokerSettings(
	ctx context.Context, setting string,
) (values map[int32]string, err error) {
	err = c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		values, err = whileTransient(ctx, func() (map[int32]string, error) {
			return brokerSettings(ctx, admin, setting)
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("streams: reading the broker setting %s: %w", setting, err)
	}
	return values, nil
}

func brokerSettings(
	ctx context.Context, admin *kadm.Client, setting string,
) (map[int32]string, error) {
	brokers, err := admin.ListBrokers(ctx)
	if err != nil {
		return nil, err
	}
	described, err := admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()...)
	if err != nil {
		return nil, err
	}
	values := make(map[int32]string)
	for _, broker := range described {
		if broker.Err != nil {
			return nil, broker.Err
		}
		id, err := strconv.ParseInt(broker.Name, 10, 32)
		if err != nil {
			return nil, err
		}
		for _, c := range broker.Configs {
			if c.Key == setting {
				values[int32(id)] = c.MaybeValue()
			}
		}
		if _, has := values[int32(id)]; !has {
			values[int32(id)] = ""
		}
	}
	return values, nil
}

// DeleteTopic deletes a topic and waits until every running broker has forgotten it, so that
// EnsureTopics does not find it any more. It is not an error if the topic does not exist.
func (c Cluster) DeleteTopic(ctx context.Context, name string) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	deleted, err := whileTransient(ctx, func() (kadm.DeleteTopicResponse, error) {
		deleted, err := admin.DeleteTopic(ctx, c.fullName(name))
		if err == nil && !errors.Is(deleted.Err, kerr.UnknownTopicOrPartition) {
			err = deleted.Err
		}
		return deleted, err
	})
	if err == nil {
		err = c.everyBroker(ctx, client, []string{name}, func(topics topicsByName) error {
			if t, found := topics[c.fullName(name)]; found && t.TopicID == deleted.ID {
				return errNotForgotten
			}
			return nil // unknown, or recreated under the same name
		})
	}
	if err != nil {
		return fmt.Errorf("streams: deleting topic %s: %w", c.fullName(name), err)
	}
	return nil
}

var errNotForgotten = fmt.Errorf("a broker still has it in its metadata: %w", errRetry)

// Features returns the cluster's finalized features, such as transaction.version, by name. A
// missing feature has level 0.
func (c Cluster) Features(ctx context.Context) (map[string]int16, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	return features(ctx, client)
}

// features queries one broker. The levels differ between brokers only during an upgrade.
func features(ctx context.Context, client *kgo.Client) (map[string]int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "lumenhook", "1"
	resp, err := req.RequestWith(ctx, client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("streams: reading the features of the cluster: %w", err)
	}
	levels := make(map[string]int16)
	for _, f := range resp.FinalizedFeatures {
		levels[f.Name] = f.MaxVersionLevel
	}
	return levels, nil
}

const metadataLog = "__cluster_metadata"

// Clock returns the wall clock of the cluster's active controller, from DescribeQuorum (KIP-836). A
// cluster without a quorum, such as the embedded broker, does not report it.
func (c Cluster) Clock(ctx context.Context) (at time.Time, known bool, err error) {
	client, err := c.client()
	if err != nil {
		return at, false, err
	}
	defer client.Close()
	if asked, err := supports(ctx, client, kmsg.DescribeQuorum, 1); !asked || err != nil {
		return at, false, err
	}
	p := kmsg.NewDescribeQuorumRequestTopicPartition()
	t := kmsg.NewDescribeQuorumRequestTopic()
	t.Topic, t.Partitions = metadataLog, append(t.Partitions, p)
	req := kmsg.NewPtrDescribeQuorumRequest()
	req.Topics = append(req.Topics, t)
	millis, err := whileTransient(ctx, func() (int64, error) {
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return 0, err
		}
		return quorumClock(resp)
	})
	if err != nil {
		return at, false, fmt.Errorf("streams: reading the clock of the cluster: %w", err)
	}
	return time.UnixMilli(millis), millis > 0, nil
}

func quorumClock(resp *kmsg.DescribeQuorumResponse) (millis int64, err error) {
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return 0, err
			}
			for _, r := range append(p.CurrentVoters, p.Observers...) {
				millis = max(millis, r.LastFetchTimestamp, r.LastCaughtUpTimestamp)
			}
		}
	}
	return millis, nil
}

func supports(ctx context.Context, client *kgo.Client, key kmsg.Key, version int16) (bool, error) {
	about, err := kadm.NewClient(client).ApiVersions(ctx)
	if err != nil {
		return false, fmt.Errorf("streams: reading the API versions of the brokers: %w", err)
	}
	for _, broker := range about {
		if most, found := broker.KeyMaxVersion(int16(key)); broker.Err == nil &&
			(!found || most < version) {
			return false, nil
		}
	}
	return true, nil
}

const (
	transientFirst = 50 * time.Millisecond
	transientLast  = 2 * time.Second
	// Longer than a cluster takes to notice a dead broker and elect new leaders and coordinators.
	transientFor = 30 * time.Second
)

var errRetry = errors.New("streams: no usable response")

// whileTransient calls ask until it succeeds, returns an error that Kafka does not call retriable,
// or transientFor has passed. The client retries many requests itself, but not if only some of the
// partitions or topics failed, and not while a coordinator is being elected.
func whileTransient[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	return retry.Value(ctx, retry.Policy{
		First:  transientFirst,
		Last:   transientLast,
		Within: transientFor,
		If: func(err error) bool {
			return kerr.IsRetriable(err) || errors.Is(err, errRetry)
		},
	}, ask)
}

func doWhileTransient(ctx context.Context, ask func() error) error {
	_, err := whileTransient(ctx, func() (struct{}, error) { return struct{}{}, ask() })
	return err
}
