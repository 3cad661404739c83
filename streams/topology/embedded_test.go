//go:build !kafka

package topology_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/streams/topology"
)

const unsafeDowngrade = 3 // of UpdateFeatures (KIP-778)

// This test runs only on the embedded broker, because other packages' tests share the features of a
// real cluster.
func TestOlderTransactionsAreRefused(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	level := func(n int16) {
		t.Helper()
		must(t, c.WithAdmin(t.Context(), func(ctx context.Context, admin *kadm.Client) error {
			updated, err := admin.UpdateFeatures(ctx, false, kadm.FeatureUpdate{
				Feature:         topology.TransactionVersion,
				MaxVersionLevel: n,
				UpgradeType:     unsafeDowngrade,
			})
			for _, u := range updated {
				must(t, u.Err)
			}
			return err
		}))
	}
	for n, refusals := range map[int16]int{0: 1, 1: 1, 2: 0} {
		level(n)
		if names := refused(t, c); len(names) != refusals {
			t.Errorf("transaction.version %d: refused for %v", n, names)
		}
	}
}

func TestOneReplicaIsRefused(t *testing.T) {
	t.Parallel()
	c, shape := newCluster(t)
	mustCreate(t, c, shape)
	faults, err := topology.Check(t.Context(), c, topology.CheckOptions{Now: time.Now})
	must(t, err)
	var names []string
	for _, f := range faults {
		names = append(names, f.Name)
	}
	if !slices.Equal(slices.Sorted(slices.Values(names)), slices.Sorted(slices.Values(ofOneReplica))) {
		t.Errorf("refused for %v", names)
	}
}
