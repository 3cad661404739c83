package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// RemoveMember removes the member with this process' InstanceID from groups, and returns
// the groups that it was in. Its partitions go to the other members at once, instead of
// when its session ends.
//
// It is for callers who know that the process of this name is dead. If they are wrong,
// nothing is lost: the former owner is fenced by its transactional id, as after the end of
// a session, and a living member joins again.
func (c Cluster) RemoveMember(ctx context.Context, groups ...string) (from []string, err error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	was, failed := make([]bool, len(groups)), make([]error, len(groups))
	var asked sync.WaitGroup // one coordinator that does not answer delays no other group
	for i, group := range groups {
		asked.Go(func() { was[i], failed[i] = c.removeFrom(ctx, admin, group) })
	}
	asked.Wait()
	for i, group := range groups {
		if was[i] {
			from = append(from, group)
		}
	}
	return from, errors.Join(failed...)
}

// removeFrom reports whether the member was in a group and was removed.
func (c Cluster) removeFrom(
	ctx context.Context, admin *kadm.Client, group string,
) (was bool, err error) {
	name := c.fullName(group)
	request := kadm.LeaveGroup(name).InstanceIDs(c.InstanceID).Reason("its process died")
	removed, err := admin.LeaveGroup(ctx, request)
	if err == nil {
		err = removed.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownMemberID), errors.Is(err, kerr.GroupIDNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("streams: removing %s from group %s: %w", c.InstanceID, name, err)
	}
	_, was = removed[c.InstanceID]
	return was, nil
}
