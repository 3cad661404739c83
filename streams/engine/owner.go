package engine

import (
	"fmt"
	"strings"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams/kafka"
	"github.com/lumenhook/lumenhook/streams/store"
)

// Owner returns the aggregate in whose partition an entry of s belongs. Entries of the partition
// itself belong to none, such as handover numbers, which are meaningless with another journal.
func Owner(s *store.Store, key, value []byte) (aggregate string, err error) {
	group, id, err := store.TimerOf(key)
	switch {
	case err != nil:
		return "", err
	case group != "":
		return timerOwner(s, group, id)
	case len(key) < 2:
		return "", nil
	}
	name := string(key[1:])
	switch key[0] {
	case spaceAccount, spaceEndpoint, spaceWatch:
		return name, nil
	case spaceDelivery:
		d, err := schemas.UnmarshalDelivery(value)
		return owned(name, d.EndpointID, err)
	case spaceBody:
		d, err := load(s, spaceDelivery, name, schemas.UnmarshalDelivery)
		return owned(name, d.EndpointID, err)
	case spaceCommand:
		aggregate, _, err := schemas.HandledFor(value)
		return owned(name, aggregate, err)
	case spaceReplayable, spaceLine, spaceBehind:
		endpointID, _, _ := strings.Cut(name, "\x00")
		return endpointID, nil
	case spaceNotice:
		return domain.EndpointOfNotice(name), nil
	case spaceSettled:
		d, err := settledAs(s, value)
		return d.EndpointID, err
	}
	return "", nil
}

// timerOwner is [Owner] for a timer entry, or for the mark of a group.
func timerOwner(s *store.Store, group, id string) (aggregate string, err error) {
	switch group {
	case groupCommands:
		value, err := s.Get(keyOf(spaceCommand, id))
		if err == nil && value == nil {
			return "", nil // a second timer of a command that was handled twice
		}
		if err == nil {
			aggregate, _, err = schemas.HandledFor(value)
		}
		return owned(id, aggregate, err)
	case groupMails, groupOrders:
		return domain.EndpointOfNotice(id), nil
	default:
		return endpointOf(group), nil
	}
}

func owned(name, aggregate string, err error) (string, error) {
	if err == nil && domain.KindOf(aggregate) == domain.KindNone {
		err = noAggregate(aggregate)
	}
	if err != nil {
		return "", fmt.Errorf("engine: finding the owner of the entry of %.80q: %w", name, err)
	}
	return aggregate, nil
}

// IsDelivery reports whether a key of the state belongs to a delivery.
func IsDelivery(key []byte) bool { return len(key) > 1 && key[0] == spaceDelivery }

// IsBody reports whether a key of the state belongs to an event's body.
func IsBody(key []byte) bool { return len(key) > 1 && key[0] == spaceBody }

// Later returns the delivery with more moves, to keep when the partitions of two are merged.
func Later(a, b []byte) ([]byte, error) {
	first, err := schemas.UnmarshalDelivery(a)
	if err != nil {
		return nil, err
	}
	second, err := schemas.UnmarshalDelivery(b)
	if err != nil || first.Moves >= second.Moves {
		return a, err
	}
	return b, nil
}

// WatchIn returns the watch in an entry of the state, if it is one.
func WatchIn(key, value []byte) (w domain.Watch, is bool, err error) {
	if len(key) < 2 || key[0] != spaceWatch {
		return w, false, nil
	}
	w, err = schemas.UnmarshalWatch(value)
	return w, true, err
}

// WatchOf returns a watch of a state, or the zero value if it does not exist.
func WatchOf(s *store.Store, id string) (domain.Watch, error) {
	return load(s, spaceWatch, id, schemas.UnmarshalWatch)
}

// HasEndpoint reports whether a state has an endpoint, even a deleted one.
func HasEndpoint(s *store.Store, id string) (bool, error) {
	value, err := s.Get(keyOf(spaceEndpoint, id))
	return value != nil, err
}

// Row returns the table row of an entry, if it is an account, an endpoint or a watch.
func Row(key, value []byte) (r kafka.Record, is bool, err error) {
	if len(key) < 2 {
		return r, false, nil
	}
	id := string(key[1:])
	switch key[0] {
	case spaceAccount:
		a, err := schemas.UnmarshalAccount(value)
		return rowRecord(schemas.TopicAccounts, id, schemas.EncodeAccount(a)), true, err
	case spaceEndpoint:
		e, err := schemas.UnmarshalEndpoint(value)
		return rowRecord(schemas.TopicEndpoints, id, schemas.EncodeEndpoint(e)), true, err
	case spaceWatch:
		w, err := schemas.UnmarshalWatch(value)
		return rowRecord(schemas.TopicWatches, id, schemas.EncodeWatch(w)), true, err
	}
	return r, false, nil
}

func rowRecord(topic, id string, row schemas.Message) kafka.Record {
	return kafka.NewRecord(topic, id, row.Value, row.EachHeader)
}
