package node

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

// TestEngineStatsAreAddedUp has a partition that works and one that is half restored, and two
// standbys, of which one has caught up.
func TestEngineStatsAreAddedUp(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(engineStats{
		now: func() time.Time { return time.UnixMilli(10_000) },
		standbys: func() []task.StandbyStats {
			return []task.StandbyStats{
				{Partition: 2, Folded: 70, Behind: 30, Following: true},
				{Partition: 3, Folded: 0, Behind: 100},
			}
		},
		stats: func() []engine.PartitionStats {
			return []engine.PartitionStats{
				{InFlight: 3, Stats: task.Stats{
					Partition: 0,
					From:      0,
					At:        100,
					End:       100,
					Restored:  true,
					Timers:    store.TimerStats{Due: 1, Later: 2, HeldBack: 3, DueSinceMillis: 7_500},
					Inputs:    []task.InputStats{{Topic: schemas.TopicMatches, Behind: 5}},
				}},
				{Stats: task.Stats{
					Partition:        1,
					From:             200,
					At:               250,
					End:              300,
					SnapshotFailures: 2,
				}},
			}
		},
	})
	want := `
# HELP lumenhook_engine_lag_records Records of input topics that this engine has not processed, by topic.
# TYPE lumenhook_engine_lag_records gauge
lumenhook_engine_lag_records{topic="commands"} 0
lumenhook_engine_lag_records{topic="matches"} 5
# HELP lumenhook_engine_partitions Partitions of this engine, by state: working or restoring.
# TYPE lumenhook_engine_partitions gauge
lumenhook_engine_partitions{state="restoring"} 1
lumenhook_engine_partitions{state="working"} 1
# HELP lumenhook_oldest_due_seconds How long the longest-waiting due delivery of this engine has been due.
# TYPE lumenhook_oldest_due_seconds gauge
lumenhook_oldest_due_seconds 2.5
# HELP lumenhook_restore_left_records Journal offsets left to fold until all partitions of this engine work.
# TYPE lumenhook_restore_left_records gauge
lumenhook_restore_left_records 50
# HELP lumenhook_restore_ratio Share of the journal folded that this engine's partitions need, from 0 to 1.
# TYPE lumenhook_restore_ratio gauge
lumenhook_restore_ratio 0.75
# HELP lumenhook_snapshots_resting_partitions Partitions of this engine whose latest snapshot could not be written.
# TYPE lumenhook_snapshots_resting_partitions gauge
lumenhook_snapshots_resting_partitions 1
# HELP lumenhook_standby_lag_records Journal offsets that the following standby copies lack, by their latest fetches.
# TYPE lumenhook_standby_lag_records gauge
lumenhook_standby_lag_records 30
# HELP lumenhook_standby_partitions Standby copies of other engines' partitions, by state: following their journal or catching up.
# TYPE lumenhook_standby_partitions gauge
lumenhook_standby_partitions{state="catching_up"} 1
lumenhook_standby_partitions{state="following"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"lumenhook_engine_lag_records",
		"lumenhook_engine_partitions", "lumenhook_oldest_due_seconds", "lumenhook_restore_left_records",
		"lumenhook_restore_ratio", "lumenhook_snapshots_resting_partitions",
		"lumenhook_standby_lag_records", "lumenhook_standby_partitions"); err != nil {
		t.Error(err)
	}
}
