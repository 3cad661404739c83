//go:build kafka

package task_test

import (
	"context"
	"flag"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// newRigWith creates a rig on brokers of its own that have these settings.
func newRigWith(
	t *testing.T, brokers int, properties map[string]string,
) (*rig, *kafkatest.Cluster) {
	t.Helper()
	cluster, err := kafkatest.Start(t.Context(), kafkatest.Config{
		Dir:        t.TempDir(),
		Brokers:    brokers,
		Properties: properties,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, dir: t.TempDir(), replicas: int16(min(3, brokers))}
	r.cluster = kafka.Cluster{
		Brokers:  cluster.Addrs(),
		Prefix:   "test.",
		ClientID: "test",
		Logger:   slog.New(slog.DiscardHandler),
	}
	r.makeTopics()
	return r, cluster
}

func (r *rig) admin(do func(context.Context, *kadm.Client) error) {
	r.t.Helper()
	if err := r.cluster.WithAdmin(r.t.Context(), do); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) set(topic string, settings map[string]string) {
	r.t.Helper()
	var changes []kadm.AlterConfig
	for name, value := range settings {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	r.admin(func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.AlterTopicConfigs(ctx, changes, r.cluster.Prefix+topic)
		for _, a := range answers {
			if a.Err != nil {
				err = a.Err
			}
		}
		return err
	})
}

// While the task is idle, the group's positions, the task's transactional ID and its producer ID
// expire. The task must continue and process nothing twice, even if its state is lost as well.
func TestABrokerThatForgets(t *testing.T) {
	r, _ := newRigWith(t, 1, map[string]string{
		"offsets.retention.minutes":                                  "1",
		"offsets.retention.check.interval.ms":                        "1000",
		"transactional.id.expiration.ms":                             "10000",
		"transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
		"producer.id.expiration.ms":                                  "10000",
		"producer.id.expiration.check.interval.ms":                   "1000",
	})
	stop := r.keepRunning(r.dir)
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))
	testkit.Eventually(t, "the group has forgotten its positions", func() bool {
		forgotten := false
		r.admin(func(ctx context.Context, admin *kadm.Client) error {
			at, err := admin.FetchOffsets(ctx, r.cluster.Prefix+sumGroup)
			o, found := at.Lookup(r.cluster.Prefix+numbersTopic, 0)
			forgotten = err == nil && (!found || o.At < 0)
			return err
		})
		return forgotten
	})
	r.feed(51, 100)
	r.wantJournal(r.onPartition(0))
	stop()
	stop = r.keepRunning(t.TempDir())
	r.feed(101, 150)
	r.wantJournal(r.onPartition(0))
	stop()
}

// No write is acknowledged while fewer than min.insync.replicas brokers are up. Afterwards the task
// continues.
func TestFewerReplicasThanAreAskedFor(t *testing.T) {
	r := newRig(t)
	for _, topic := range []string{numbersTopic, sumsTopic} {
		r.set(topic, map[string]string{"min.insync.replicas": "3"})
	}
	stop := r.keepRunning(r.dir)
	defer stop()
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))
	node := brokertest.Nodes()[0]
	if err := node.Kill(); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore := func() {
		if !restored {
			restored = true
			if err := node.Start(); err != nil {
				t.Error(err)
			}
			brokertest.AwaitNodes(t, len(brokertest.Nodes()))
		}
	}
	defer restore()
	brokertest.AwaitNodes(t, len(brokertest.Nodes())-1)
	p, err := r.cluster.NewProducer()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	unsafe := kafka.Record{Topic: numbersTopic, Key: []byte("unsafe"), Value: []byte("1")}
	if err := p.Append(ctx, unsafe); err == nil {
		t.Error("a write was acknowledged that two of three brokers have")
	}
	restore()
	r.feed(51, 100)
	r.wantJournal(r.onPartition(0))
}

