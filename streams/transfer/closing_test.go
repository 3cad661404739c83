package transfer_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// A process that was paused while its deployment was moved finds its topics closed. Its fenced
// tasks try to take over their partitions again, and stop.
func TestATaskDoesNotGoOnWithClosedTopics(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	d := r.under("shop", 2)
	var log testkit.Buffer
	d.Logger = slog.New(slog.NewTextHandler(&log, nil))
	d.makeTopics()
	d.start()
	d.do(map[string]domain.CommandBody{"cmd_before": creationOf(d, 1)})
	r.must(topology.Close(t.Context(), d.Cluster, topology.Moved, d.shape().Replicas))
	for _, id := range topology.TransactionalIDs(d.partitions) {
		r.must(d.Fence(t.Context(), id))
	}
	d.append(command("cmd_after", creationOf(d, 2)))
	testkit.Eventually(t, "it says why it does not go on", func() bool {
		return strings.Contains(log.String(), "has moved this deployment to another prefix")
	})
	if len(d.answersTo("cmd_after")) > 0 {
		t.Error("a task went on with closed topics")
	}
	r.must(topology.Open(t.Context(), d.Cluster, topology.Moved))
	testkit.Eventually(t, "it goes on once they are open", func() bool {
		return len(d.answersTo("cmd_after")) == 1
	})
}
