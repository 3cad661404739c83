package topology_test

import (
	"slices"
	"testing"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// Retention must check every group of a role that may read a topic before it deletes the topic's
// records. The engine's states report what they are restored from.
func TestWhoReadsATopicHoldsIt(t *testing.T) {
	for _, topic := range topology.Retained() {
		want := []string{}
		for _, role := range topology.Roles() {
			if !mayRead(role, topic.Name) || topic.Restored && role.Name == "engine" {
				continue
			}
			for _, group := range topology.Groups(role.Name) {
				if group != "history-" { // held while rebuild, verify-projection and backup read
					want = append(want, group)
				}
			}
		}
		slices.Sort(want)
		if have := slices.Sorted(slices.Values(topic.Readers)); !slices.Equal(have, want) {
			t.Errorf("%s is held by %v, and read by %v", topic.Name, have, want)
		}
	}
}

func mayRead(role topology.Role, topic string) bool {
	return slices.ContainsFunc(role.Rights, func(r topology.Right) bool {
		return r.Resource == kafka.ResourceTopic && r.Operation == kafka.OpRead && !r.Prefixed &&
			slices.Contains(r.Names, topic)
	})
}
