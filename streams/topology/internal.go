package topology

import (
	"context"
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

// Kafka's own topics that our writes depend on. A cluster creates them when they are first
// used, with settings of its brokers.
const (
	transactionState = "__transaction_state"
	groupPositions   = "__consumer_offsets"
)

// checkInternal returns what could make Kafka's own topics lose acknowledged records. A
// commit is acknowledged once transactionState has it: if that is lost, so are committed
// records. Groups' positions are in the journal too.
func checkInternal(ctx context.Context, c kafka.Cluster) ([]Fault, error) {
	c.Prefix = ""
	have, err := c.DescribeTopics(ctx, transactionState, groupPositions)
	if err != nil {
		return nil, err
	}
	inSync := map[string]string{MinInSync: fmt.Sprint(LeastInSync)}
	var differences []Difference
	for name, settings := range map[string]map[string]string{
		transactionState: inSync,
		groupPositions:   nil,
	} {
		state, found := have[name]
		if !found {
			continue
		}
		want := kafka.TopicSpec{
			Name:              name,
			Partitions:        int32(state.Partitions), // #nosec G115 -- a count of partitions
			ReplicationFactor: LeastReplicas,
			Configs:           settings,
		}
		differences = append(differences,
			compare("", []kafka.TopicSpec{want}, map[string]kafka.TopicState{name: state})...)
	}
	for i := range differences {
		differences[i].Remedy = RemedyByHand // not ours to change
	}
	return faultsOf(differences), nil
}

// isInternal reports whether a topic is Kafka's own.
func isInternal(topic string) bool { return strings.HasPrefix(topic, "__") }
