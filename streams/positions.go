package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MaxNoteBytes is the longest note of a position that brokers accept by default
// (offset.metadata.max.bytes).
const MaxNoteBytes = 4096

// Position is a group's committed position in a partition, for parts of the program that
// have no other state.
type Position struct {
	Next int64  // all records below this offset are done
	Note string // what else the group must remember
}

// Positions returns the group's committed positions; a partition without one is left out.
func (m *Membership) Positions(ctx context.Context) (map[int32]Position, error) {
	committed, err := kadm.NewClient(m.client).FetchOffsetsForTopics(ctx, m.group, m.topic)
	if err == nil {
		err = committed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("streams: asking for the positions of group %s: %w", m.group, err)
	}
	by := make(map[int32]Position)
	committed.Each(func(o kadm.OffsetResponse) {
		if o.At >= 0 {
			by[o.Partition] = Position{Next: o.At, Note: o.Metadata}
		}
	})
	return by, nil
}

// ErrNotMember means that the group has continued without this member.
var ErrNotMember = errors.New("the group has gone on without this member")

// Commit commits the group's position in a partition. If the group has reached another
// generation without this member, it fails with ErrNotMember.
func (m *Membership) Commit(ctx context.Context, partition int32, at Position) error {
	if len(at.Note) > MaxNoteBytes {
		return fmt.Errorf("streams: a position's note has %d bytes and may have %d", len(at.Note),
			MaxNoteBytes)
	}
	noted := kgo.PreCommitFnContext(ctx, func(req *kmsg.OffsetCommitRequest) error {
		for _, t := range req.Topics {
			for i := range t.Partitions {
				t.Partitions[i].Metadata = &at.Note
			}
		}
		return nil
	})
	var failed error
	offsets := map[string]map[int32]kgo.EpochOffset{m.topic: {partition: {Epoch: -1, Offset: at.Next}}}
	m.client.CommitOffsetsSync(noted, offsets, func(
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
		return fmt.Errorf("streams: committing the position of group %s in partition %d: %w", m.group,
			partition, failed)
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

// Since returns, for each partition of a topic, the offset of the first record that was
// written at that time or later; the end if there is none.
func (e *Ends) Since(ctx context.Context, topic string, at time.Time) (map[int32]int64, error) {
	// A partition without such a record gets the end that was read first: what is appended in
	// between is not left out.
	ends, err := e.Of(ctx, topic)
	if err != nil {
		return nil, err
	}
	since, err := e.offsets(ctx, topic, at.UnixMilli())
	for p, first := range since {
		if end := ends[p]; first < 0 || first > end {
			since[p] = end
		}
	}
	return since, err
}
