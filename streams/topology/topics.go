package topology

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// Shape is what deployments differ in.
type Shape struct {
	Partitions int32 // of keyed topics; the others have one
	Replicas   int16
}

// withCount fills in the count of partitions, where it is 0, with that of the journal.
func (s Shape) withCount(ctx context.Context, c streams.Cluster) (Shape, error) {
	if s.Partitions > 0 {
		return s, nil
	}
	have, err := c.DescribeTopics(ctx, schemas.TopicJournal)
	if err != nil {
		return s, fmt.Errorf("topology: %w", err)
	}
	if s.Partitions = int32(have[schemas.TopicJournal].Partitions); s.Partitions == 0 {
		return s, fmt.Errorf("topology: there is no topic %s%s yet: name how many partitions it is to "+
			"have, "+
			"for ever (--partitions)", c.Prefix, schemas.TopicJournal)
	}
	return s, nil
}

// CheckShape refuses to make topics that lose acknowledged records with a broker,
// unless that is accepted by name.
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
	return fmt.Errorf("with fewer than %d copies, of which %d are in step, acknowledged records can "+
		"be lost "+
		"with a broker; if you answer for it, add --accept-loss %s",
		LeastReplicas, LeastInSync, strings.Join(names, ","))
}

const (
	// LeastReplicas is how many copies of a record there are at least where none
	// that was acknowledged may be lost.
	LeastReplicas = 3
	// LeastInSync is how many copies there are at least when it is acknowledged.
	LeastInSync = 2

	// tombstonesMillis is how long a deleted row says so. The directory empties
	// its store when it was away for half as long.
	tombstonesMillis = 24 * 60 * 60 * 1000
	// messageBytes is the largest batch that our producers make, with Kafka's own
	// overhead; it is Kafka's default too.
	messageBytes = 1_048_588
)

// Names of what is compared beside a topic's settings.
const (
	topicItself = "topic"
	partitions  = "partitions"
	Replication = "replication"
)

// Names of settings, as Kafka has them.
const (
	cleanupPolicy    = "cleanup.policy"
	deleteRetention  = "delete.retention.ms"
	maxMessageBytes  = "max.message.bytes"
	timestampType    = "message.timestamp.type"
	MinInSync        = "min.insync.replicas"
	retentionBytes   = "retention.bytes"
	retentionMillis  = "retention.ms"
	segmentMillis    = "segment.ms"
	uncleanElections = "unclean.leader.election.enable"
)

// Wanted lists the topics as they must be.
func Wanted(s Shape) []streams.TopicSpec {
	var specs []streams.TopicSpec
	for _, t := range schemas.Topics() {
		spec := streams.TopicSpec{
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

// configs are a topic's settings. What the cluster has as its default is named
// too: its operator may have changed it for the topics of others.
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
	if s.Replicas > 1 { // one replica has nobody to be followed by
		c[uncleanElections] = "false"
	}
	return c
}
