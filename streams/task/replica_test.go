package task_test

import (
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/task"
)

// Between two calls, the journal is recreated and grows longer than before. The caller has already
// copied inputs according to the replica's old state, so the replica must report an error.
func TestAReplicaDoesNotRestartUnnoticed(t *testing.T) {
	r := newRig(t)
	r.writeJournal(1, 40)
	replica, err := task.NewReplica(r.cluster, r.config(t.TempDir(), nil).CoreConfig)
	must(t, err)
	defer func() { must(t, replica.Close()) }()
	must(t, replica.CatchUp(t.Context(), 0, r.endOfJournal()))
	must(t, replica.CatchUp(t.Context(), 0, r.endOfJournal())) // nothing to do
	must(t, r.cluster.DeleteTopic(t.Context(), sumsTopic))
	r.makeTopics()
	r.log = nil // the old reader reads the deleted topic
	r.writeJournal(1001, 1200)
	err = replica.CatchUp(t.Context(), 0, r.endOfJournal())
	if err == nil || !strings.Contains(err.Error(), "while the state was followed") {
		t.Errorf("the journal is another, and the replica says %v", err)
	}
}

// writeJournal has a task without a state write numbers to the journal.
func (r *rig) writeJournal(from, to int) {
	r.t.Helper()
	stop := r.run(r.task(r.t.TempDir(), nil))
	r.feed(from, to)
	testkit.Eventually(r.t, "the numbers are in the journal", func() bool {
		return r.journal()[r.keyOfPartition0(from, to)] > 0
	})
	must(r.t, stop())
}

func (r *rig) endOfJournal() int64 {
	r.t.Helper()
	ends, err := r.cluster.NewEnds()
	must(r.t, err)
	defer ends.Close()
	by, err := ends.Of(r.t.Context(), sumsTopic)
	must(r.t, err)
	return by[0]
}
