package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/lumenhook/lumenhook/internal/brokertest"
	"github.com/lumenhook/lumenhook/internal/testkit"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
	"github.com/lumenhook/lumenhook/streams/task"
)

const (
	snapshotsTopic = "snapshots"
	sumsIdentity   = "sums 1"
)

// newSnapshotRig returns a rig whose tasks write a snapshot of many chunks every 20 journal
// offsets.
func newSnapshotRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.makeSnapshotsTopic()
	return r
}

func (r *rig) makeSnapshotsTopic() {
	r.t.Helper()
	spec := kafka.TopicSpec{Name: snapshotsTopic, Partitions: 2, ReplicationFactor: r.replicas}
	if err := r.cluster.EnsureTopics(r.t.Context(), []kafka.TopicSpec{spec}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) snapshotting(
	dir, identity string, effects func(store.Claimed),
) *summerTask {
	return task.NewTask(r.snapshottingConfig(dir, identity, effects))
}

func (r *rig) snapshottingConfig(
	dir, identity string, effects func(store.Claimed),
) task.Config[store.Claimed, none] {
	cfg := r.config(dir, effects)
	cfg.Snapshots = task.SnapshotConfig{
		Topic:      snapshotsTopic,
		Identity:   identity,
		Every:      20,
		ChunkBytes: 256,
	}
	return cfg
}

type writtenSnapshot struct {
	records  []kafka.Record // the last one is the manifest
	manifest map[string]any
}

func (s writtenSnapshot) next() int64 { return int64(s.manifest["next"].(float64)) }

func (s writtenSnapshot) withManifest(field string, value any) []kafka.Record {
	changed := maps.Clone(s.manifest)
	changed[field] = value
	text, err := json.Marshal(changed)
	if err != nil {
		panic(err)
	}
	records := slices.Clone(s.records)
	records[len(records)-1].Value = text
	return records
}

func (r *rig) snapshots() (list []writtenSnapshot) {
	r.t.Helper()
	var records []kafka.Record
	for _, rec := range r.read(snapshotsTopic) {
		if rec.Partition != 0 {
			continue
		}
		if rec.Header("chunk") == "0" {
			records = nil
		}
		records = append(records, rec)
		if rec.Header("manifest") == "" {
			continue
		}
		s := writtenSnapshot{records: records}
		if err := json.Unmarshal(rec.Value, &s.manifest); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

// takeSnapshots feeds numbers until there are as many snapshots as wanted, and stops the task.
func (r *rig) takeSnapshots(want int) (list []writtenSnapshot, needed task.NeededFrom) {
	r.t.Helper()
	task := r.snapshotting(r.dir, sumsIdentity, nil)
	stop := r.run(task)
	const step = 4 // with their markers, fewer offsets than between two snapshots
	for n := 1; len(list) < want; n += step {
		if n > 10_000 {
			r.t.Fatalf("%d numbers led to %d snapshots", n, len(list))
		}
		r.feed(n, n+step-1)
		r.wantJournal(r.onPartition(0))
		list = r.snapshots()
	}
	if err := stop(); err != nil {
		r.t.Fatal(err)
	}
	return r.snapshots(), task.Stats().Needed
}

// deleteBefore deletes the records of a topic's partition 0 before an offset; -1 deletes all.
func (r *rig) deleteBefore(topic string, offset int64) {
	r.t.Helper()
	err := r.cluster.WithAdmin(r.t.Context(), func(ctx context.Context, admin *kadm.Client) error {
		offsets := make(kadm.Offsets)
		offsets.AddOffset(r.cluster.Prefix+topic, 0, offset, -1)
		deleted, err := admin.DeleteRecords(ctx, offsets)
		return errors.Join(err, deleted.Error())
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) rewrite(records ...kafka.Record) {
	r.t.Helper()
	r.deleteBefore(snapshotsTopic, -1)
	client, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.Brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		r.t.Fatal(err)
	}
	defer client.Close()
	for _, rec := range records {
		k := &kgo.Record{
			Topic:   r.cluster.Prefix + snapshotsTopic,
			Key:     rec.Key,
			Value:   rec.Value,
			Headers: rec.Headers,
		}
		if err := client.ProduceSync(r.t.Context(), k).FirstErr(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// wantRestored starts a task without a state and waits until it has claimed everything. All entries
// are due, so the claims show the content of its state.
func (r *rig) wantRestored(total int) (stop func() error) {
	r.t.Helper()
	claimed := make(chan store.Claimed, 10_000)
	stop = r.run(r.snapshotting(r.t.TempDir(), sumsIdentity,
		func(c store.Claimed) { claimed <- c }))
	testkit.Eventually(r.t, "all is claimed", func() bool { return len(claimed) >= total })
	if len(claimed) > total {
		r.t.Errorf("%d entries are claimed, of %d", len(claimed), total)
	}
	return stop
}

// The journal lacks the records that the snapshot covers, so only the snapshot can restore a lost
// state.
func TestALostStateIsLoadedFromASnapshot(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	list, _ := r.takeSnapshots(2)
	newest := list[len(list)-1]
	if len(newest.records) < 3 {
		t.Fatalf("a snapshot has %d records: it is to have several chunks", len(newest.records))
	}
	r.deleteBefore(sumsTopic, newest.next())
	stop := r.wantRestored(r.onPartition(0))
	r.feed(1001, 1040) // the task continues
	r.feed(1, 20)      // and knows the loaded numbers
	testkit.Eventually(t, "the new numbers are in the journal", func() bool {
		return r.journal()[r.keyOfPartition0(1001, 1040)] == 1
	})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for key, n := range r.journal() {
		if n > 1 {
			t.Errorf("%s is in the journal %d times", key, n)
		}
	}
}

// keyOfPartition0 returns the last key among these numbers that is in partition 0.
func (r *rig) keyOfPartition0(from, to int) (key string) {
	partitionOf := kafka.PartitionOf(2)
	for n := from; n <= to; n++ {
		if partitionOf(r.keyOf(n)) == 0 {
			key = r.keyOf(n)
		}
	}
	return key
}

// A restore must succeed without the records before NeededFrom, with a damaged newest snapshot, and
// without a state.
func TestWhatNoRestoreNeedsMayBeDeleted(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	list, needed := r.takeSnapshots(4)
	before := list[len(list)-2]
	if needed.Snapshots != before.records[0].Offset || needed.Journal != before.next()-1 {
		t.Errorf("%+v is needed; the snapshot before the newest is of %d and begins at %d", needed,
			before.next(), before.records[0].Offset)
	}
	r.deleteBefore(sumsTopic, needed.Journal)
	r.deleteBefore(snapshotsTopic, needed.Snapshots)
	newest := list[len(list)-1]
	newest.records[0].Value[6] ^= 1
	r.rewrite(append(slices.Clone(before.records), newest.records...)...)
	if err := r.wantRestored(r.onPartition(0))(); err != nil {
		t.Fatal(err)
	}
}

// A single snapshot must not free anything, because it may turn out to be damaged and there would
// be no other.
func TestOneSnapshotAloneFreesNothing(t *testing.T) {
	r := newSnapshotRig(t)
	list, needed := r.takeSnapshots(1)
	if len(list) > 1 {
		t.Fatalf("there are %d snapshots already", len(list))
	}
	if needed != (task.NeededFrom{}) {
		t.Errorf("of one snapshot, what lies before %+v is not needed", needed)
	}
}

var damages = map[string]func(w writtenSnapshot) []kafka.Record{
	"a chunk is missing": func(w writtenSnapshot) []kafka.Record {
		return slices.Delete(slices.Clone(w.records), 1, 2)
	},
	"the first chunk is missing": func(w writtenSnapshot) []kafka.Record {
		return w.records[1:]
	},
	"a chunk comes twice": func(w writtenSnapshot) []kafka.Record {
		return slices.Insert(slices.Clone(w.records), 1, w.records[0])
	},
	"a chunk is changed": func(w writtenSnapshot) []kafka.Record {
		records := slices.Clone(w.records)
		records[0].Value = slices.Clone(records[0].Value)
		records[0].Value[len(records[0].Value)/2] ^= 1
		return records
	},
	"a chunk has another content": func(w writtenSnapshot) []kafka.Record {
		records := slices.Clone(w.records)
		records[0].Value = records[1].Value
		return records
	},
	"it is half-written": func(w writtenSnapshot) []kafka.Record {
		return w.records[:len(w.records)-1]
	},
	"its manifest cannot be read": func(w writtenSnapshot) []kafka.Record {
		records := slices.Clone(w.records)
		records[len(records)-1].Value = []byte("{")
		return records
	},
	"its manifest has a newer form": func(w writtenSnapshot) []kafka.Record {
		records := slices.Clone(w.records)
		records[len(records)-1].Headers = []kafka.Header{{Key: "manifest", Value: []byte("2")}}
		return records
	},
	"it is of another format": func(w writtenSnapshot) []kafka.Record {
		return w.withManifest("identity", "store 2: sums 2")
	},
	"it is said to be of another offset": func(w writtenSnapshot) []kafka.Record {
		return w.withManifest("next", w.next()+1)
	},
}

// If the newest snapshot is damaged, the task folds the journal from the previous one.
func TestADamagedSnapshotLeavesTheOneBefore(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			r := newSnapshotRig(t)
			list, _ := r.takeSnapshots(2)
			newest, before := list[len(list)-1], list[len(list)-2]
			r.rewrite(append(slices.Clone(before.records), damage(newest)...)...)
			r.deleteBefore(sumsTopic, before.next()-8)
			if err := r.wantRestored(r.onPartition(0))(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The journal has been recreated. Compared with the journal of the snapshot, it is shorter in one
// case and longer in the other. The task must not load that snapshot.
func TestASnapshotOfAnotherJournalIsNotLoaded(t *testing.T) {
	t.Parallel()
	for name, numbers := range map[string]int{"shorter": 10, "longer": 400} {
		t.Run(name, func(t *testing.T) {
			r := newSnapshotRig(t)
			list, _ := r.takeSnapshots(2)
			other := r.elsewhere("other.")
			other.makeSnapshotsTopic()
			other.rewrite(slices.Concat(list[len(list)-2].records, list[len(list)-1].records)...)
			stop := other.run(other.task(other.dir, nil)) // this task writes no snapshots
			other.feed(5001, 5000+numbers)
			other.wantJournal(other.onPartition(0))
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if err := other.wantRestored(other.onPartition(0))(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// The beginning of the journal is deleted, and no snapshot covers it. The error says what to do.
func TestAGapWithoutASnapshotIsRefused(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	list, _ := r.takeSnapshots(2)
	r.deleteBefore(sumsTopic, list[len(list)-1].next())
	for name, identity := range map[string]string{"none": sumsIdentity, "foreign": "sums 2"} {
		if name == "none" {
			r.rewrite(list[0].records[:1]...)
		}
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		err := r.snapshotting(t.TempDir(), identity, nil).Run(ctx, make(chan struct{}))
		if err == nil || !strings.Contains(err.Error(), "Restore the topics from a backup") {
			t.Errorf("%s: the task ended with %v", name, err)
		}
	}
}

// A process returns with a state that ends before the journal begins, so it has to load a snapshot.
func TestAStateThatRetentionOvertookIsLoadedFromASnapshot(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	away := t.TempDir()
	stop := r.run(r.snapshotting(away, sumsIdentity, nil))
	r.feed(1, 20)
	r.wantJournal(r.onPartition(0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, needed := r.takeSnapshots(4)
	r.deleteBefore(sumsTopic, needed.Journal)
	r.deleteBefore(snapshotsTopic, needed.Snapshots)
	claimed := make(chan store.Claimed, 10_000)
	stop = r.run(r.snapshotting(away, sumsIdentity, func(c store.Claimed) { claimed <- c }))
	total := r.onPartition(0)
	testkit.Eventually(t, "all is claimed", func() bool { return len(claimed) >= total })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// A turn that adds many bytes to the journal must write many chunks. Otherwise the journal could
// grow to a multiple of the state before the snapshot is complete.
func TestASnapshotKeepsUpWithLargeTurns(t *testing.T) {
	t.Parallel()
	r := newSnapshotRig(t)
	r.feed(1, 8*task.TurnInputs)
	turns := 0
	cfg := r.snapshottingConfig(r.dir, sumsIdentity, nil)
	cfg.OnTurn = func(task.TurnStats) { turns++ }
	stop := r.run(task.NewTask(cfg))
	r.wantJournal(r.onPartition(0))
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	chunks := 0
	for _, rec := range r.read(snapshotsTopic) {
		if rec.Partition == 0 && rec.Header("chunk") != "" {
			chunks++
		}
	}
	if chunks <= turns {
		t.Errorf("%d turns wrote %d chunks", turns, chunks)
	}
}
