package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
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
	spaceFailed   // 0x16
	spaceTabled   // 0x17
)

// groupCommands is the timer group of answers that will be forgotten.
const groupCommands = "commands"

// rememberCommands is how long an answer is kept. Repeats are promised to be
// noticed for 24 hours; the rest is for clocks and long restores.
const rememberCommands = 48 * 3_600_000 // milliseconds

// Bounds of what is kept decoded, for each partition.
const (
	cachedEndpoints  = 4096
	cachedDeliveries = 8192
	cachedBodies     = 2048
)

// maxCounted bounds how many failed deliveries a replay counts.
const maxCounted = 100_000

func keyOf(space byte, id string) []byte { return append([]byte{space}, id...) }

// deliveryGroup is the timer group of an endpoint's pending deliveries. Each
// enabling begins another, so that what waited before is due by one write
// (streams.Batch.MakeDue), and what fails afterwards waits on the schedule.
func deliveryGroup(endpointID string, epoch uint32) string {
	return endpointID + "/" + strconv.FormatUint(uint64(epoch), 10)
}

// endpointOf is the endpoint of a timer group.
func endpointOf(group string) string {
	endpointID, _, _ := strings.Cut(group, "/")
	return endpointID
}

// failedKey orders the deliveries of an endpoint that a replay may queue by when
// their events were created.
//
//	0x16 | endpoint id | 0x00 | created, 8 bytes, big endian | event id
func failedKey(endpointID string, createdAtMillis int64, eventID string) []byte {
	key := append(keyOf(spaceFailed, endpointID), 0)
	return append(binary.BigEndian.AppendUint64(key, uint64(max(createdAtMillis, 0))), eventID...)
}

// reader is committed state, or a transaction on it.
type reader interface {
	Get(key []byte) ([]byte, error)
}

// state reads and folds aggregates. Endpoints and deliveries are kept decoded:
// every fact of a delivery counts its endpoint's version up, and a delivery is
// mostly attempted right after it was created. What a batch changed is written
// once, when it ends.
type state struct {
	endpoints  kept[domain.Endpoint]
	deliveries kept[domain.Delivery]
	bodies     *lru.Cache[string, []byte]
}

// kept holds aggregates of one kind: those that the batch changed, and some of
// those that are as they are in the store.
type kept[T any] struct {
	space   byte
	encode  func(T) []byte
	decode  func([]byte) (T, error)
	exists  func(T) bool
	clean   *lru.Cache[string, T]
	changed map[string]T
}

func newKept[T any](
	space byte, size int, encode func(T) []byte, decode func([]byte) (T, error),
	exists func(T) bool,
) kept[T] {
	return kept[T]{
		space:   space,
		encode:  encode,
		decode:  decode,
		exists:  exists,
		clean:   newCache[T](size),
		changed: make(map[string]T),
	}
}

func newCache[T any](size int) *lru.Cache[string, T] {
	c, err := lru.New[string, T](size)
	if err != nil {
		panic(err) // the size is a constant above zero
	}
	return c
}

func (k *kept[T]) get(r reader, id string) (T, error) {
	if v, ok := k.changed[id]; ok {
		return v, nil
	}
	if v, ok := k.clean.Get(id); ok {
		return v, nil
	}
	v, err := load(r, k.space, id, k.decode)
	if err == nil && k.exists(v) {
		k.clean.Add(id, v)
	}
	return v, err
}

func (k *kept[T]) flush(tx *streams.Batch) error {
	for id, v := range k.changed {
		if err := tx.Set(keyOf(k.space, id), k.encode(v)); err != nil {
			return err
		}
		k.clean.Add(id, v)
	}
	clear(k.changed)
	return nil
}

func newState() *state {
	return &state{
		endpoints: newKept(spaceEndpoint, cachedEndpoints, schemas.MarshalEndpoint,
			schemas.UnmarshalEndpoint, domain.Endpoint.Exists),
		deliveries: newKept(spaceDelivery, cachedDeliveries, schemas.MarshalDelivery,
			schemas.UnmarshalDelivery, domain.Delivery.Exists),
		bodies: newCache[[]byte](cachedBodies),
	}
}

func load[T any](r reader, space byte, id string, decode func([]byte) (T, error)) (T, error) {
	var none T
	value, err := r.Get(keyOf(space, id))
	if err != nil || value == nil {
		return none, err
	}
	v, err := decode(value)
	if err != nil {
		return none, fmt.Errorf("engine: decoding the state of %s (it is a cache: delete the state "+
			"folder to build it anew): %w", id, err)
	}
	return v, nil
}

func (s *state) account(r reader, id string) (domain.Account, error) {
	return load(r, spaceAccount, id, schemas.UnmarshalAccount)
}

func (s *state) watch(r reader, id string) (domain.Watch, error) {
	return load(r, spaceWatch, id, schemas.UnmarshalWatch)
}

func (s *state) delivery(r reader, eventID string) (domain.Delivery, error) {
	return s.deliveries.get(r, eventID)
}

func (s *state) endpoint(r reader, id string) (domain.Endpoint, error) {
	return s.endpoints.get(r, id)
}

