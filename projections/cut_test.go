package projections_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse"
	"github.com/lumenhook/lumenhook/internal/embedded/clickhouse/clickhousetest"
	"github.com/lumenhook/lumenhook/projections/writer"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// A projector must stop if its topic is truncated, because later records would not continue the
// history. The error explains how to repair it. The test moves the leader of each topic, and the
// new leaders report that the previous epoch ended earlier.
func TestAProjectorStopsWhenItsTopicIsCut(t *testing.T) {
	fake, err := kfake.NewCluster(kfake.NumBrokers(2))
	must(t, err)
	t.Cleanup(fake.Close)
	cut := brokertest.NewCut(fake)
	r := newRigAt(t, clickhousetest.Database(t), 2,
		kafka.Cluster{Brokers: fake.ListenAddrs(), Prefix: "test."})
	run := r.project(nil)
	r.world(1)
	r.awaitProjected()
	cut.Store(true)
	for _, name := range writer.Topics() {
		for p := range int32(testPartitions) {
			must(t, fake.MoveTopicPartition("test."+name, p, 1-fake.LeaderFor("test."+name, p)))
		}
	}
	select {
	case <-run.ended:
		if run.err == nil || !strings.Contains(run.err.Error(), "rebuild --all") {
			t.Errorf("it ended with %v", run.err)
		}
	case <-time.After(eventualMax):
		t.Error("it continues")
	}
}

// A projector that needs an operator is restarted and fails again. In between, it briefly has no
// partitions. It must not count as working during that time, because a missing event would be
// reported as one that does not exist.
func TestARestartedProjectorStaysStuckUntilItHasReadItsPositions(t *testing.T) {
	r := newRig(t)
	run := r.project(nil)
	r.world(1)
	r.awaitProjected()
	run.finish(t)
	others, err := kfake.NewCluster(kfake.NumBrokers(1))
	must(t, err)
	t.Cleanup(others.Close)
	r.cluster = newRigAt(t, r.dsn, 1,
		kafka.Cluster{Brokers: others.ListenAddrs(), Prefix: "test."}).cluster
	run = r.project(nil)
	<-run.ended
	if run.err == nil || !strings.Contains(run.err.Error(), "drop the database") {
		t.Fatalf("it ended with %v", run.err)
	}
	again := make(chan error, 1)
	go func() { again <- run.Run(t.Context()) }()
	for {
		select {
		case err := <-again:
			if err == nil || !strings.Contains(err.Error(), "drop the database") {
				t.Errorf("its second run ended with %v", err)
			}
			return
		default:
			if run.Stuck() == nil {
				t.Fatal("it counts as working before it has read where its partitions stand")
			}
		}
	}
}

// A projector that cannot create its tables must be stuck from the start, even before it has
// partitions.
func TestAProjectorThatCannotCreateItsTablesIsStuck(t *testing.T) {
	r := newRig(t)
	engine := clickhousetest.StartWith(t, clickhouse.Config{
		Program: clickhousetest.Program(t), DataDir: t.TempDir(),
		Grants: writer.ReaderGrants("lumenhook"),
	})
	db, err := writer.Open(engine.DSN())
	must(t, err)
	defer db.Close()
	p, err := writer.NewProjector(writer.ProjectorConfig{
		DB: db, Cluster: r.cluster, Now: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	defer p.Close()
	p.Prepare(t.Context())
	if err := p.Stuck(); err == nil || !strings.Contains(err.Error(), "Not enough privileges") {
		t.Errorf("it is stuck because of %v", err)
	}
}
