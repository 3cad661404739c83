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

// Deleter deletes records and reads the positions of consumer groups.
type Deleter struct{ *Ends }

// NewDeleter opens a deleter.
func (c Cluster) NewDeleter() (*Deleter, error) {
	ends, err := c.NewEnds()
	if err != nil {
		return nil, err
	}
	return &Deleter{ends}, nil
}

// Positions returns the committed offsets of this deployment's groups, by group name. It fails
// unless every broker answers, because a silent broker may coordinate a group that still needs
// records. The expected groups need not exist, but the user must be allowed to describe them.
func (d *Deleter) Positions(ctx context.Context, expected ...string) (map[string]Offsets, error) {
	admin := kadm.NewClient(d.client)
	listed, err := admin.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("streams: listing the groups: %w", err)
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
	// It is safe to ignore positions in an open transaction: the committed position is lower.
	for name, group := range admin.FetchManyOffsets(ctx, names...) {
		if errors.Is(group.Err, kerr.GroupIDNotFound) {
			continue
		}
		if group.Err != nil {
			return nil, fmt.Errorf("streams: fetching the positions of group %s: %w", name, group.Err)
		}
		of := make(Offsets)
		for _, o := range group.Fetched.Sorted() {
			if o.Err != nil {
				return nil, fmt.Errorf("streams: fetching the positions of group %s in %s: %w", name,
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

// Sizes returns the size of each partition's largest replica, in bytes, including deleted records
// whose segment the broker still has.
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
		return nil, fmt.Errorf("streams: reading the sizes of topics: %w", err)
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

// DeleteBefore deletes the records before the given offsets.
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

// Hold keeps a [Deleter] from deleting records while a reader outside of any group reads them, by
// committing their first offsets for the named group. Release ends the hold. If the process dies,
// the hold lasts until the cluster expires the group's offsets (offsets.retention.minutes), or
// until the next hold of the same name.
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

// Release ends a hold. Releasing a hold that does not exist is not an error.
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
