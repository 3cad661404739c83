package task_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
)

// Upgrade types of UpdateFeatures.
const (
	upgrade       = 1
	safeDowngrade = 2
)

func (r *rig) transactionsAt(level int16, how int8) {
	r.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	update := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	update.Feature, update.MaxVersionLevel, update.UpgradeType = "transaction.version", level, how
	req := kmsg.NewPtrUpdateFeaturesRequest()
	req.FeatureUpdates = append(req.FeatureUpdates, update)
	resp, err := req.RequestWith(r.t.Context(), client)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		r.t.Fatalf("setting transaction.version to %d: %v", level, err)
	}
	testkit.Eventually(r.t, "the level is known", func() bool {
		levels, err := r.cluster.Features(r.t.Context())
		return err == nil && levels["transaction.version"] == level
	})
}

// groupAt returns the group's position in partition 0 of the inputs.
func (r *rig) groupAt() (next int64) {
	r.t.Helper()
	err := r.cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		at, err := admin.FetchOffsets(ctx, r.cluster.Prefix+sumGroup)
		if o, found := at.Lookup(r.cluster.Prefix+numbersTopic, 0); found {
			next = o.At
		}
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return next
}

// A turn's records and positions are committed together at each level of transaction.version that a
// cluster can have, and during an upgrade.
func TestTurnsUnderEachVersionOfTransactions(t *testing.T) {
	brokertest.Exclusive(t)
	r := rigOn(t, brokertest.StartLowered(t))
	fed := 0
	turns := func() {
		t.Helper()
		r.feed(fed+1, fed+20)
		fed += 20
		r.wantJournal(r.onPartition(0))
		end := r.end(numbersTopic)
		testkit.Eventually(t, "the group has the positions", func() bool { return r.groupAt() == end })
	}
	stop := r.run(r.task(r.dir, nil))
	turns()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for _, level := range []int16{1, 0} {
		r.transactionsAt(level, safeDowngrade)
		stop := r.run(r.task(r.dir, nil))
		turns()
		r.transactionsAt(2, upgrade) // while a task runs
		turns()
		if err := stop(); err != nil {
			t.Fatalf("from level %d: %v", level, err)
		}
	}
}
