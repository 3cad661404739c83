//go:build kafka

package task_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/kafkatest"
	"github.com/lumenhook/lumenhook/streams/task"
)

// TestNothingIsLostOrDoubledWithoutABroker kills and then pauses each broker in turn until the
// cluster has elected leaders without it. Meanwhile the task keeps processing numbers. Stale end
// offsets from a broker that came back must be ignored, and a new owner without a state must know
// all numbers.
func TestNothingIsLostOrDoubledWithoutABroker(t *testing.T) {
	r := newRig(t)
	ends, err := r.cluster.NewEnds()
	if err != nil {
		t.Fatal(err)
	}
	defer ends.Close()
	wantEnds := func(what string, fed int) {
		t.Helper()
		until, err := ends.Of(t.Context(), numbersTopic)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if total := until[0] + until[1]; total != int64(2*fed) { // each number is fed twice
			t.Fatalf("%s: the numbers end at %v, and %d were acknowledged", what, until, 2*fed)
		}
	}
	fed := 0
	feed := func() {
		t.Helper()
		r.feed(fed+1, fed+20)
		fed += 20
	}
	for _, node := range brokertest.Nodes() {
		for _, away := range []struct {
			how        string
			begin, end func(*kafkatest.Node) error
		}{
			{"killed", (*kafkatest.Node).Kill, (*kafkatest.Node).Start},
			{"paused", (*kafkatest.Node).Pause, (*kafkatest.Node).Resume},
		} {
			what := fmt.Sprintf("broker %d was %s", node.ID(), away.how)
			dir := t.TempDir()
			stop := r.keepRunning(dir)
			feed()
			wantEnds(what, fed)
			if err := away.begin(node); err != nil {
				t.Fatal(err)
			}
			back := sync.OnceValue(func() error { return away.end(node) })
			t.Cleanup(func() { _ = back() }) // other tests need the broker
			brokertest.AwaitNodes(t, len(brokertest.Nodes())-1)
			feed()
			wantEnds(what, fed)
			r.wantJournal(r.onPartition(0))
			if err := back(); err != nil {
				t.Fatal(err)
			}
			wantEnds(what+" and is back", fed)
			brokertest.AwaitNodes(t, len(brokertest.Nodes()))
			feed()
			wantEnds(what+" and is back", fed)
			r.wantJournal(r.onPartition(0))
			stop()
		}
	}
}

// keepRunning runs the task of partition 0 and restarts it when it fails, as an engine does.
func (r *rig) keepRunning(dir string) (stop func()) {
	tasks := task.NewTasks(func(int32) task.Runner { return r.task(dir, nil) }, r.cluster.Logger)
	tasks.Assigned([]int32{0})
	return func() { tasks.Revoked([]int32{0}) }
}
