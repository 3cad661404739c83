package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// RemoveMember removes from groups the member that has this process' InstanceID, and
// returns the groups that it was in. Their partitions go to the others at once, which
// otherwise wait for the end of the session.
//
// It is for whoever knows that the process of this name is dead. Should it err, nothing
// is lost: what a former owner still has under way is fenced by its transactional id, as
// after the end of a session, and a member that lives under the name joins again.
func (c Cluster) RemoveMember(ctx context.Context, groups ...string) (from []string, err error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	was, failed := make([]bool, len(groups)), make([]error, len(groups))
	var asked sync.WaitGroup // one coordinator that does not answer holds no other group up
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

// removeFrom reports whether the member was in a group, and is not any more.
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
