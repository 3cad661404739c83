package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// Deleter deletes records of topics, and asks how far their readers are.
type Deleter struct{ *Ends }

// NewDeleter opens a client.
func (c Cluster) NewDeleter() (*Deleter, error) {
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &Deleter{ends}, nil
}

// Positions returns what the groups of this deployment have committed, by their names. It
// fails unless every broker answers: one that does not may coordinate a group that still
// needs records. The expected groups need not exist, but it must be allowed to ask for them.
func (d *Deleter) Positions(ctx context.Context, expected ...string) (map[string]Offsets, error) {
	admin := kadm.NewClient(d.client)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("streams: asking which groups there are: %w", err)
	}
	names := slices.DeleteFunc(listed.Groups(), func(name string) bool {
		return !strings.HasPrefix(name, d.cluster.Prefix)
	})
	for _, group := range expected {
		if name := d.cluster.fullName(group); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	by := make(map[string]Offsets)
	// What a transaction that is open commits is not counted: the earlier position is below.
	for name, group := range admin.FetchManyOffsets(ctx, names...) {
		if errors.Is(group.Err, kerr.GroupIDNotFound) {
			continue
		}
		if group.Err != nil {
			return nil, fmt.Errorf("streams: asking for the positions of group %s: %w", name, group.Err)
		}
		of := make(Offsets)
		for _, o := range group.Fetched.Sorted() {
			if o.Err != nil {
				return nil, fmt.Errorf("streams: asking for the positions of group %s in %s: %w", name,
					o.Topic, o.Err)
			}
			if topic, ours := strings.CutPrefix(o.Topic, d.cluster.Prefix); ours && o.At >= 0 {
				of.Set(topic, o.Partition, o.At)
			}
		}
		by[d.cluster.shortName(name)] = of
	}
	return by, nil
}

// Set sets the offset of a partition.
func (o Offsets) Set(topic string, partition int32, offset int64) {
	if o[topic] == nil {
		o[topic] = make(map[int32]int64)
	}
	o[topic][partition] = offset
}

// Sizes returns how many bytes brokers hold of partitions: of each its largest replica. What
// was deleted counts until the broker has freed the file that it is in.
func (d *Deleter) Sizes(
	ctx context.Context, partitions []int32, topics ...string,
) (map[string]map[int32]int64, error) {
	asked := make(kadm.TopicsSet)
	for _, topic := range topics {
		asked.Add(d.cluster.fullName(topic), partitions...)
	}
	brokers, err := kadm.NewClient(d.client).DescribeAllLogDirs(ctx, asked)
	for _, dirs := range brokers {
		err = errors.Join(err, dirs.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("streams: asking how large topics are: %w", err)
	}
	by := make(Offsets)
	for _, dirs := range brokers {
		dirs.EachPartition(func(p kadm.DescribedLogDirPartition) {
			topic := d.cluster.shortName(p.Topic)
			by.Set(topic, p.Partition, max(by[topic][p.Partition], p.Size))
		})
	}
	return by, nil
}

// DeleteBefore deletes the records below offsets. The first offset of a partition may be
// beyond the asked one already; then nothing happens.
func (d *Deleter) DeleteBefore(ctx context.Context, below Offsets) error {
	asked := make(kadm.Offsets)
	for topic, by := range below {
		for partition, offset := range by {
			asked.AddOffset(d.cluster.fullName(topic), partition, offset, unknownEpoch)
		}
	}
	deleted, err := kadm.NewClient(d.client).DeleteRecords(ctx, asked)
	if err != nil {
		return fmt.Errorf("streams: deleting records: %w", err)
	}
	for _, topic := range slices.Sorted(maps.Keys(deleted)) {
		for partition, answer := range deleted[topic] {
			if answer.Err != nil && !errors.Is(answer.Err, kerr.OffsetOutOfRange) {
				return fmt.Errorf("streams: deleting records of partition %d of %s: %w", partition, topic,
					answer.Err)
			}
		}
	}
	return nil
}

// Hold keeps records from being deleted as not needed ([Deleter]) while somebody reads them
// without being a member of a group: it commits their first offsets for a group of that
// name. Release gives them free. What a process that died has held is free when the cluster
// forgets positions of groups without members (offsets.retention.minutes), or with the next
// hold of that name.
func (c Cluster) Hold(ctx context.Context, group string, from Offsets) error {
	offsets := make(kadm.Offsets)
	for topic, by := range from {
		for partition, first := range by {
			offsets.AddOffset(c.fullName(topic), partition, first, unknownEpoch)
		}
	}
	err := c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		_, err := whileTransient(ctx, func() (struct{}, error) {
			return struct{}{}, admin.CommitAllOffsets(ctx, c.fullName(group), offsets)
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("streams: holding records for %s, so that they are not deleted meanwhile: %w",
			c.fullName(group), err)
	}
	return nil
}

// Release ends a hold. There need not be one.
func (c Cluster) Release(ctx context.Context, group string) error {
	err := c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		_, err := whileTransient(ctx, func() (struct{}, error) {
			deleted, err := admin.DeleteGroup(ctx, c.fullName(group))
			return struct{}{}, errors.Join(err, deleted.Err)
		})
		return err
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("streams: giving free what %s has held: %w", c.fullName(group), err)
	}
	return nil
}
