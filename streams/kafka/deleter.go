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

// Deleter deletes records of topics, and reads the positions of their readers.
type Deleter struct{ *Ends }

// NewDeleter opens a client.
func (c Cluster) NewDeleter() (*Deleter, error) {
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &Deleter{ends}, nil
}

// Positions returns the committed offsets of this deployment's groups, by group name. It fails
// unless every broker answers: one that does not may coordinate a group that still needs records.
// The expected groups need not exist, but the user must be allowed to describe them.
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
	// This ignores positions in an open transaction: the earlier position is lower.
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

// Sizes returns the size of partitions on the brokers, in bytes: for each partition that of its
// largest replica. Deleted records count until the broker has freed their file.
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

// DeleteBefore deletes the records before offsets. If the first offset of a partition is already
// larger, nothing happens.
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

// Hold keeps a [Deleter] from deleting records while a reader that is not a member of a group reads
// them. It commits their first offsets for a group with that name. Release ends the hold. The hold
// of a process that died ends when the cluster drops the positions of groups without members
// (offsets.retention.minutes), or with the next hold of the same name.
func (c Cluster) Hold(ctx context.Context, group string, from Offsets) error {
	offsets := make(kadm.Offsets)
	for topic, by := range from {
		for partition, first := range by {
			offsets.AddOffset(c.fullName(topic), partition, first, unknownEpoch)
		}
	}
	err := c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		return doWhileTransient(ctx, func() error {
			return admin.CommitAllOffsets(ctx, c.fullName(group), offsets)
		})
	})
	if err != nil {
		return fmt.Errorf("streams: protecting records for %s from deletion: %w",
			c.fullName(group), err)
	}
	return nil
}

// Release ends a hold. It is not an error if there is no hold.
func (c Cluster) Release(ctx context.Context, group string) error {
	err := c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		return doWhileTransient(ctx, func() error {
			deleted, err := admin.DeleteGroup(ctx, c.fullName(group))
			return errors.Join(err, deleted.Err)
		})
	})
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return fmt.Errorf("streams: releasing the records that %s holds: %w", c.fullName(group), err)
	}
	return nil
}
