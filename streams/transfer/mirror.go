package transfer

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
)

// MirrorConfig configures a mirror. The two clusters may have different prefixes.
type MirrorConfig struct {
	From, To kafka.Cluster
	// Progress, if set, is called periodically with the number of copied offsets and the total.
	Progress func(done, total int64)
}

// MirroredTopic is the result for one topic.
type MirroredTopic struct {
	Topic   string `json:"topic"`
	Records int64  `json:"records"` // copied now
	Fillers int64  `json:"fillers"` // offsets without a record
	Before  int64  `json:"before"`  // offsets that the target already had
}

// MirrorReport is the result of a copy.
type MirrorReport struct {
	Topics []MirroredTopic `json:"topics"`
	Groups []string        `json:"groups"` // those whose positions were copied
}

// mirroring is the state of one copy.
type mirroring struct {
	MirrorConfig
	fromEnds    *kafka.Ends
	target      *kafka.Placer
	deleter     *kafka.Deleter // of the target, and its ends
	clients     []interface{ Close() }
	plan        []mirrorPartition
	done, total int64
}

// mirrorPartition is one partition to copy.
type mirrorPartition struct {
	topic         string
	number        int32
	compacted     bool
	start, end    int64 // of the source
	first, have   int64 // of the target: its first offset, and its end
	records, fill int64
}

// Mirror copies all records that the source has at the time of the call, and returns when the
// target has acknowledged them. The topics must exist in the target, as `topics create` creates
// them, with as many partitions as in the source.
func Mirror(ctx context.Context, cfg MirrorConfig) (MirrorReport, error) {
	c := &mirroring{MirrorConfig: cfg}
	defer c.close()
	if err := c.open(ctx); err != nil {
		return MirrorReport{}, err
	}
	for i := range c.plan {
		if err := c.partition(ctx, &c.plan[i]); err != nil {
			return MirrorReport{}, err
		}
	}
	groups, err := copyPositions(ctx, cfg.From, cfg.To)
	return MirrorReport{Topics: c.topics(), Groups: groups}, err
}

