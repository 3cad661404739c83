//go:build kafka

package topology_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

func names(t *testing.T, o topology.CheckOptions, c kafka.Cluster) (names []string) {
	t.Helper()
	faults, err := topology.Check(t.Context(), c, o)
	must(t, err)
	for _, f := range faults {
		names = append(names, f.Name)
	}
	return names
}

func TestAFitClusterIsNotRefused(t *testing.T) {
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	if found := names(t, topology.CheckOptions{Now: time.Now}, c); len(found) > 0 {
		t.Errorf("refused for %v", found)
	}
}

func TestAHostWhoseClockIsOffIsRefused(t *testing.T) {
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	for _, off := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		now := func() time.Time { return time.Now().Add(off) }
		if found := names(t, topology.CheckOptions{Now: now}, c); !slices.Equal(found,
			[]string{"clock"}) {
			t.Errorf("off by %s: refused for %v", off, found)
		}
	}
}

func TestWhatReplicasNeedIsRefusedAndPutRight(t *testing.T) {
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	for setting, value := range map[string]string{
		"min.insync.replicas": "1", "unclean.leader.election.enable": "true",
	} {
		must(t, c.AlterTopic(t.Context(), schemas.TopicJournal, map[string]string{setting: value}))
		awaitSetting(t, c, schemas.TopicJournal, setting, value)
		if found := names(t, topology.CheckOptions{Now: time.Now}, c); !slices.Equal(found,
			[]string{setting}) {
			t.Errorf("%s=%s: refused for %v", setting, value, found)
		}
		mustCreate(t, c, shape)
	}
	if found := names(t, topology.CheckOptions{Now: time.Now}, c); len(found) > 0 {
		t.Errorf("refused for %v", found)
	}
}

func TestTooFewReplicasAreRefusedAndLeft(t *testing.T) {
	c, shape := newCluster(t)
	shape.Replicas = 1
	mustCreate(t, c, shape)
	found := names(t, topology.CheckOptions{Now: time.Now}, c)
	if !slices.Equal(found, []string{"replication", "min.insync.replicas"}) {
		t.Errorf("refused for %v", found)
	}
	shape.Replicas = 3
	created := mustCreate(t, c, shape)
	if len(created.Left) != 2*len(schemas.Topics()) {
		t.Errorf("%d differences were left to a person: %+v", len(created.Left), created.Left)
	}
}

// With a single broker, Kafka's own topics have one replica, however many replicas our topics have.
func TestACommitThatOneBrokerHasIsRefused(t *testing.T) {
	cluster, err := kafkatest.Start(t.Context(), kafkatest.Config{Dir: t.TempDir(), Brokers: 1})
	must(t, err)
	t.Cleanup(func() { must(t, cluster.Close()) })
	c := kafka.Cluster{
		Brokers:  cluster.Addrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	mustCreate(t, c, topology.Shape{Partitions: 1, Replicas: 1})
	producer, err := c.NewFencedProducer(t.Context(), "engine")
	must(t, err)
	defer producer.Close()
	must(t,
		producer.Append(t.Context(),
			kafka.Record{Topic: schemas.TopicJournal, Key: []byte("k"), Value: []byte("v")}))
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{Now: time.Now})
	must(t, err)
	said := topology.Refusal(faults).Error()
	for _, want := range []string{"replication of __transaction_state is 1", "min.insync.replicas=2"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q: %s", want, said)
		}
	}
}
