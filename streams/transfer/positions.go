package transfer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/lumenhook/lumenhook/streams/kafka"
)

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

// positionsOf returns the positions of each group with a prefix, by its name without the
// prefix.
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