func (c *mirroring) open(ctx context.Context) (err error) {
	if c.fromEnds, err = c.From.NewEnds(); err != nil {
		return err
	}
	c.clients = append(c.clients, c.fromEnds)
	if c.deleter, err = c.To.NewDeleter(); err != nil {
		return err
	}
	c.clients = append(c.clients, c.deleter)
	if c.target, err = c.To.NewPlacer(); err != nil {
		return err
	}
	c.clients = append(c.clients, c.target)
	for _, t := range schemas.Topics() {
		if err := c.planTopic(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

func (c *mirroring) close() {
	for _, client := range c.clients {
		client.Close()
	}
}

func (c *mirroring) planTopic(ctx context.Context, t schemas.Topic) error {
	topic := t.Name
	starts, ends, err := c.fromEnds.Extent(ctx, topic)
	if err != nil {
		return fmt.Errorf("mirror: the source: %w", err)
	}
	first, have, err := c.deleter.Extent(ctx, topic)
	if err != nil {
		return fmt.Errorf("mirror: the target (create its topics with `lumenhook topics create`): %w",
			err)
	}
	if len(have) != len(ends) {
		return fmt.Errorf("mirror: %s has %d partitions in the target and %d in the source, and "+
			"the number decides where records are stored: "+
			"create the target's topics with `lumenhook topics create --partitions %d`", topic, len(have),
			len(ends), len(ends))
	}
	for _, p := range kafka.Partitions(ends) {
		if have[p] > ends[p] {
			return fmt.Errorf("mirror: partition %d of %s ends at %d in the target and at %d in the "+
				"source: it is not a copy; "+
				"copy into other topics (another --topic-prefix)", p, topic, have[p], ends[p])
		}
		c.plan = append(c.plan, mirrorPartition{
			topic:     topic,
			number:    p,
			compacted: t.Cleanup == schemas.CleanupCompact,
			start:     starts[p],
			end:       ends[p],
			first:     first[p],
			have:      have[p],
		})
		c.total += ends[p]
		c.done += have[p]
	}
	return nil
}

// partition copies one partition from where the target ends.
func (c *mirroring) partition(ctx context.Context, p *mirrorPartition) error {
	if err := c.sameSoFar(ctx, p); err != nil {
		return err
	}
	b := mirrorBatch{
		mirroring:       c,
		mirrorPartition: p,
		batches:         batches{put: c.place},
		next:            p.have,
	}
	if err := b.deleteToStart(ctx); err != nil || b.next == p.end {
		return err
	}
	err := p.read(ctx, c.From, b.next, p.end, func(r kafka.Record) error {
		if r.Offset >= p.end {
			return nil // newer records
		}
		return b.add(ctx, r)
	})
	if err == nil {
		err = b.fillTo(ctx, p.end, time.Time{})
	}
	if err == nil {
		err = b.flush(ctx)
	}
	if err != nil {
		return fmt.Errorf("mirror: copying partition %d of %s: %w", p.number, p.topic, err)
	}
	return nil
}

// comparedOffsets is how many offsets at the end of the target are compared with the source.
const comparedOffsets = 1_000

// sameSoFar compares the target's last records with the source's at those offsets.
func (c *mirroring) sameSoFar(ctx context.Context, p *mirrorPartition) error {
	from := max(p.start, p.first, p.have-comparedOffsets)
	if from >= p.have {
		return nil // nothing there, or nothing to compare it with
	}
	theirs, err := recordsOf(ctx, c.From, p, from)
	if err != nil {
		return err
	}
	ours, err := recordsOf(ctx, c.To, p, from)
	if err != nil {
		return err
	}
	for offset := from; offset < p.have; offset++ {
		a, there := theirs[offset]
		b, here := ours[offset]
		if there && here && sameRecord(a, b) || there == here && !here || there != here && p.compacted {
			continue
		}
		return fmt.Errorf("mirror: partition %d of %s has something else at offset %d in the target "+
			"than in the source: it is not a copy; "+
			"copy into other topics (another --topic-prefix)", p.number, p.topic, offset)
	}
	return nil
}

// recordsOf reads a cluster's records from an offset up to the target's end.
func recordsOf(
	ctx context.Context, cluster kafka.Cluster, p *mirrorPartition, from int64,
) (map[int64]kafka.Record, error) {
	found := make(map[int64]kafka.Record)
	err := p.read(ctx, cluster, from, p.have, func(r kafka.Record) error {
		if !kafka.IsFiller(r) {
			found[r.Offset] = r
		}
		return nil
	})
	return found, err
}

// read reads a cluster's records between two offsets, notes included.
func (p *mirrorPartition) read(
	ctx context.Context, cluster kafka.Cluster, from, to int64, take func(kafka.Record) error,
) error {
	reader, err := cluster.NewReader(kafka.ReaderConfig{
		From:        kafka.Offsets{p.topic: {p.number: from}},
		SkipExpired: true,
		Notes:       true,
	})
	if err != nil {
		return err
	}
	defer reader.Close()
	return reader.ReadTo(ctx, p.topic, map[int32]int64{p.number: to}, pollRecords, take)
}

func sameRecord(a, b kafka.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y kafka.Header) bool {
			return x.Key == y.Key && bytes.Equal(x.Value, y.Value)
		})
}

// mirrorBatch collects records that are placed together.
type mirrorBatch struct {
	*mirroring
	*mirrorPartition
	batches
	next int64 // the offset that the next record gets
}

// deleteToStart gives the target's partition the first offset of the source's. Readers conclude
// from it which records retention deleted, and the engine and the follower must know that.
func (b *mirrorBatch) deleteToStart(ctx context.Context) error {
	if b.start <= b.first {
		return nil
	}
	err := b.fillTo(ctx, b.start, time.Time{})
	if err == nil {
		err = b.flush(ctx)
	}
	if err == nil {
		err = b.deleter.DeleteBefore(ctx, kafka.Offsets{b.topic: {b.number: b.start}})
	}
	if err != nil {
		return fmt.Errorf("mirror: deleting the records of partition %d of %s before offset %d: %w",
			b.number, b.topic, b.start, err)
	}
	return nil
}

func (b *mirrorBatch) add(ctx context.Context, r kafka.Record) error {
	if err := b.fillTo(ctx, r.Offset, r.Timestamp); err != nil {
		return err
	}
	b.records++
	return b.put(ctx, r)
}

// fillTo adds fillers up to an offset. They get the timestamp of the record after them, so that a
// search by time has the same result in the copy as in the source. The zero time means now.
func (b *mirrorBatch) fillTo(ctx context.Context, offset int64, at time.Time) error {
	for b.next < offset {
		b.fill++
		filler := kafka.NewFiller(b.topic, b.number)
		filler.Offset, filler.Timestamp = b.next, at
		if err := b.put(ctx, filler); err != nil {
			return err
		}
	}
	return nil
}

func (b *mirrorBatch) put(ctx context.Context, r kafka.Record) error {
	b.next = r.Offset + 1
	return b.batches.add(ctx, r)
}

// place places records in the target and reports the progress.
func (c *mirroring) place(ctx context.Context, records ...kafka.Record) error {
	if err := c.target.Place(ctx, records...); err != nil {
		return err
	}
	c.done += int64(len(records))
	if c.Progress != nil {
		c.Progress(c.done, c.total)
	}
	return nil
}

func (c *mirroring) topics() (list []MirroredTopic) {
	for _, p := range c.plan {
		if len(list) == 0 || list[len(list)-1].Topic != p.topic {
			list = append(list, MirroredTopic{Topic: p.topic})
		}
		t := &list[len(list)-1]
		t.Records += p.records
		t.Fillers += p.fill
		t.Before += p.have
	}
	return list
}

// copyPositions commits the positions of the source's groups for the target's, and returns
// the names of the groups. Offsets are the same on both sides.
func copyPositions(ctx context.Context, from, to kafka.Cluster) (groups []string, err error) {
	taken := make(map[string]kadm.Offsets)
	err = from.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		taken, err = positionsOf(ctx, admin, from.Prefix)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("mirror: reading the positions of the source's groups: %w", err)
	}
	err = to.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		for name, offsets := range taken {
			if len(offsets) == 0 {
				continue
			}
			if err := admin.CommitAllOffsets(ctx, to.Prefix+
				name, renamed(offsets, from.Prefix, to.Prefix)); err != nil {
				return fmt.Errorf("group %s (stop what runs on the target): %w", to.Prefix+name, err)
			}
			groups = append(groups, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("mirror: writing positions to the target: %w", err)
	}
	slices.Sort(groups)
	return groups, nil
}

// positionsOf returns the positions of each group with a prefix, by its name without the prefix.
func positionsOf(
	ctx context.Context, admin *kadm.Client, prefix string,
) (map[string]kadm.Offsets, error) {
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	taken := make(map[string]kadm.Offsets)
	for _, group := range listed.Groups() {
		name, ours := strings.CutPrefix(group, prefix)
		if !ours {
			continue
		}
		answers, err := admin.FetchOffsets(ctx, group)
		if err == nil {
			err = answers.Error()
		}
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", group, err)
		}
		taken[name] = answers.Offsets()
	}
	return taken, nil
}

// renamed returns positions by the target's topic names.
func renamed(offsets kadm.Offsets, from, to string) kadm.Offsets {
	out := make(kadm.Offsets)
	offsets.Each(func(o kadm.Offset) {
		if name, ours := strings.CutPrefix(o.Topic, from); ours {
			o.Topic, o.LeaderEpoch = to+name, -1
			out.Add(o)
		}
	})
	return out
}
