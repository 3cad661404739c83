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

// MaxNoteBytes is how long a position's note may be: a broker takes no more
// unless it is told to (offset.metadata.max.bytes).
const MaxNoteBytes = 4096

// Position is how far a group came in a partition of its topic: what a part
// remembers whose only state it is.
type Position struct {
	Next int64  // offset below which all is done
	Note string // what the group must know beside it
}

// Positions gives the group's committed positions; a partition without one is
// left out.
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

// ErrNotMember means that the group has gone on without this member.
var ErrNotMember = errors.New("the group has gone on without this member")

// Commit remembers how far the group came in a partition. A group that has gone
// on to another generation without this member refuses it, with ErrNotMember.
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

// Since gives, for each partition of a topic, the offset of the first record
// that was written at that time or later; the end if there is none.
func (e *Ends) Since(ctx context.Context, topic string, at time.Time) (map[int32]int64, error) {
	// A partition without such a record is asked for its end a moment later:
	// what was appended in between is not to be left out.
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
