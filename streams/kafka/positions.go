package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Positions returns the group's committed positions. It omits partitions without a position.
func (m *Membership) Positions(ctx context.Context) (map[int32]int64, error) {
	committed, err := kadm.NewClient(m.client).FetchOffsetsForTopics(ctx, m.group, m.topic)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("streams: fetching the positions of group %s: %w", m.group, err)
	}
	by := make(map[int32]int64)
	committed.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			by[o.Partition] = o.At
		}
	})
	return by, nil
}

// ErrNotMember means that the group has continued without this member.
var ErrNotMember = errors.New("the group has continued without this member")

// Commit commits positions for the group, so that a [Deleter] may delete earlier records. The
// topics need not be those of the group. It returns ErrNotMember if the group has reached another
// generation without this member.
func (m *Membership) Commit(ctx context.Context, done Offsets) error {
	var failed error
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for topic, by := range done {
		name := m.fullName(topic)
		offsets[name] = make(map[int32]kgo.EpochOffset)
		for partition, next := range by {
			offsets[name][partition] = kgo.EpochOffset{Epoch: unknownEpoch, Offset: next}
		}
	}
	m.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse,
		err error,
	) {
		failed = errors.Join(err, refusals(resp))
	})
	if errors.Is(failed, kerr.IllegalGeneration) || errors.Is(failed, kerr.UnknownMemberID) ||
		errors.Is(failed, kerr.FencedInstanceID) {
		failed = fmt.Errorf("%w: %w", ErrNotMember, failed)
	}
	if failed != nil {
		return fmt.Errorf("streams: committing positions of group %s: %w", m.group, failed)
	}
	return nil
}

func refusals(resp *kmsg.OffsetCommitResponse) (err error) {
	if resp == nil {
		return nil
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			err = errors.Join(err, kerr.ErrorForCode(p.ErrorCode))
		}
	}
	return err
}
