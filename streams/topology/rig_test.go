package topology_test

import (
	"testing"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func TestMain(m *testing.M) { brokertest.Main(m) }

const keyedPartitions = 3

// newCluster returns an embedded broker, or a share of a real cluster, and the shape of its topics.
func newCluster(t *testing.T) (kafka.Cluster, topology.Shape) {
	t.Helper()
	b := brokertest.Start(t)
	return b.Cluster(nil), topology.Shape{Partitions: keyedPartitions, Replicas: b.Replicas()}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustPlan(t *testing.T, c kafka.Cluster, s topology.Shape) []topology.Difference {
	t.Helper()
	d, err := topology.Plan(t.Context(), c, s)
	must(t, err)
	return d
}

func mustCreate(t *testing.T, c kafka.Cluster, s topology.Shape) topology.Created {
	t.Helper()
	created, err := topology.Create(t.Context(), c, s)
	must(t, err)
	return created
}
