package directory

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/lumenhook/lumenhook/internal/brokertest"
)

// While the directory is closed, a table may be truncated and grow past the directory's checkpoint
// again. The directory detects this by the epoch of the leader that wrote the stored rows. The
// broker reports where that epoch ended, as after an unclean election.
func TestADirectoryNoticesATableThatWasCut(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	cut := brokertest.NewCut(fake)
	r := newRigOn(t, fake.ListenAddrs()...)
	r.txn("engine").write(watchRow("wat_1", "GA", 1))
	d, stop := r.open(r.dir)
	r.caughtUp(d)
	stop()

	cut.Store(true)
	d, err = Open(t.Context(), Config{
		Cluster:      r.cluster,
		Dir:          r.dir,
		ConfirmEvery: 10 * time.Millisecond,
		Now:          r.clock.now,
		Logger:       r.cluster.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.wantWatches(d, "GA") // emptied, and not filled yet
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}

	cut.Store(false)
	d, _ = r.open(r.dir)
	r.caughtUp(d)
	r.wantWatches(d, "GA", "wat_1")
}
