//go:build kafka

package directory

import (
	"context"
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/schemas"
)

// Brokers roll segments every second and compact them at once, including tombstones, while rows are
// written and read. A directory that reads throughout and one that starts afterwards must have the
// same rows.
func TestTablesThatAreCleanedWhileTheyAreRead(t *testing.T) {
	r := newRig(t)
	r.cleanAtOnce(schemas.TopicWatches)
	w := r.txn("engine")
	d, _ := r.open(r.dir)
	written := 0
	testkit.Eventually(t, "the brokers have cleaned", func() bool {
		for range 10 {
			written++
			w.write(
				watchRow("wat_1", fmt.Sprintf("G%d", written), uint64(written)),
				watchRow("wat_2", "GB", uint64(written)),
				tombstone(schemas.TopicWatches, "wat_2"),
			)
		}
		r.caughtUp(d)
		return len(brokertest.NewLog(t, r.cluster).Read(schemas.TopicWatches)) < 2*written
	})
	w.write(watchRow("wat_3", "GC", 1))
	r.caughtUp(d)
	late, _ := r.open(t.TempDir())
	r.caughtUp(late)
	for _, d := range []*Directory{d, late} {
		r.wantWatches(d, fmt.Sprintf("G%d", written), "wat_1")
		r.wantWatches(d, fmt.Sprintf("G%d", written-1))
		r.wantWatches(d, "GB")
		r.wantWatches(d, "GC", "wat_3")
	}
}

func (r *rig) cleanAtOnce(topic string) {
	r.t.Helper()
	var changes []kadm.AlterConfig
	for name, value := range map[string]string{
		"segment.ms": "1000", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0",
		"max.compaction.lag.ms": "1000",
	} {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	err := r.cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		answers, err := admin.AlterTopicConfigs(ctx, changes, r.cluster.Prefix+topic)
		for _, a := range answers {
			if a.Err != nil {
				err = a.Err
			}
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
}
