package sim

import (
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/task"
)

const (
	// snapshotEvery is small, so that a run has many snapshots and starts deleting early.
	snapshotEvery = 24
	// snapshotChunk is small, so that a snapshot has several chunks.
	snapshotChunk = 1024
)

// snapshotConfig configures the simulation's snapshots. A copy has the engine's configuration.
func (w *World) snapshotConfig() task.SnapshotConfig {
	cfg := task.SnapshotConfig{Topic: schemas.TopicSnapshots, Identity: "sim"}
	if w.setup.isCopied() {
		cfg = engine.Snapshots(int(w.setup.partitions))
	}
	cfg.Every, cfg.ChunkBytes = snapshotEvery, snapshotChunk
	return cfg
}

// retain deletes some of the records that no restore needs, according to a running task.
func (w *World) retain() bool {
	if w.held {
		return false
	}
	for _, e := range workers(w.engines) {
		for _, t := range e.tasks {
			if t.core != nil && t.core.Working() && w.chance(0.5) {
				needed := t.core.NeededFrom()
				w.deleteTo(t.journal(), needed.Journal)
				w.deleteTo(t.snapshots(), needed.Snapshots)
				return true
			}
		}
	}
	return false
}

// deleteTo deletes the records of a partition up to an offset. Checkers still see them.
func (w *World) deleteTo(at topicPartition, offset int64) {
	p := w.log.partitions[at]
	if offset <= p.start {
		return
	}
	p.start = offset
	w.note("deletions from "+at.topic, "%s/%d begins at %d", at.topic, at.partition, offset)
}

// readKept is like read, but fails for deleted records.
func (l *Log) readKept(
	at topicPartition, from int64, most int,
) (records []kafka.Record, next int64, err error) {
	if start := l.partitions[at].start; from < start {
		return nil, 0, fmt.Errorf("sim: %s/%d begins at %d, after %d", at.topic, at.partition, start,
			from)
	}
	records, next = l.read(at, from, most)
	return records, next, nil
}

// readUpTo is like readKept, but omits records from an offset on.
func (l *Log) readUpTo(
	at topicPartition, from, to int64, most int,
) (records []kafka.Record, next int64, err error) {
	records, next, err = l.readKept(at, from, most)
	records = slices.DeleteFunc(records, func(r kafka.Record) bool { return r.Offset >= to })
	return records, min(next, to), err
}

func (t *engineTask) loseState() {
	w := t.process.world
	if w.fault(0.1) {
		t.process.disks[t.partition] = vfs.NewMem()
		w.tracef("the state of partition %d on engine %d is gone", t.partition, t.process.id)
		w.count("state: gone before a start")
	}
}

func (t *engineTask) readSnapshots(a task.ReadSnapshots) error {
	w := t.process.world
	records, next, err := w.log.readUpTo(t.snapshots(), a.From, a.To, 1+w.rnd.IntN(8))
	if err != nil {
		return err
	}
	t.restored = true
	t.must(t.core.ReadSnapshots(records, next))
	return nil
}

// snapshotParts are the offsets of a complete snapshot in its partition.
type snapshotParts struct {
	chunks   []int64
	manifest int64
	damaged  bool
}

// wholeSnapshots returns the committed snapshots of a partition, oldest first.
func (l *Log) wholeSnapshots(at topicPartition) (list []snapshotParts) {
	records, _ := l.read(at, l.partitions[at].start, int(l.end(at)))
	var s snapshotParts
	for _, r := range records {
		if r.Header(task.HeaderChunk) == "0" {
			s = snapshotParts{}
		}
		s.damaged = s.damaged || isDamaged(r)
		if r.Header(task.HeaderManifest) == "" {
			s.chunks = append(s.chunks, r.Offset)
			continue
		}
		s.manifest = r.Offset
		list = append(list, s)
	}
	return list
}

// damageSnapshot damages the newest snapshot of a partition if the one before it is intact. This is
// why two are kept.
func (w *World) damageSnapshot() bool {
	at := topicPartition{schemas.TopicSnapshots, w.rnd.Int32N(w.setup.partitions)}
	list := w.log.wholeSnapshots(at)
	n := len(list)
	if n < 2 || list[n-1].damaged || list[n-2].damaged {
		return false
	}
	newest, before := list[n-1], list[n-2]
	offset := newest.chunks[w.rnd.IntN(len(newest.chunks))]
	entries := w.log.partitions[at].entries
	r := &entries[offset].record
	switch w.rnd.IntN(4) {
	case 0: // a flipped bit
		r.Value = slices.Clone(r.Value)
		r.Value[w.rnd.IntN(len(r.Value))] ^= 1 << w.rnd.IntN(8)
	case 1: // an earlier value
		r.Value = entries[before.chunks[w.rnd.IntN(len(before.chunks))]].record.Value
	case 2: // lost
		r.Key = []byte("lost")
	case 3:
		r = &entries[newest.manifest].record
		r.Value = r.Value[:w.rnd.IntN(len(r.Value))]
	}
	r.Headers = append(slices.Clone(r.Headers), kafka.Header{Key: headerDamaged, Value: []byte{1}})
	w.note(damagedSnapshots, "the newest snapshot of partition %d is damaged", at.partition)
	return true
}

const damagedSnapshots = "damaged snapshots"
