package transfer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
	"github.com/lumenhook/lumenhook/streams/engine"
)

// A torn commit of the embedded broker (docs/decisions/embedded-broker.md) may keep the fact that
// hands an event over, and lose the hand-over. The next start of the partition writes it again,
// from the last facts of the journal. A copy has the state and not these facts: so it has the
// hand-over.

// handOvers are hand-overs of the last facts of the journals, of which no state knows.
type handOvers map[handOver]streams.Record

// handOver identifies one.
type handOver struct {
	from   int32 // partition
	number uint64
}

// tornOff returns the hand-overs that no state knows. Those that stand in the topic are to be
// taken out with stands.
func (s *Source) tornOff(ctx context.Context) (handOvers, error) {
	from, err := s.ends.Starts(ctx, schemas.TopicJournal)
	if err != nil {
		return nil, err
	}
	to := make(map[int32]int64)
	for p, r := range s.replicas {
		p := int32(p) // #nosec G115 -- a partition
		to[p] = r.Folded()
		from[p] = min(max(from[p], to[p]-streams.LatestRecords), to[p])
	}
	torn := make(handOvers)
	err = s.read(ctx, schemas.TopicJournal, from, to, func(r streams.Record) error {
		if r.Header(schemas.HeaderType) == "" { // it is a task's note
			return nil
		}
		match, is, err := engine.HandOverOf(s.replicas[r.Partition].Store(), r)
		if err != nil || !is {
			return err
		}
		in, err := schemas.DecodePaymentMatched(schemas.Read(match.Value, match))
		if err != nil || in.Moved.Number == 0 { // of an older version
			return err
		}
		known, err := engine.KnowsHandOver(s.stateOf(in.EndpointID), in.Moved)
		if !known {
			torn[idOf(in.Moved)] = match
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("transfer: looking for hand-overs that are missing: %w", err)
	}
	return torn, nil
}

func idOf(moved domain.Moved) handOver { return handOver{moved.FromPartition, moved.Number} }

// stands notes that a match is there.
func (h handOvers) stands(r streams.Record) {
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err == nil && in.Moved.Number > 0 {
		delete(h, idOf(in.Moved))
	}
}

// records returns those that are missing, in the order of their numbers.
func (h handOvers) records() (list []streams.Record) {
	ids := slices.SortedFunc(maps.Keys(h), func(a, b handOver) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.number, b.number))
	})
	for _, id := range ids {
		list = append(list, h[id])
	}
	return list
}
