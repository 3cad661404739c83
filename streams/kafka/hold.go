package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

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