// known is an endpoint that was just read; nothing for what is none.
func (s *state) known(aggregate string) domain.Endpoint {
	if e, ok := s.endpoints.changed[aggregate]; ok {
		return e
	}
	e, _ := s.endpoints.clean.Peek(aggregate)
	return e
}

// body is what is sent of an event; nil when there is none.
func (s *state) body(r reader, eventID string) ([]byte, error) {
	if body, ok := s.bodies.Get(eventID); ok {
		return body, nil
	}
	return r.Get(keyOf(spaceBody, eventID))
}

// failedBetween gives the first deliveries of an endpoint that a replay may queue
// and whose events were created in a span of time, as many as one replay queues,
// and how many there are, counted up to maxCounted.
func (s *state) failedBetween(
	tx *streams.Batch, endpointID string, sinceMillis, untilMillis int64,
) (first []domain.Delivery, matched int, err error) {
	if untilMillis == 0 {
		untilMillis = math.MaxInt64
	}
	lower, upper := failedKey(endpointID, sinceMillis, ""), failedKey(endpointID, untilMillis, "")
	var ids []string
	err = tx.Scan(lower, upper, func(key, _ []byte) (bool, error) {
		if matched++; len(ids) < domain.MaxReplay {
			ids = append(ids, string(key[len(lower):]))
		}
		return matched < maxCounted, nil
	})
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		d, err := s.delivery(tx, id)
		if err != nil {
			return nil, 0, err
		}
		first = append(first, d)
	}
	return first, matched, nil
}

// flush writes what changed.
func (s *state) flush(tx *streams.Batch) error {
	if err := s.endpoints.flush(tx); err != nil {
		return err
	}
	return s.deliveries.flush(tx)
}

// version is the version of an aggregate.
func (s *state) version(tx reader, aggregate string) (uint64, error) {
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

// fold changes the state as a fact says. Each fact of an aggregate has its next
// version: one that does not is of a turn that the journal does not hold, or
// stands beside one.
func (s *state) fold(tx *streams.Batch, f domain.Fact) error {
	version, err := s.version(tx, f.Aggregate)
	if err != nil {
		return err
	}
	if f.Version <= version {
		return fmt.Errorf("engine: the journal has fact %s of %s at version %d, and another at that "+
			"version before it: one of the two was not committed (check that the broker hands out "+
			"committed records only, then delete the state folder)",
			f.Body.FactType(), f.Aggregate, f.Version)
	}
	if f.Version != version+1 {
		return fmt.Errorf("engine: the journal has fact %s of %s at version %d after version %d: facts "+
			"are missing", f.Body.FactType(), f.Aggregate, f.Version, version)
	}
	if err := s.foldAggregate(tx, f); err != nil {
		return err
	}
	switch body := f.Body.(type) {
	case domain.DeliveryCreated:
		if err := tx.Set(keyOf(spaceBody, body.Event.ID), body.Event.Body); err != nil {
			return err
		}
		s.bodies.Add(body.Event.ID, body.Event.Body)
		return s.foldDelivery(tx, f, body.Event.ID)
	case domain.AttemptMade:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.DeliveryRequeued:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.DeliveryCancelled:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.DeliveryMoved:
		return s.foldDelivery(tx, f, body.EventID)
	case domain.CommandHandled:
		if err := tx.SetTimer(groupCommands, f.AtMillis+rememberCommands, body.CommandID); err != nil {
			return err
		}
		return tx.Set(keyOf(spaceCommand, body.CommandID), schemas.MarshalHandled(body))
	}
	return nil
}

func (s *state) foldAggregate(tx *streams.Batch, f domain.Fact) error {
	switch prefixOf(f.Aggregate) {
	case domain.AccountPrefix:
		a, err := s.account(tx, f.Aggregate)
		if err != nil {
			return err
		}
		return tx.Set(keyOf(spaceAccount, f.Aggregate), schemas.MarshalAccount(domain.EvolveAccount(a,
			f)))
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
		after := domain.EvolveEndpoint(e, f)
		s.endpoints.changed[f.Aggregate] = after
		if after.Epoch != e.Epoch { // what waits goes on, or is cancelled: at once
			return tx.MakeDue(deliveryGroup(e.ID, e.Epoch))
		}
		return nil
	}
}

// foldDelivery folds a fact into a delivery, and moves its entries in the timer
// index (G3) and among the failed.
func (s *state) foldDelivery(tx *streams.Batch, f domain.Fact, eventID string) error {
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
		if err := tx.ClearTimer(deliveryGroup(before.EndpointID, before.EndpointEpoch),
			before.NextAttemptAtMillis, eventID); err != nil {
			return err
		}
	}
	if before.Replayable() {
		if err := tx.Delete(failedKey(before.EndpointID, before.CreatedAtMillis, eventID)); err != nil {
			return err
		}
	}
	s.deliveries.changed[eventID] = after
	switch {
	case after.State.Pending():
		return tx.SetTimer(deliveryGroup(after.EndpointID, after.EndpointEpoch), after.NextAttemptAtMillis,
			eventID)
	case after.Replayable():
		return tx.Set(failedKey(after.EndpointID, after.CreatedAtMillis, eventID), nil)
	}
	return nil
}
