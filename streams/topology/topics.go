package topology

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Shape contains the settings in which deployments differ.
type Shape struct {
	Partitions int32 // of keyed topics; the others have one
	Replicas   int16
	// LocalMillis is how long tiered topics also keep files on the brokers. 0 allows untiered topics.
	LocalMillis int64
	// Shortened means that the engine deletes records that are no longer needed (--topic-retention and
	// similar flags).
	Shortened bool
}

// withCount sets a missing partition count to that of the journal.
func (s Shape) withCount(ctx context.Context, c kafka.Cluster) (Shape, error) {
	if s.Partitions > 0 {
		return s, nil
	}
	have, err := c.DescribeTopics(ctx, schemas.TopicJournal)
	if err != nil {
		return s, fmt.Errorf("topology: %w", err)
	}
	if s.Partitions = int32(have[schemas.TopicJournal].Partitions); s.Partitions == 0 {
		return s, fmt.Errorf("topology: topic %s%s does not exist yet: set its number of partitions, "+
			"which cannot be changed later (--partitions)", c.Prefix, schemas.TopicJournal)
	}
	return s, nil
}

// CheckShape rejects shapes with which one lost broker loses acknowledged records, unless accepted.
func CheckShape(s Shape, accept []string) error {
	var names []string
	for name, short := range map[string]bool{
		Replication: s.Replicas < LeastReplicas,
		MinInSync:   s.Replicas < LeastInSync,
	} {
		if short && !slices.Contains(accept, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("with fewer than %d replicas, of which %d are in sync, the loss of a broker "+
		"can lose acknowledged records; to accept this, add --accept-loss %s",
		LeastReplicas, LeastInSync, strings.Join(names, ","))
}

const (
	// LeastReplicas is how many replicas survive the loss of one broker without losing records.
	LeastReplicas = 3
	// LeastInSync is the number of replicas that acknowledge a record.
	LeastInSync = 2

	// tombstonesMillis must be twice as long as the directory may be down before it empties its store.
	tombstonesMillis = 24 * 60 * 60 * 1000
	// shortenedSegmentBytes is small, because only complete files are deleted.
	shortenedSegmentBytes = 16 << 20
	// messageBytes is the largest batch of our producers, and Kafka's default.
	messageBytes = 1_048_588
)

// Compared properties that are not settings of topics.
const (
	topicItself = "topic"
	partitions  = "partitions"
	Replication = "replication"
)

// Names of settings in Kafka.
const (
	cleanupPolicy    = "cleanup.policy"
	deleteRetention  = "delete.retention.ms"
	localRetention   = "local.retention.ms"
	maxMessageBytes  = "max.message.bytes"
	timestampType    = "message.timestamp.type"
	MinInSync        = "min.insync.replicas"
	remoteStorage    = "remote.storage.enable"
	retentionBytes   = "retention.bytes"
	retentionMillis  = "retention.ms"
	segmentBytes     = "segment.bytes"
	segmentMillis    = "segment.ms"
	uncleanElections = "unclean.leader.election.enable"
)

// TopicNames returns the names of all topics, without the prefix.
func TopicNames() (names []string) {
	for _, t := range schemas.Topics() {
		names = append(names, t.Name)
	}
	return names
}

// RequiredTopics returns the required topics.
func RequiredTopics(s Shape) []kafka.TopicSpec {
	var specs []kafka.TopicSpec
	for _, t := range schemas.Topics() {
		spec := kafka.TopicSpec{
			Name:              t.Name,
			Partitions:        1,
			ReplicationFactor: s.Replicas,
			Configs:           configs(t, s),
		}
		if t.Keyed {
			spec.Partitions = s.Partitions
		}
		specs = append(specs, spec)
	}
	return specs
}

// configs returns a topic's settings, including defaults, which the operator may have changed.
func configs(t schemas.Topic, s Shape) map[string]string {
	c := map[string]string{
		cleanupPolicy:   string(t.Cleanup),
		maxMessageBytes: strconv.Itoa(messageBytes),
		timestampType:   "CreateTime",
		MinInSync:       strconv.Itoa(int(min(LeastInSync, s.Replicas))),
		retentionBytes:  "-1",
		retentionMillis: strconv.FormatInt(t.RetentionMillis, 10),
	}
	if t.Cleanup == schemas.CleanupCompact {
		c[deleteRetention] = strconv.Itoa(tombstonesMillis)
	}
	if t.SegmentMillis > 0 {
		c[segmentMillis] = strconv.FormatInt(t.SegmentMillis, 10)
	}
	if t.SegmentBytes > 0 {
		c[segmentBytes] = strconv.FormatInt(t.SegmentBytes, 10)
	}
	if s.Shortened && grows(t.Name) {
		c[segmentBytes] = strconv.Itoa(shortenedSegmentBytes)
	}
	if s.LocalMillis > 0 && grows(t.Name) {
		c[remoteStorage] = "true"
		c[localRetention] = strconv.FormatInt(s.localMillis(t), 10)
	}
	if s.Replicas > 1 { // a single replica has no followers
		c[uncleanElections] = "false"
	}
	return c
}
