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

// inputEnds are the ends of inputs, read after the follower's cursor and before the states are
// folded. The cause of any record below them is in the states, or also below them: if a writer knew
// a record, it was acknowledged, and is therefore in a journal that is read later.
type inputEnds struct{ commands, matches, payments map[int32]int64 }

// inputEnds reads the ends. Those of the commands come first: a report that a part of a backfill
// has ended must not be in the copy without the part's matches.
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

// foldsForOne bounds how often the journals are read again because the end of one was read too
// early.
const foldsForOne = 3

// foldToEnd folds the states to one position. The ends of the journals are requested at once, but
// one broker may answer seconds before another. A state may then have a watch whose endpoint was
// created in between. In that case the ends are read again.
func (s *Source) foldToEnd(ctx context.Context) error {
	for range foldsForOne {
		if err := s.Fold(ctx); err != nil {
			return err
		}
		if whole, err := s.isComplete(); err != nil || whole {
			return err
		}
	}
	return nil // the endpoint is missing in every journal
}

func (s *Source) isComplete() (whole bool, err error) {
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

func (s *Source) stateOf(aggregate string) *store.Store {
	return s.replicas[kafka.PartitionOf(len(s.replicas))(aggregate)].Store()
}

// isCopied reports whether a match that the states have not taken belongs to the copy. A match
// after the ends in before may be for a watch or an endpoint that the copy does not have, or not in
// the version that the follower had. The new follower makes it again, with the same id, for the
// watches that exist then. If it were copied, it would be taken before its endpoint exists, and
// cancelled.
//
// It is copied if the copy records that its ledger was already matched against its watch, because
// then it is not made again.
func (s *Source) isCopied(r kafka.Record, before map[int32]int64) (bool, error) {
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

// judged reports whether a ledger was matched against a watch, or is in an open part of a backfill,
// whose matches are read back.
func judged(w domain.Watch, ledger uint32) bool {
	return len(w.Uncovered(domain.Range{From: ledger, To: ledger})) == 0 ||
		slices.ContainsFunc(w.Parts, func(p domain.Part) bool { return p.Has(ledger) })
}

// isAhead reports whether an event was handed over by a fact that is not in the state of its
// journal. It is not copied: the input that led to it is taken again, and hands it over again.
func (s *Source) isAhead(in domain.MatchInput) bool {
	from := in.Moved.FromPartition
	if in.Moved.Number == 0 || from < 0 || from >= s.Partitions() {
		return false
	}
	return in.Moved.Number >= uint64(s.replicas[from].Folded())
}

// readBackFrom lowers offsets of "matches" to the start of the open parts of backfills.
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
