package transfer

import (
	"context"
	"fmt"
	"slices"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/engine"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// inputEnds are the ends of inputs, read after the follower's cursor and before the states
// are folded. What caused a record below them is in the states, or below them too: what
// somebody knows to be there was acknowledged, and so it is in a journal that is read later.
type inputEnds struct{ commands, matches, payments map[int32]int64 }

// inputEnds reads the ends. Those of the commands come first: a report that a part of a
// backfill has ended must not be in the copy without the part's matches.
func (s *Source) inputEnds(ctx context.Context) (ends inputEnds, err error) {
	if ends.commands, err = s.ends.Of(ctx, schemas.TopicCommands); err != nil {
		return ends, err
	}
	if ends.matches, err = s.ends.Of(ctx, schemas.TopicMatches); err != nil {
		return ends, err
	}
	ends.payments, err = s.ends.Of(ctx, schemas.TopicPayments)
	return ends, err
}

// foldsForOne bounds how often the journals are read again for one whose end was asked for too
// early.
const foldsForOne = 3

// foldWhole folds the states to one position. The ends of the journals are asked for at once,
// but one broker may answer seconds before another: then a state may know a watch by now whose
// endpoint was created in between. The end of the endpoint's journal is asked for once more.
func (s *Source) foldWhole(ctx context.Context) error {
	for range foldsForOne {
		if err := s.Fold(ctx); err != nil {
			return err
		}
		if whole, err := s.isWhole(); err != nil || whole {
			return err
		}
	}
	return nil // it lacks the endpoint wherever one looks
}

// isWhole reports whether the states have the endpoint of each watch.
func (s *Source) isWhole() (whole bool, err error) {
	whole = true
	for _, state := range s.states() {
		err := state.Each(func(key, value []byte) (bool, error) {
			w, is, err := engine.WatchIn(key, value)
			if err != nil || !is || w.Deleted() {
				return err == nil, err
			}
			whole, err = engine.HasEndpoint(s.stateOf(w.EndpointID), w.EndpointID)
			return whole, err
		})
		if err != nil || !whole {
			return false, err
		}
	}
	return whole, nil
}

// stateOf returns the state of an aggregate's partition.
func (s *Source) stateOf(aggregate string) *store.Store {
	return s.replicas[kafka.PartitionOf(len(s.replicas))(aggregate)].Store()
}

// goesAlong reports whether a match that the states have not taken belongs to the copy. One
// that lies behind the ends of before may be of a watch or an endpoint that the copy does not
// have, or not yet have as the follower had it: the new follower makes it again, under its id,
// for the watches that there are. Taken in before its endpoint, it would be cancelled.
//
// It stays if the copy says that its ledger was judged for its watch: nobody makes it again.
func (s *Source) goesAlong(r kafka.Record, before map[int32]int64) (bool, error) {
	in, err := schemas.DecodePaymentMatched(schemas.Read(r.Value, r))
	if err != nil {
		return true, nil // the engine sets it aside
	}
	if in.Moved.Moves > 0 || in.Event.Type.TellsOfEndpoint() {
		return !s.isAhead(in), nil
	}
	if r.Offset < before[r.Partition] {
		return true, nil
	}
	made, err := schemas.DecodeMatchMade(schemas.Read(r.Value, r))
	if err != nil {
		return false, err
	}
	there, err := engine.HasEndpoint(s.stateOf(in.EndpointID), in.EndpointID)
	if err != nil || !there {
		return false, err
	}
	w, err := engine.WatchOf(s.stateOf(made.WatchID), made.WatchID)
	return err == nil && w.Exists() && judged(w, made.Ledger), err
}

// judged reports whether a ledger was matched against a watch, or is being matched: it is of
// an open part of a backfill, whose matches are read back.
func judged(w domain.Watch, ledger uint32) bool {
	return len(w.Uncovered(domain.Range{From: ledger, To: ledger})) == 0 ||
		slices.ContainsFunc(w.Parts, func(p domain.Part) bool { return p.Has(ledger) })
}

// isAhead reports whether an event was handed over by a fact that is not in the state of the
// journal that it comes from. It does not go along: what led to it is taken again, and hands
// over again.
func (s *Source) isAhead(in domain.MatchInput) bool {
	from := in.Moved.FromPartition
	if in.Moved.Number == 0 || from < 0 || from >= s.Partitions() {
		return false
	}
	return in.Moved.Number >= uint64(s.replicas[from].Folded())
}

// readBackFrom lowers offsets of "matches" to where the open parts of backfills began.
func (s *Source) readBackFrom(offsets map[int32]int64) (map[int32]int64, error) {
	partitionOf := kafka.PartitionOf(len(s.replicas))
	from := make(map[int32]int64)
	for p := range s.Partitions() {
		from[p] = offsets[p]
	}
	for _, state := range s.states() {
		err := state.Each(func(key, value []byte) (bool, error) {
			w, is, err := engine.WatchIn(key, value)
			if err != nil || !is {
				return err == nil, err
			}
			for _, part := range w.Parts {
				p := partitionOf(part.EndpointID)
				from[p] = min(from[p], part.MatchesFrom)
			}
			return true, nil
		})
		if err != nil {
			return nil, fmt.Errorf("transfer: looking for open backfills: %w", err)
		}
	}
	return from, nil
}