// If retention deletes inputs before the task has processed them, the task skips them and processes
// the later ones. It does so whether or not it was running at the time.
func TestRetentionUnderATask(t *testing.T) {
	r := newRig(t)
	stop := r.run(r.task(r.dir, nil))
	r.feed(1, 50)
	taken := r.onPartition(0)
	r.wantJournal(taken)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	r.feed(51, 100)
	r.deleteAll(numbersTopic)
	stop = r.run(r.task(r.dir, nil))
	r.feed(101, 150)
	r.deleteAll(numbersTopic) // while the task runs
	r.feed(151, 200)
	r.wantEach(151, 200)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// deleteAll deletes all records of a topic, as retention does.
func (r *rig) deleteAll(topic string) {
	r.t.Helper()
	r.admin(func(ctx context.Context, admin *kadm.Client) error {
		ends, err := admin.ListEndOffsets(ctx, r.cluster.Prefix+topic)
		if err != nil {
			return err
		}
		_, err = admin.DeleteRecords(ctx, ends.Offsets())
		return err
	})
	r.log = nil // the reader's position has been deleted
}

// wantEach waits until every number of the range that is in partition 0 is in the journal once.
func (r *rig) wantEach(from, to int) {
	r.t.Helper()
	place := kafka.PartitionOf(2)
	testkit.Eventually(r.t, "the numbers are in the journal", func() bool {
		journal := r.journal()
		for n := from; n <= to; n++ {
			if place(r.keyOf(n)) == 0 && journal[r.keyOf(n)] != 1 {
				return false
			}
		}
		return true
	})
}

// A broker that missed the last turns is forced to become the leader. The old state has folded
// those turns, so the task must rebuild it from the shortened journal and continue.
func TestAnUncleanElection(t *testing.T) {
	r, cluster := newRigWith(t, 3, map[string]string{"min.insync.replicas": "1"})
	r.set(sumsTopic,
		map[string]string{"unclean.leader.election.enable": "true", "min.insync.replicas": "1"})
	replicas := r.journalOn(cluster, 1, 2)
	stop := r.run(r.task(r.dir, nil))
	r.feed(1, 50)
	r.wantJournal(r.onPartition(0))
	missing, leading := replicas[0], replicas[1]
	if err := missing.Stop(); err != nil {
		t.Fatal(err)
	}
	r.feed(51, 100)
	r.wantJournal(r.onPartition(0))
	before := len(r.journal())
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := leading.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := missing.Start(); err != nil {
		t.Fatal(err)
	}
	r.awaitLeader(missing.ID())
	if err := leading.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.AwaitBrokers(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	r.log = nil
	if left := len(r.journal()); left >= before {
		t.Fatalf("the election lost nothing of %d records: there is nothing to see", before)
	}

	// A new owner without a state writes records past the checkpoint of the old state.
	stop = r.run(r.task(t.TempDir(), nil))
	r.feed(201, 400)
	r.wantEach(201, 400)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	claimed := make(chan store.Claimed, 10_000)
	stop = r.run(r.task(r.dir, func(c store.Claimed) { claimed <- c }))
	journal := r.journal()
	testkit.Eventually(t, "the state is claimed", func() bool { return len(claimed) >= len(journal) })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	close(claimed)
	for c := range claimed {
		if journal[c.ID] == 0 {
			t.Errorf("the state holds %s, which the election took", c.ID)
		}
	}
}

// journalOn places the journal's first partition on two brokers and makes the second one its
// leader.
func (r *rig) journalOn(cluster *kafkatest.Cluster, ids ...int32) []*kafkatest.Node {
	r.t.Helper()
	r.admin(func(ctx context.Context, admin *kadm.Client) error {
		var move kadm.AlterPartitionAssignmentsReq
		move.Assign(r.cluster.Prefix+sumsTopic, 0, []int32{ids[1], ids[0]})
		answers, err := admin.AlterPartitionAssignments(ctx, move)
		if err == nil {
			err = answers.Error()
		}
		return err
	})
	r.awaitReplicas(len(ids))
	r.admin(func(ctx context.Context, admin *kadm.Client) error {
		var set kadm.TopicsSet
		set.Add(r.cluster.Prefix+sumsTopic, 0)
		_, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, set)
		return err
	})
	r.awaitLeader(int(ids[1]))
	var nodes []*kafkatest.Node
	for _, id := range ids {
		nodes = append(nodes, cluster.Node(int(id)))
	}
	return nodes
}

func (r *rig) journalPartition() (p kadm.PartitionDetail) {
	r.t.Helper()
	r.admin(func(ctx context.Context, admin *kadm.Client) error {
		topics, err := admin.ListTopics(ctx, r.cluster.Prefix+sumsTopic)
		if err == nil {
			p = topics[r.cluster.Prefix+sumsTopic].Partitions[0]
		}
		return err
	})
	return p
}

func (r *rig) awaitReplicas(n int) {
	r.t.Helper()
	testkit.Eventually(r.t, "the replicas are in sync", func() bool {
		p := r.journalPartition()
		return len(p.Replicas) == n && len(p.ISR) == n
	})
}

func (r *rig) awaitLeader(id int) {
	r.t.Helper()
	testkit.Eventually(r.t, "the lead has moved",
		func() bool { return r.journalPartition().Leader == int32(id) })
}

// transactions exceeds the number that a producer's epoch can count. KIP-890 increments the epoch
// with each transaction.
var transactions = flag.Int("streams.transactions", 33_000, "how many transactions one id makes")

// A transactional ID gets a new producer ID when it makes more transactions than its epoch can
// count. No record is lost or duplicated.
func TestAProducersEpochRunsOver(t *testing.T) {
	r, _ := newRigWith(t, 1, nil)
	p, err := r.cluster.NewFencedProducer(t.Context(), sumGroup)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	began := time.Now()
	for n := range *transactions {
		record := kafka.Record{Topic: sumsTopic, Key: []byte(strconv.Itoa(n)), Value: []byte("1")}
		if err := p.Append(t.Context(), record); err != nil {
			t.Fatalf("transaction %d: %v", n+1, err)
		}
	}
	t.Logf("%d transactions, %.0f a second", *transactions,
		float64(*transactions)/time.Since(began).Seconds())
	journal := r.journal()
	for n := range *transactions {
		if got := journal[strconv.Itoa(n)]; got != 1 {
			t.Errorf("record %d is there %d times", n, got)
		}
	}
}
