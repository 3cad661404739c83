package engine

import (
	"fmt"
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lumenhook/lumenhook/domain"
	"github.com/lumenhook/lumenhook/schemas"
	"github.com/lumenhook/lumenhook/streams"
)

// First bytes of the store's keys.
const (
	spaceAccount  = streams.FirstKey + iota
	spaceEndpoint // 0x11
	spaceWatch    // 0x12
	spaceDelivery // 0x13
	spaceBody     // 0x14
	spaceCommand  // 0x15
)

// groupCommands is the timer group of answers that will be forgotten.
const groupCommands = "commands"

// rememberCommands is how long an answer is kept. Repeats are promised to be
// noticed for 24 hours; the rest is for clocks and long restores.
const rememberCommands = 48 * 3_600_000 // milliseconds

// cachedEndpoints bounds the endpoints that are kept decoded.
const cachedEndpoints = 4096

func keyOf(space byte, id string) []byte { return append([]byte{space}, id...) }

// state reads and folds aggregates. Endpoints are kept decoded, because every
// fact of a delivery counts their version up; those that a turn changed are
// written once, when it ends.
type state struct {
	clean   *lru.Cache[string, domain.Endpoint]
	changed map[string]domain.Endpoint
}

func newState() *state {
	clean, err := lru.New[string, domain.Endpoint](cachedEndpoints)
	if err != nil {
		panic(err) // the size is a constant above zero
	}
	return &state{clean: clean, changed: make(map[string]domain.Endpoint)}
}

func load[T any](tx *streams.Txn, space byte, id string, decode func([]byte) (T, error)) (T, error) {
	var none T
	value, err := tx.Get(keyOf(space, id))
	if err != nil || value == nil {
		return none, err
	}
	v, err := decode(value)
	if err != nil {
		return none, fmt.Errorf("engine: decoding the state of %s (it is a cache: delete the state folder to build it anew): %w", id, err)
	}
	return v, nil
}

func (s *state) account(tx *streams.Txn, id string) (domain.Account, error) {
	return load(tx, spaceAccount, id, schemas.UnmarshalAccount)
}

func (s *state) watch(tx *streams.Txn, id string) (domain.Watch, error) {
	return load(tx, spaceWatch, id, schemas.UnmarshalWatch)
}

func (s *state) delivery(tx *streams.Txn, eventID string) (domain.Delivery, error) {
	return load(tx, spaceDelivery, eventID, schemas.UnmarshalDelivery)
}

func (s *state) endpoint(tx *streams.Txn, id string) (domain.Endpoint, error) {
	if e, ok := s.changed[id]; ok {
		return e, nil
	}
	if e, ok := s.clean.Get(id); ok {
		return e, nil
	}
	e, err := load(tx, spaceEndpoint, id, schemas.UnmarshalEndpoint)
	if err == nil && e.Exists() {
		s.clean.Add(id, e)
	}
	return e, err
}

// flush writes the endpoints that changed.
func (s *state) flush(tx *streams.Txn) error {
	for id, e := range s.changed {
		if err := tx.Set(keyOf(spaceEndpoint, id), schemas.MarshalEndpoint(e)); err != nil {
			return err
		}
		s.clean.Add(id, e)
	}
	clear(s.changed)
	return nil
}

// version is the version of an aggregate.
func (s *state) version(tx *streams.Txn, aggregate string) (uint64, error) {
	switch prefixOf(aggregate) {
	case domain.AccountPrefix:
		a, err := s.account(tx, aggregate)
		return a.Version, err
	case domain.WatchPrefix:
		w, err := s.watch(tx, aggregate)
		return w.Version, err
	default:
		e, err := s.endpoint(tx, aggregate)
		return e.Version, err
	}
}

func prefixOf(id string) string {
	prefix, _, _ := strings.Cut(id, "_")
	return prefix + "_"
}

// fold changes the state as a fact says. A fact that was folded before changes
// nothing.
func (s *state) fold(tx *streams.Txn, f domain.Fact) error {
	version, err := s.version(tx, f.Aggregate)
	if err != nil {
		return err
	}
	if f.Version <= version {
		return nil
	}
	if f.Version != version+1 {
		return fmt.Errorf("engine: the journal has fact %s of %s at version %d after version %d: facts are missing", f.Body.FactType(), f.Aggregate, f.Version, version)
	}
	if err := s.foldAggregate(tx, f); err != nil {
		return err
	}
	switch body := f.Body.(type) {
	case domain.DeliveryCreated:
		if err := tx.Set(keyOf(spaceBody, body.Event.ID), body.Event.Body); err != nil {
			return err
		}
		return s.foldDelivery(tx, f, body.Event.ID)
	case domain.AttemptMade:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.DeliveryRequeued:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.DeliveryCancelled:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.CommandHandled:
		if err := tx.SetTimer(groupCommands, f.AtMillis+rememberCommands, body.CommandID); err != nil {
			return err
		}
		return tx.Set(keyOf(spaceCommand, body.CommandID), schemas.MarshalHandled(body))
	}
	return nil
}

func (s *state) foldAggregate(tx *streams.Txn, f domain.Fact) error {
	switch prefixOf(f.Aggregate) {
	case domain.AccountPrefix:
		a, err := s.account(tx, f.Aggregate)
		if err != nil {
			return err
		}
		return tx.Set(keyOf(spaceAccount, f.Aggregate), schemas.MarshalAccount(domain.EvolveAccount(a, f)))
	case domain.WatchPrefix:
		w, err := s.watch(tx, f.Aggregate)
		if err != nil {
			return err
		}
		return tx.Set(keyOf(spaceWatch, f.Aggregate), schemas.MarshalWatch(domain.EvolveWatch(w, f)))
	default:
		e, err := s.endpoint(tx, f.Aggregate)
		if err != nil {
			return err
		}
		s.changed[f.Aggregate] = domain.EvolveEndpoint(e, f)
		return nil
	}
}

// foldDelivery folds a fact into a delivery and moves its entry in the timer
// index (G3).
func (s *state) foldDelivery(tx *streams.Txn, f domain.Fact, eventID string) error {
	before, err := s.delivery(tx, eventID)
	if err != nil {
		return err
	}
	endpoint, err := s.endpoint(tx, f.Aggregate)
	if err != nil {
		return err
	}
	after := domain.EvolveDelivery(before, endpoint.Epoch, f)
	if before.State.Pending() {
		if err := tx.ClearTimer(before.EndpointID, before.NextAttemptAtMillis, eventID); err != nil {
			return err
		}
	}
	if after.State.Pending() {
		if err := tx.SetTimer(after.EndpointID, after.NextAttemptAtMillis, eventID); err != nil {
			return err
		}
	}
	return tx.Set(keyOf(spaceDelivery, eventID), schemas.MarshalDelivery(after))
}
