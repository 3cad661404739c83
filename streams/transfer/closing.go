package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/topology"
)

// ErrInUse means that the service runs on topics that must stand still.
var ErrInUse = errors.New("the service still runs on these topics")

// checkUnused fails with ErrInUse while a group of the deployment has members.
func checkUnused(ctx context.Context, c kafka.Cluster) error {
	return c.WithAdmin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		var names []string
		for _, name := range topology.Groups(topology.RoleNames()...) {
			names = append(names, c.Prefix+name)
		}
		groups, err := admin.DescribeGroups(ctx, names...)
		if err != nil {
			return fmt.Errorf("transfer: asking who runs on the topics: %w", err)
		}
		var running []string
		for _, g := range groups.Sorted() {
			if n := len(g.Members); n > 0 {
				running = append(running, fmt.Sprintf("%s (%d)", strings.TrimPrefix(g.Group, c.Prefix), n))
			}
		}
		if len(running) == 0 {
			return nil
		}
		slices.Sort(running)
		return fmt.Errorf("%w: members of the groups %s", ErrInUse, strings.Join(running, ", "))
	})
}

// fence takes over every transactional id of a deployment. Whoever had one, and hung while
// the groups were asked, writes nothing any more, and what it had open is aborted.
func fence(ctx context.Context, c kafka.Cluster, partitions int32) error {
	for _, id := range topology.TransactionalIDs(partitions) {
		if err := c.Fence(ctx, id); err != nil {
			return err
		}
	}
	return nil
}
